"""Administrative commands: single requests to the daemon, diagnostics and settings."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory.cli.daemon_requests import ask, ask_daemon, home_and_config, report
from infinite_memory.cli.progress import add_option, asking
from infinite_memory.cli.service_checks import check_backups, check_http, describe_database, find_shortages
from infinite_memory.cli.terminal import in_one_line
from infinite_memory.errors import EmbeddingError, InfiniteMemoryError, format_count
from infinite_memory.paths import CHECKOUT_CONFIG_FILE, Home

if TYPE_CHECKING:
    from infinite_memory.cli.hook_checks import AddFinding
    from infinite_memory.config import Config

Json = dict[str, Any]


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the commands to the parser of `infinite-memory`."""
    calling = commands.add_parser("call", parents=[common], help="send one request and print the reply")
    calling.add_argument("action", metavar="ACTION", help="name of a command, as `infinite-memory help` lists them")
    calling.add_argument(
        "fields", nargs="?", default="{}", metavar="JSON", help='its fields, as {"query": "tea"}; - reads them'
    )

    commands.add_parser("stats", parents=[common], help="print statistics").add_argument("--json", action="store_true")
    helped = commands.add_parser("help", parents=[common], help="list the requests and their fields")
    helped.add_argument("action", nargs="?", metavar="ACTION")
    helped.add_argument("--json", action="store_true")
    commands.add_parser(
        "doctor",
        parents=[common],
        help="check database, documents, model, index, backups, HTTP, permissions, disk and assistants' hooks",
    ).add_argument("--json", action="store_true")
    optimizing = commands.add_parser("optimize", parents=[common], help="tidy up; changes no words unless told to")
    optimizing.add_argument(
        "operations", nargs="*", metavar="OPERATION",
        help="compact, check_sidecar, purge_deleted (the default), deduplicate, merge_similar, prune or summarize",
    )  # fmt: skip
    optimizing.add_argument("--dry-run", action="store_true", help="only tell what would be done")
    optimizing.add_argument("--json", action="store_true", help="print the reply as JSON, with what was concerned")
    reindexing = commands.add_parser("reindex", parents=[common], help="build the index again from the database")
    reindexing.add_argument("--json", action="store_true", help="print the reply as JSON")
    for long in (optimizing, reindexing):
        add_option(long)
    commands.add_parser("config", parents=[common], help="show every setting and who set it").add_argument(
        "--json", action="store_true"
    )


def call(options: argparse.Namespace) -> int:
    """Send one request and print the reply as one line of JSON; 0 for OK, 1 for ERROR, 2 for a usage error."""
    text = sys.stdin.read() if options.fields == "-" else options.fields
    try:
        fields = json.loads(text) if text.strip() else {}
    except ValueError as exc:
        print(f"infinite-memory call: the fields are not JSON: {exc}", file=sys.stderr)
        return 2
    if not isinstance(fields, dict):
        print('infinite-memory call: the fields are not a JSON object such as {"query": "tea"}', file=sys.stderr)
        return 2
    reply = ask(options, fields | {"action": options.action})
    print(json.dumps(reply, ensure_ascii=False))
    return _code(reply)


def stats(options: argparse.Namespace) -> int:
    """Print statistics."""
    reply = ask(options, {"action": "get_memory_stats"})
    if options.json or reply["status"] != "OK":
        print(json.dumps(reply.get("stats", reply), ensure_ascii=False))
        return _code(reply)
    _print_tree(reply["stats"])
    return 0


