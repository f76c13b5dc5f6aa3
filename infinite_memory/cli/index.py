"""`infinite-memory index build`: builds an index with another engine while the current one stays in use, compares both, and switches."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from infinite_memory.cli import daemon_requests, tables
from infinite_memory.cli.connect import replace_text
from infinite_memory.cli.daemon import ask_to_go, wait_until_gone
from infinite_memory.cli.progress import add_option, show_progress
from infinite_memory.errors import ConfigError, DaemonError, format_count
from infinite_memory.paths import find_home

Json = dict[str, Any]

ENGINES = {"milvus": "milvus", "embedded": "faiss"}
"""The command's name for an engine, and the setting's."""

ENGINE = "index.engine"
_HEADER = re.compile(r"^\s*\[\s*index\s*\]\s*(#.*)?$", re.MULTILINE)
_ENTRY = re.compile(r"^[ \t]*engine[ \t]*=.*$", re.MULTILINE)
_NEXT_TABLE = re.compile(r"^\s*\[", re.MULTILINE)


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    index = commands.add_parser("index", help="move the index to another engine")
    actions = index.add_subparsers(dest="what", required=True, metavar="build")
    build = actions.add_parser(
        "build", parents=[common], help="fill the index of another engine, compare both, and switch to it"
    )
    build.add_argument("--engine", required=True, choices=sorted(ENGINES), help="where the index is to be")
    build.add_argument("--no-switch", action="store_true", help="fill and compare only")
    build.add_argument("--json", action="store_true", help="print what was found as JSON")
    add_option(build)


def run(options: argparse.Namespace) -> int:
    """Build, compare and switch; 0 on success, 1 if the new index differs, 2 for an invalid setting."""
    home, config = daemon_requests.home_and_config(options)
    engine = ENGINES[options.engine]
    if not options.no_switch:
        check_switchable(config.origins.get(ENGINE))
    reply = _build(options, asdict(replace(config.index, engine=engine)))
    if reply["status"] != "OK":
        tables.note(reply["error"])
        return 2 if reply["error_code"] == "config_error" else 1
    switches = reply["is_good"] and not options.no_switch
    if switches:
        file: Path = options.config or home.config_file
        write_engine(file, engine)
        if (pid := ask_to_go()) is not None:
            wait_until_gone(pid)  # the next request starts a daemon with the new index
    if options.json:
        fields = {name: value for name, value in reply.items() if name != "status"}
        print(json.dumps(fields | {"switched": switches}))
    else:
        _print(reply, options.engine, switches=switches)
    return 0 if reply["is_good"] else 1


def _build(options: argparse.Namespace, settings: Json) -> Json:
    from infinite_memory.daemon.handshake import greet

    greeting = daemon_requests.build_greeting(options) | {"kind": "index_build", "index": settings}
    link, answer = greet(find_home(os.environ).path, greeting)
    daemon_requests.report_notes(answer)
    with link, link.makefile("rb") as stream, show_progress("index build", sys.stderr) as progress:
        if (reply := daemon_requests.read_reply(stream, None if options.quiet else progress)) is not None:
            return reply
    raise DaemonError("the daemon stopped before the index was built; run it again, it goes on where it was")


def check_switchable(origin: str | None) -> None:
    """Raise if the setting comes from a source that this command cannot change.

    Raises:
        ConfigError: it is set in the environment or by a flag.
    """
    if origin in ("environment", "flag"):
        raise ConfigError(
            f"{ENGINE} is set by {'the ' * (origin == 'environment')}{origin}: build with --no-switch, and change it there"
        )


def write_engine(file: Path, engine: str) -> None:
    """Set `index.engine` in a settings file, and change nothing else in it.

    Raises:
        ConfigError: the file cannot be changed safely, or cannot be written.
    """
    text = file.read_text("utf-8") if file.is_file() else ""
    after = _with_engine(text, engine)
    try:
        before = tomllib.loads(text)
        is_meant = tomllib.loads(after) == {**before, "index": {**before.get("index", {}), "engine": engine}}
    except tomllib.TOMLDecodeError:
        is_meant = False
    if not is_meant:
        raise ConfigError(f"{file}: set engine = {engine!r} under [index] by hand, and stop the daemon")
    replace_text(file, after)


def _with_engine(text: str, engine: str) -> str:
    header = _HEADER.search(text)
    if header is None:
        return f'{text}{"" if not text or text.endswith(chr(10)) else chr(10)}\n[index]\nengine = "{engine}"\n'
    end = following.start() if (following := _NEXT_TABLE.search(text, header.end())) else len(text)
    table = text[header.end() : end]
    entry = f'engine = "{engine}"'
    table = _ENTRY.sub(entry, table, count=1) if _ENTRY.search(table) else f"\n{entry}{table}"
    return text[: header.end()] + table + text[end:]


def _print(reply: Json, engine: str, *, switches: bool) -> None:
    fields = {
        "memories": f"{reply['count']:,} in the new index, {reply['stored']:,} stored"
        + (", an earlier build was continued" if reply["was_resumed"] else ""),
        "revisions": f"{reply['faults']:,} differ" if reply["faults"] else "all the same",
        "answers": "not compared: the index in use cannot be asked"
        if reply["agreement"] is None
        else f"{reply['agreement']:.1%} of the hits of {format_count(reply['sampled'], 'question')} are the same",
    }
    tables.print_fields(fields)
    if switches:
        tables.note(f"the index is {engine} from the next request on")
    elif not reply["is_good"]:
        tables.note("nothing was switched: run it again, or look into docs/cluster.md")


COMMANDS = {"index": run}
