"""`infinite-memory forget` and `undo`: previews, asks for confirmation, forgets; and undoes the last command.

A file in the home keeps the ids of memories that the last commands forgot, moved or edited, never a text. Exit codes: 0 done, 1 it
failed or nothing matches, 2 usage error or not confirmed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from typing import Any

from infinite_memory.cli import daemon_requests, edit_back, move, tables
from infinite_memory.cli.terminal import in_one_line
from infinite_memory.cli.undo_journal import UndoJournal
from infinite_memory.errors import ConfigError, format_count

Json = dict[str, Any]

UNCONFIRMED = 2
MAX_SHOWN = 20  # memories in the preview before the confirmation
PAGE = 1000  # maximum page size of a listing
FINAL = {"NOT_FOUND", "INVALID_REQUEST"}  # a retry of the undo would fail again: gone, or not archived any more


class _RefusedError(Exception):
    def __init__(self, reply: Json) -> None:
        super().__init__(reply.get("error"))
        self.reply = reply


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the commands to the parser of `infinite-memory`."""
    shared = argparse.ArgumentParser(add_help=False, parents=[common])
    shared.add_argument("--json", action="store_true", help="print the reply as JSON")
    forget = commands.add_parser("forget", parents=[shared], help="forget memories; shows what would go, and asks")
    forget.add_argument("memory_ids", nargs="*", metavar="ID", help="ids; - reads them, the first word of each line")
    forget.add_argument("--tag", metavar="TAG", help="those with this tag")
    forget.add_argument("--query", metavar="WORDS", help="those that say this; only close matches are taken")
    forget.add_argument(
        "--scope", dest="in_scope", metavar="NAME", help="only of this scope, or ALL; a scope alone goes as a whole"
    )
    forget.add_argument("--min-confidence", type=float, metavar="0-1", help="with --query: how sure a match must be")
    forget.add_argument("--for-good", action="store_true", help="remove them, so that nothing brings them back")
    forget.add_argument("--dry-run", action="store_true", help="only show what would go")
    forget.add_argument("--yes", action="store_true", help="do not ask")
    undo = commands.add_parser("undo", parents=[shared], help="take back the last forget, move or edit")
    undo.add_argument("memory_ids", nargs="*", metavar="ID", help="these instead; - reads them")
    undo.add_argument("--scope", dest="in_scope", metavar="NAME", help="an archived scope instead")
    undo.add_argument(
        "--list", action="store_true", help="show what was forgotten and can be brought back, whoever forgot it"
    )


def forget(options: argparse.Namespace) -> int:
    """Forget the named memories, after a preview and confirmation."""
    targets, limits = _targets(options)
    try:
        preview = _preview(options, targets, limits)
        if options.dry_run:
            return _print_preview(options, preview)
        if not preview.count and preview.scope is None:
            tables.note(preview.note or f"nothing matches; {tables.UNCHANGED}")
            return 1
        if not options.yes and (refused := _confirm(options, preview)) is not None:
            return refused
        if options.query is not None:  # forget the memories in the preview, not those that a new search would find
            targets = [{"memory_id": memory_id} for memory_id in preview.memory_ids]
        elif preview.count > len(preview.memory_ids) and preview.scope is None and not options.for_good:
            preview.memory_ids = list(_list_ids(options))  # a reply does not contain that many
        mode = "hard" if options.for_good else "soft"
        requests = [{"action": "delete_memory", "target": target, "forget_mode": mode} for target in targets]
        replies = [_checked(reply) for reply in daemon_requests.ask_each(options, requests)]
    except _RefusedError as exc:
        return daemon_requests.report(exc.reply)
    return _report(options, preview, replies)


class Preview:
    """What would be forgotten: the number of memories, ids and texts of the first ones, and the scope if all of it is."""

    def __init__(self) -> None:
        self.count = 0
        self.memory_ids: list[str] = []
        self.memories: list[Json] = []
        self.scope: str | None = None
        self.note: str | None = None  # why nothing would be forgotten