def help_(options: argparse.Namespace) -> int:
    """List the requests and their fields; needs no daemon."""
    import asyncio

    from infinite_memory.bootstrap import new_session
    from infinite_memory.contracts.native.contract import NativeContract
    from infinite_memory.engine.engine import Engine

    async def no_engine() -> Engine:
        raise NotImplementedError

    _, config = home_and_config(options)
    contract = NativeContract(no_engine, new_session(config, os.environ))
    asked = {"action": "help"} | ({"command": options.action} if options.action else {})
    reply = asyncio.run(contract.handle(asked))
    if reply["status"] != "OK":
        print(f"infinite-memory help: {reply['error']}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(reply["commands"], ensure_ascii=False))
        return 0
    for command in reply["commands"]:
        print(f"{command['action']}\n    {command['about']}")
        _print_fields(command["fields"], 4)
        print()
    return 0


def optimize(options: argparse.Namespace) -> int:
    """Optimize the memory and print what was done."""
    request: Json = {"action": "optimize_memory", "dry_run": options.dry_run}
    reply = asking(options, "optimize")(request | ({"operations": options.operations} if options.operations else {}))
    if options.json:
        print(json.dumps(reply, ensure_ascii=False))
        return _code(reply)
    if reply["status"] != "OK":
        print(f"infinite-memory optimize: {reply['error']}", file=sys.stderr)
        return 1
    for line in reply["operations"]:
        print(in_one_line(line))
    return _code(reply)


def reindex(options: argparse.Namespace) -> int:
    """Rebuild the index from the database."""
    reply = asking(options, "reindex")({"action": "reindex"})
    if options.json:
        return report(reply)
    print(f"the index holds {format_count(reply['count'], 'memory')}" if reply["status"] == "OK" else reply["error"])
    return _code(reply)


def config(options: argparse.Namespace) -> int:
    """Show every setting, and the source of each that is not a default."""
    from infinite_memory.config import known_settings

    home, settings = home_and_config(options)
    by_name = known_settings()
    rows = [
        {"name": name, "value": by_name[name].display(value), "set_by": settings.origins.get(name, "default"), "about": by_name[name].about,
         "variable": by_name[name].variable, "per_session": by_name[name].per_session}
        for name, value in settings.values()
    ]  # fmt: skip
    if options.json:
        print(json.dumps({"home": str(home.path), "settings": rows}, ensure_ascii=False))
        return 0
    print(f"home: {home.path}\nfile: {home.config_file}{'' if home.config_file.is_file() else ' (not there)'}")
    if CHECKOUT_CONFIG_FILE.is_file():
        print(f"checkout: {CHECKOUT_CONFIG_FILE}")
    print()
    for row in rows:
        text = "" if row["value"] is None else json.dumps(row["value"], ensure_ascii=False)
        print(f"{row['name']:<32} {text:<24} {row['set_by']:<12} {row['about']}")
    return 0


def doctor(options: argparse.Namespace) -> int:
    """Check database, model, index, permissions and disk; 0 if all is well or still starting, 1 if a problem was found."""
    from infinite_memory.cli.client_checks import check_clients  # imported lazily: `call` starts without them
    from infinite_memory.cli.hook_checks import check_hooks

    findings: list[Json] = []

    def add_finding(name: str, problem: str | None, good: str, *, wait: bool = False) -> None:
        finding = {"check": name, "ok": problem is None, "says": problem or good}
        findings.append(finding | ({"wait": True} if wait else {}))

    home, settings = home_and_config(options)
    is_preparing = False
    add_finding("settings", None, f"{len(settings.origins)} differ from the defaults")
    try:
        home.make()
    except OSError as exc:
        add_finding("home", f"{home.path} cannot be used: {exc}", "")
    else:
        add_finding("home", _permissions(home.path), f"{home.path}, for its owner alone")
        free, short = shutil.disk_usage(home.path).free, " and ".join(find_shortages(home.path))
        add_finding("disk", f"only {short} are free" if short else None, f"{free / 2**30:,.1f} GiB are free")
        status, stats = _check_parts(options, settings, home, add_finding)
        is_preparing = _is_preparing(stats)
        check_backups(settings, home, stats, status, add_finding)
        check_http(settings, status, add_finding)
        with contextlib.suppress(RuntimeError):  # a user without a home directory has no clients to check
            check_clients(os.environ, Path.home(), add_finding)
            check_hooks(home.path, os.environ, Path.home(), add_finding)
    if not is_preparing:  # otherwise there is no model to check yet
        _check_model(settings, add_finding)
    well = all(finding["ok"] for finding in findings)
    if options.json:
        print(json.dumps({"ok": well, "checks": findings}, ensure_ascii=False))
    else:
        for finding in findings:
            state = "wait " if finding.get("wait") else "ok   " if finding["ok"] else "WRONG"
            print(f"{state} {finding['check']:<10} {in_one_line(finding['says'])}")
    return 0 if well else 1


def _check_parts(
    options: argparse.Namespace, settings: Config, home: Home, add_finding: AddFinding
) -> tuple[Json, Json]:
    """Check the daemon's health, compare the counts of index and database, and return the daemon's status and statistics."""
    try:
        health = ask(options, {"action": "health_check"})
        reply = ask(options, {"action": "get_memory_stats"})
        status = (ask_daemon("status") or {}).get("status", {})
    except InfiniteMemoryError as exc:
        add_finding("daemon", str(exc), "")
        return {}, {}
    stats: Json = reply.get("stats", {})
    report_health(health, stats, describe_database(settings, home, stats), add_finding)
    if health.get("status") == "OK":
        add_finding("documents", _set_aside(health.get("set_aside", [])), "all can be read")
    if reply["status"] != "OK":
        add_finding("counts", reply["error"], "")
        return status, {}
    if not settings.mongodb.uri:
        _check_files(status, len(stats["scopes"]) + len(stats["archived_scopes"]), add_finding)
    stored = stats["total_memories"] + sum(stats["archived_scopes"].values())
    indexed = stats["sidecar"]["count"]
    differ = f"the index holds {format_count(indexed, 'memory')}, the database {stored:,}; infinite-memory reindex mends that"
    add_finding(
        "counts",
        differ if indexed != stored else None,
        f"{format_count(stored, 'memory')}, {'it is' if stored == 1 else 'all'} indexed",
    )
    return status, stats


def report_health(health: Json, stats: Json, database: str, add_finding: AddFinding) -> None:
    """Report the health of the daemon's parts; a model that is still being prepared is not a fault."""
    for name, message in health.get("checks", {}).items():
        if name == "model" and message != "ok" and _is_preparing(stats):
            add_finding(
                name, None, f"{message}; nothing to do: until then memories are found by their words", wait=True
            )
        else:
            add_finding(name, None if message == "ok" else message, database if name == "mongodb" else "works")


def _is_preparing(stats: Json) -> bool:
    """True while the daemon prepares the model, as in its first minute; this is not a fault."""
    return bool(stats.get("model", {}).get("state") == "preparing")


def _set_aside(documents: list[Json]) -> str | None:
    """Return a line about the documents that are set aside; None if there are none."""
    if not documents:
        return None
    named = "; ".join(
        f"{document['collection']} {document['id']} ({', '.join(fault['field'] for fault in document['faults'])})"
        for document in documents
    )
    return f"set aside, for they cannot be read: {named}; `infinite-memory repair` tells what can be done"


def _check_files(status: Json, scopes: int, add_finding: AddFinding) -> None:
    """Check that the daemon's open file limit is enough for its scopes."""
    files = status.get("open_files") or {}
    if (max_scopes := files.get("max_scopes")) is None:
        add_finding("files", None, "no limit of open files")
        return
    counts = f"{files['limit']:,} open files are enough for {format_count(max_scopes, 'scope')}; there are {scopes:,}"
    add_finding("files", f"{counts}; raise the hard limit of open files" if scopes >= max_scopes else None, counts)


def _check_model(settings: Config, add_finding: AddFinding) -> None:
    from infinite_memory.embedding.factory import open_embedder
    from infinite_memory.embedding.verification import check_fidelity

    model = settings.embedding
    try:
        embedder = open_embedder(model.model, truncate_dim=model.truncate_dim, precision=model.precision)
        fidelity = check_fidelity(embedder)
    except EmbeddingError as exc:
        add_finding("fidelity", str(exc), "")
        return
    add_finding("fidelity", None if fidelity.is_faithful else str(fidelity), str(fidelity))


def _permissions(home: Path) -> str | None:
    if os.name != "posix":
        return None
    mode = home.stat().st_mode & 0o777
    return f"{home} is open to others (mode {mode:o}); chmod 700 it" if mode & 0o077 else None


def _print_fields(fields: list[Json], indent: int) -> None:
    for field in fields:
        default = f", default {field['default']!r}" if "default" in field else ""
        need = "required" if field["required"] else "optional"
        print(f"{' ' * indent}- {field['name']} ({field.get('type', 'any')}, {need}{default}): {field['about']}")
        _print_fields(field.get("fields", []), indent + 4)


def _print_tree(value: Json, indent: int = 0) -> None:
    for name, member in value.items():
        if isinstance(member, dict):
            print(f"{' ' * indent}{in_one_line(name)}:")
            _print_tree(member, indent + 2)
        else:
            print(f"{' ' * indent}{in_one_line(name)}: {'none' if member is None else in_one_line(member)}")


def _code(reply: Json) -> int:
    return 0 if reply.get("status") == "OK" else 1


COMMANDS = {
    "call": call,
    "stats": stats,
    "help": help_,
    "doctor": doctor,
    "optimize": optimize,
    "reindex": reindex,
    "config": config,
}
