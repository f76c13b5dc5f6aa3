"""`infinite-memory move`: moves memories to another scope; they keep their ids, history and links, and `undo` moves them back.

Exit codes: 0 done, 1 a memory could not be moved, 2 usage error.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from infinite_memory.cli import daemon_requests, tables
from infinite_memory.cli.terminal import in_one_line
from infinite_memory.cli.undo_journal import UndoJournal

Json = dict[str, Any]


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    move = commands.add_parser(
        "move", parents=[common], help="put memories into another scope; ids, history and links stay"
    )
    move.add_argument("memory_ids", nargs="+", metavar="ID", help="ids; - reads them, the first word of each line")
    move.add_argument("--to", required=True, metavar="SCOPE", help="the scope that they go to; it must exist")
    move.add_argument("--json", action="store_true", help="print the replies as JSON")


def run(options: argparse.Namespace) -> int:
    """Move the named memories."""
    targets = dict.fromkeys(read_ids(options.memory_ids), options.to)
    moved, failed = _move(options, targets)
    if changed := {body["memory_id"]: body["former_scope"] for body in moved if body["outcome"] == "moved"}:
        UndoJournal().add({"moved": changed})
    return _report(options, moved, failed)


def move_back(options: argparse.Namespace, entry: Json) -> int:
    """Move back the memories of one call."""
    moved, failed = _move(options, entry["moved"])
    if all(reply["error_code"].endswith("NOT_FOUND") for reply in failed):  # otherwise it can be retried
        UndoJournal().remove(entry)
    return _report(options, moved, failed)


def read_ids(words: list[str]) -> list[str]:
    """Return the given ids without duplicates; for `-` the first word of each line of standard input."""
    if words != ["-"]:
        return list(dict.fromkeys(words))
    return list(dict.fromkeys(line.split()[0] for line in sys.stdin if line.strip()))


def _move(options: argparse.Namespace, targets: Json) -> tuple[list[Json], list[Json]]:
    """Move memories one by one, each to its own target scope, and return the results and the refusals."""
    moved: list[Json] = []
    failed: list[Json] = []
    for memory_id, scope in targets.items():
        reply = daemon_requests.ask_route(options, "move_memory", {"memory_id": memory_id, "scope": scope})
        (moved if reply.pop("status") == "OK" else failed).append(reply)
    return moved, failed


def _report(options: argparse.Namespace, moved: list[Json], failed: list[Json]) -> int:
    if options.json:
        print(json.dumps({"moved": moved, "failed": failed}, ensure_ascii=False))
        return 1 if failed else 0
    for body in moved:
        scope, former = in_one_line(body["scope"]), in_one_line(body["former_scope"])
        is_moved = body["outcome"] == "moved"
        print(f"{body['memory_id']} " + (f"moved from {former} to {scope}" if is_moved else f"is in {scope} already"))
        if "note" in body:
            tables.note(body["note"])
    for reply in failed:
        tables.note(reply["error"])
    return 1 if failed else 0


COMMANDS = {"move": run}