def _preview(options: argparse.Namespace, targets: list[Json], limits: Json) -> Preview:
    preview = Preview()
    mode = "hard" if options.for_good else "soft"
    request = {"action": "delete_memory", "forget_mode": mode, "dry_run": True} | limits
    for reply in daemon_requests.ask_each(options, [request | {"target": target} for target in targets]):
        _checked(reply)
        preview.count += reply.get("would_delete", 0)
        preview.memory_ids += reply["memory_ids"]
        preview.memories += reply.get("memories", [])
        preview.scope = reply.get("scope")
        preview.note = reply.get("note") if options.tag is not None and options.query is None else None
    return preview


def _targets(options: argparse.Namespace) -> tuple[list[Json], Json]:
    """Return the targets of the requests, and the limits of a query.

    Raises:
        ConfigError: nothing is named, or the options conflict.
    """
    memory_ids = move.read_ids(options.memory_ids)
    named = {
        "tag": options.tag,
        "query": options.query,
        "scope": None if options.in_scope == "ALL" else options.in_scope,
    }
    target = {name: value for name, value in named.items() if value is not None}
    if memory_ids and target:
        raise ConfigError("forget: give ids, or --tag, --query and --scope")
    if not memory_ids and not target:
        raise ConfigError("forget: nothing is named: give ids, --tag, --query or --scope")
    limits = {} if options.min_confidence is None else {"min_confidence": options.min_confidence}
    if limits and options.query is None:
        raise ConfigError("forget: --min-confidence goes with --query")
    return [{"memory_id": memory_id} for memory_id in memory_ids] or [target], limits


def _list_ids(options: argparse.Namespace) -> Iterator[str]:
    """Yield the ids of all memories with the given tag or in the given scope."""
    filters = {} if options.tag is None else {"tags": [options.tag]}
    request: Json = {"action": "list_memories", "scope": options.in_scope or "ALL", "filter": filters, "limit": PAGE}
    cursor: Json = {}
    while True:
        reply = _checked(daemon_requests.ask(options, request | cursor))
        yield from (memory["memory_id"] for memory in reply["results"])
        if reply["next_cursor"] is None:
            return
        cursor = {"cursor": reply["next_cursor"]}


def _checked(reply: Json) -> Json:
    if reply["status"] != "OK":
        raise _RefusedError(reply)
    return reply


def _print_preview(options: argparse.Namespace, preview: Preview) -> int:
    if options.json:
        whole_scope = {} if preview.scope is None else {"scope": preview.scope}
        fields = {"would_delete": preview.count, "memory_ids": preview.memory_ids, "memories": preview.memories}
        print(json.dumps(fields | whole_scope, ensure_ascii=False))
        return 0
    _show(options, preview.memories)
    if not preview.count and preview.note is not None:
        tables.note(preview.note)
        return 0
    scope = _with_scope(preview)
    tables.note(f"{format_count(preview.count, 'memory')} would go{scope}; {tables.UNCHANGED}")
    return 0


def _confirm(options: argparse.Namespace, preview: Preview) -> int | None:
    """Show a preview and ask for confirmation; return the exit code if it is not confirmed."""
    if not sys.stdin.isatty():
        print("infinite-memory forget: say --yes, for there is no terminal to ask on", file=sys.stderr)
        return UNCONFIRMED
    _show(options, preview.memories[:MAX_SHOWN])
    remaining = preview.count - min(len(preview.memories), MAX_SHOWN)
    if remaining:
        print(f"and {remaining:,} more")
    scope = _with_scope(preview)
    for_good = " for good" if options.for_good else ""
    return None if tables.confirm(f"forget {format_count(preview.count, 'memory')}{scope}{for_good}?") else UNCONFIRMED


def _show(options: argparse.Namespace, memories: list[Json]) -> None:
    """Print a preview. The reply has no day, scope and tags: on a terminal they are fetched for the first memories."""
    first = memories[:MAX_SHOWN] if tables.is_terminal() else []
    requests = [{"action": "get_memory", "memory_id": memory["memory_id"]} for memory in first]
    replies = daemon_requests.ask_each(options, requests) if requests else []
    whole = [reply.get("memory", {}) | memory for reply, memory in zip(replies, first, strict=True)]
    tables.print_memories([*whole, *memories[len(first) :]])


