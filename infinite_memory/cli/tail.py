"""`infinite-memory tail`: follows memories that are stored, changed and forgotten, by any client.

Ends at Ctrl-C (exit code 130), or with 1 when the daemon stops.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

from infinite_memory.cli import daemon_requests, tables, terminal_table
from infinite_memory.cli.terminal import in_one_line
from infinite_memory.errors import DaemonError, InfiniteMemoryError
from infinite_memory.paths import find_home

Json = dict[str, Any]

_STYLES = {"stored": "green", "changed": "yellow", "forgotten": "red", "restored": "green"}


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    tail = commands.add_parser("tail", parents=[common], help="show what is being stored, as it happens")
    tail.add_argument("-n", "--lines", type=int, default=0, metavar="N", help="first the newest N memories; default: 0")
    tail.add_argument("--scope", dest="in_scope", metavar="NAME", help="only this scope")
    tail.add_argument("--json", action="store_true", help="print each change as a line of JSON")


def run(options: argparse.Namespace) -> int:
    """Print changes until the daemon stops or the user interrupts."""
    write = _print_json if options.json else _draw if tables.is_terminal() else _print_line
    with_scope = options.in_scope.casefold() if options.in_scope else None
    for change in _changes(options):
        scope = change.get("memory", change).get("scope") or ""
        if with_scope is None or change["event"] == "missed" or scope.casefold() == with_scope:
            write(change)
            sys.stdout.flush()
    raise DaemonError("the daemon has stopped")


def _changes(options: argparse.Namespace) -> Iterator[Json]:
    """Yield the newest memories, if requested, then every change."""
    from infinite_memory.daemon.handshake import greet

    link, answer = greet(find_home(os.environ).path, daemon_requests.build_greeting(options) | {"kind": "tail"})
    daemon_requests.report_notes(answer)
    with link, link.makefile("rb") as stream:  # changes from here on are buffered in it
        newest = list(_newest(options)) if options.lines > 0 else []
        if tables.is_terminal() and not options.json:
            tables.note("waiting for what is stored, changed or forgotten; Ctrl-C ends it")
        yield from newest
        newest_ids = {change["memory"]["memory_id"] for change in newest}
        for line in stream:
            change: Json = json.loads(line)
            if change["event"] != "stored" or change["memory"]["memory_id"] not in newest_ids:
                yield change


def _newest(options: argparse.Namespace) -> Iterator[Json]:
    request = {"action": "list_memories", "scope": options.in_scope or "ALL", "limit": options.lines}
    reply = daemon_requests.ask(options, request)
    if reply["status"] != "OK":
        raise InfiniteMemoryError(reply["error"])
    for memory in reversed(reply["results"]):
        yield {"event": "stored", "memory": memory}


def _print_json(change: Json) -> None:
    print(json.dumps(change, ensure_ascii=False))


def _print_line(change: Json) -> None:
    print("\t".join(in_one_line(value) for value in _columns(change)))


def _columns(change: Json) -> tuple[object, ...]:
    """Return the columns of a line: event, id, timestamp, scope, tags, text."""
    if change["event"] == "missed":
        return "missed", "", "", "", "", f"{change['count']:,} changes that came too fast"
    memory = change.get("memory")
    if memory is None:
        return change["event"], change["memory_id"], "", change.get("scope", ""), "", ""
    return (
        change["event"], memory["memory_id"], memory["timestamp"], memory.get("scope") or "", ",".join(memory["tags"]), memory["text"],
    )  # fmt: skip


def _draw(change: Json) -> None:
    event, memory_id, instant, scope, tags, text = (
        in_one_line(" ".join(str(value).split())) for value in _columns(change)
    )
    terminal_table.write_line(
        (f"{event:<10}", _STYLES.get(event, "")), (f"{instant[:19].replace('T', ' '):<20}", ""), (f"{scope}  ", "cyan"), (text, ""),
        (f"  {tags}" if tags else "", "magenta"), (f"  {memory_id}", "dim"),
    )  # fmt: skip


COMMANDS = {"tail": run}
