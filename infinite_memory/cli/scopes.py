"""`infinite-memory scopes`: lists scopes as a table or as JSON; creates, renames, merges, archives and removes them through the daemon.

Actions that remove or move ask on a terminal, and need ``--yes`` elsewhere. Exit codes: 0 done, 1 it failed, 2 not confirmed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from infinite_memory.cli import daemon_requests, tables, terminal_table
from infinite_memory.cli.terminal import in_one_line
from infinite_memory.cli.terminal_table import Cell, Column
from infinite_memory.errors import escaped, format_count

Json = dict[str, Any]
Ask = Callable[[Json], Json]
UNCONFIRMED = 2


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    scopes = commands.add_parser("scopes", help="list, create, rename, describe, merge, archive and remove scopes")
    actions = scopes.add_subparsers(dest="what", metavar="[ACTION]")
    scopes.set_defaults(what="list", json=False, config=None, set=[])
    shared = argparse.ArgumentParser(add_help=False, parents=[common])
    shared.add_argument("--json", action="store_true", help="print the reply as JSON")
    careful = argparse.ArgumentParser(add_help=False, parents=[shared])
    careful.add_argument("--yes", action="store_true", help="do not ask")
    careful.add_argument("--dry-run", action="store_true", help="only tell what would be done")

    actions.add_parser("list", parents=[shared], help="every scope with its number of memories; also without an action")
    create = actions.add_parser("create", parents=[shared], help="make a scope")
    create.add_argument("name")
    create.add_argument("--description", default="")
    rename = actions.add_parser("rename", parents=[shared], help="give a scope another name")
    rename.add_argument("name")
    rename.add_argument("new_name")
    describe = actions.add_parser("describe", parents=[shared], help="give a scope another description")
    describe.add_argument("name")
    describe.add_argument("description")
    merge = actions.add_parser(
        "merge", parents=[careful], help="move all memories of a scope into another, and remove it"
    )
    merge.add_argument("name", help="the scope that goes")
    merge.add_argument("into", help="the scope that its memories go to")
    actions.add_parser("archive", parents=[careful], help="hide a scope; unarchive brings it back").add_argument("name")
    delete = actions.add_parser(
        "delete", parents=[careful], help="delete a scope; without --hard, unarchive brings it back"
    )
    delete.add_argument("name")
    delete.add_argument("--hard", action="store_true", help="remove it with all its memories for good")
    actions.add_parser("unarchive", parents=[shared], help="bring an archived scope back").add_argument("name")
    export = actions.add_parser("export", parents=[common], help="write one scope as text to standard output")
    export.add_argument("name")
    export.add_argument("--format", choices=("jsonl", "markdown", "csv"), default="jsonl")
    export.add_argument("--include-deleted", action="store_true", help="soft-deleted memories too")


def scopes(options: argparse.Namespace, ask: Ask) -> int:
    """Run one of the actions."""
    if options.what == "list":
        return _list(options, ask)
    if options.what == "export":
        from infinite_memory.cli.export import export

        options.only_scope, options.output = options.name, None
        return export(options, ask)
    request, done = _request(options)
    if getattr(options, "dry_run", False):
        request["dry_run"] = True
    elif options.what in ("merge", "archive", "delete") and not options.yes:
        if (refused := _confirm(options, ask)) is not None:
            return refused
    reply = ask(request)
    if reply["status"] != "OK":
        print(f"infinite-memory: {reply['error']}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(reply, ensure_ascii=False))
    else:
        print(_report(options, reply, done))
    return 0


def _request(options: argparse.Namespace) -> tuple[Json, str]:
    name = options.name
    if options.what == "create":
        return {"action": "create_memory_scope", "scope_name": name, "description": options.description}, "created"
    if options.what == "rename":
        return {"action": "change_memory_scope", "scope": name, "new_name": options.new_name}, "renamed"
    if options.what == "describe":
        return {"action": "change_memory_scope", "scope": name, "description": options.description}, "described"
    if options.what == "merge":
        return {"action": "merge_memory_scopes", "scope": name, "into": options.into}, "merged"
    if options.what == "unarchive":
        return {"action": "restore_memory", "scope": name}, "brought back"
    done = "removed for good" if _is_hard(options) else "archived; unarchive brings it back"
    mode = "hard" if _is_hard(options) else "soft"
    return {"action": "delete_memory", "target": {"scope": name}, "forget_mode": mode}, done


def _is_hard(options: argparse.Namespace) -> bool:
    return bool(getattr(options, "hard", False))


def _confirm(options: argparse.Namespace, ask: Ask) -> int | None:
    """Ask on the terminal; return the exit code if it is not confirmed."""
    if not sys.stdin.isatty():
        print(f"infinite-memory scopes {options.what}: say --yes, for there is no terminal to ask on", file=sys.stderr)
        return UNCONFIRMED
    request, _ = _request(options)
    reply = ask(request | {"dry_run": True})
    count = reply.get("would_delete", reply.get("would_move"))
    if reply["status"] != "OK":
        print(f"infinite-memory: {reply['error']}", file=sys.stderr)
        return 1
    about = f" with {format_count(count, 'memory')}" if isinstance(count, int) else ""
    how = " for good" if _is_hard(options) else ""
    if options.what == "merge":
        how = f" into {in_one_line(options.into)!r}, which only a backup undoes"
    question = f"{options.what} the scope {in_one_line(options.name)!r}{about}{how}?"
    return None if tables.confirm(question) else UNCONFIRMED


def _report(options: argparse.Namespace, reply: Json, done: str) -> str:
    if getattr(options, "dry_run", False):
        count: int = reply["would_delete"] if "would_delete" in reply else reply["would_move"]
        return f"{in_one_line(options.name)}: {format_count(count, 'memory')} would be concerned; {tables.UNCHANGED}"
    if options.what in ("archive", "delete") and "scope" not in reply:  # Global always exists
        outcome = "removed for good" if _is_hard(options) else "hidden"
        summary = f"{format_count(reply['deleted_count'], 'memory')} {outcome}; the scope itself stays"
        return f"{in_one_line(options.name)}: {summary if reply['deleted_count'] else reply.get('note', summary)}"
    if reply.get("outcome") == "unchanged":
        return f"{in_one_line(options.name)}: {reply.get('note', tables.UNCHANGED)}"
    moved = f", {format_count(reply['moved'], 'memory')} from it" if "moved" in reply else ""
    into = f" into {in_one_line(reply['into'])}" if "moved" in reply else ""
    return f"{in_one_line(options.name)}: {done}{into}{moved}"


def _list(options: argparse.Namespace, ask: Ask) -> int:
    listed, counted = ask({"action": "list_memory_scopes"}), ask({"action": "get_memory_stats"})
    for reply in (listed, counted):
        if reply["status"] != "OK":
            print(f"infinite-memory: {reply['error']}", file=sys.stderr)
            return 1
    live, archived = counted["stats"]["scopes"], counted["stats"]["archived_scopes"]
    rows = [scope | {"memories": live.get(scope["scope_name"], 0), "archived": False} for scope in listed["scopes"]]
    rows += [{"scope_name": name, "memories": count, "archived": True} for name, count in archived.items()]
    if options.json:
        print(json.dumps(rows, ensure_ascii=False))
        return 0
    (_print_table if tables.is_terminal() else _print_lines)(rows)
    return 0


def _print_lines(rows: list[Json]) -> None:
    for row in rows:
        state = "archived" if row["archived"] else ""
        columns = (row["scope_name"], row["memories"], row.get("created_at", ""), row.get("description", ""), state)
        print("\t".join(in_one_line(column) for column in columns))


def _print_table(rows: list[Json]) -> None:
    columns = [
        Column("scope"),
        Column("memories", is_number=True),
        Column("since"),
        Column("description", flexible=True),
    ]
    cells: list[list[Cell]] = []
    for row in rows:
        name = (in_one_line(row["scope_name"]), "dim" if row["archived"] else "")
        about = "archived" if row["archived"] else escaped(row.get("description", ""))
        cells.append([[name], f"{row['memories']:,}", row.get("created_at", "")[:10], about])
    terminal_table.write_table(columns, cells)


def run(options: argparse.Namespace) -> int:
    """Run the command with the home's daemon."""
    return scopes(options, partial(daemon_requests.ask, options))


COMMANDS = {"scopes": run}