def _report(options: argparse.Namespace, preview: Preview, replies: list[Json]) -> int:
    count = sum(reply["deleted_count"] for reply in replies)
    forgotten_ids = [memory_id for reply in replies for memory_id in reply["memory_ids"]]
    if not options.for_good:
        entry = {"scope": preview.scope} if preview.scope is not None else {"memory_ids": forgotten_ids}
        if preview.scope is None and count > len(forgotten_ids):
            entry = {"memory_ids": preview.memory_ids}
        UndoJournal().add(entry)
    if options.json:
        whole_scope = {} if preview.scope is None else {"scope": preview.scope}
        fields = {
            "deleted_count": count,
            "memory_ids": forgotten_ids,
            "forget_mode": "hard" if options.for_good else "soft",
        }
        print(json.dumps(fields | whole_scope, ensure_ascii=False))
        return 0
    scope = _with_scope(preview)
    done = "removed for good" if options.for_good else "forgotten; infinite-memory undo brings back what went"
    print(f"{format_count(count, 'memory')}{scope} {done}")
    return 0


def undo(options: argparse.Namespace) -> int:
    """Undo the last command, or restore the named memories."""
    journal, memory_ids = UndoJournal(), move.read_ids(options.memory_ids)
    if memory_ids and options.in_scope is not None:
        raise ConfigError("undo: give ids or --scope")
    if options.list:
        if memory_ids or options.in_scope is not None:
            raise ConfigError("undo: --list takes no ids and no --scope")
        return _list_forgotten(options)
    entry: Json | None = {"memory_ids": memory_ids} if memory_ids else {"scope": options.in_scope}
    if not memory_ids and options.in_scope is None:
        entry = journal.last()
    if entry is not None and "moved" in entry:
        return move.move_back(options, entry)
    if entry is not None and "edited" in entry:
        return edit_back.edit_back(options, entry)
    if entry is None:
        tables.note(
            "no forget, move or edit of this terminal is left to undo; infinite-memory undo ID brings back one of these"
        )
        return 1 if options.json else _list_forgotten(options) or 1
    if "scope" in entry:
        request = {"action": "restore_memory", "scope": entry["scope"]}
        replies = [daemon_requests.ask(options, request, only_archived=options.in_scope is None)]
    else:
        requests = [{"action": "restore_memory", "memory_id": memory_id} for memory_id in entry["memory_ids"]]
        replies = list(daemon_requests.ask_each(options, requests))
    failed = [reply for reply in replies if reply["status"] != "OK"]
    if all(reply.get("error_code") in FINAL for reply in failed):  # otherwise it can be retried
        journal.remove(entry)
    restored = [reply for reply in replies if reply["status"] == "OK"]
    if options.json:
        print(json.dumps({"restored": restored, "failed": failed}, ensure_ascii=False))
        return 1 if failed else 0
    for reply in failed:
        tables.note(reply["error"])
    if not restored:
        return 1
    memories = [reply["memory"] for reply in restored if "memory" in reply]
    tables.print_memories(memories)
    count = sum(reply["outcome"] == "restored" for reply in restored if "memory" in reply)
    count += sum(reply.get("restored_count", 0) for reply in restored)
    for note in dict.fromkeys(reply["note"] for reply in restored if "note" in reply):
        tables.note(note)
    scope = f" of the scope {in_one_line(entry['scope'])!r}" if "scope" in entry else ""
    tables.note(f"{format_count(count, 'memory')}{scope} brought back")
    return 1 if failed else 0


def _list_forgotten(options: argparse.Namespace) -> int:
    """Show the memories forgotten last, by an assistant, on the page or here."""
    request = {"action": "list_memories", "scope": "ALL", "forgotten": True, "limit": MAX_SHOWN}
    reply = daemon_requests.ask(options, request)
    if options.json or reply["status"] != "OK":
        return daemon_requests.report(reply)
    tables.print_memories(reply["results"])
    remaining = reply["total"] - len(reply["results"])
    tables.note(
        f"{format_count(reply['total'], 'memory')} can be brought back"
        + (f"; the latest {MAX_SHOWN} are shown" if remaining > 0 else "")
    )
    return 0


def _with_scope(preview: Preview) -> str:
    return "" if preview.scope is None else f" with the scope {in_one_line(preview.scope)!r}"


COMMANDS = {"forget": forget, "undo": undo}
