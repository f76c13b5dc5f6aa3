"""`infinite-memory remember`, `search`, `recall`, `show` and `edit`: commands for people.

The text `-` is read from standard input. Exit codes: 0 done (also without results), 1 the request failed, 2 usage error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from infinite_memory.cli import daemon_requests, editor, tables
from infinite_memory.cli.terminal import in_one_line
from infinite_memory.cli.undo_journal import UndoJournal
from infinite_memory.errors import ConfigError, InfiniteMemoryError, format_count

Json = dict[str, Any]

MODES = ("hybrid", "semantic", "text", "fuzzy")


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Enter the commands into the parser of `infinite-memory`."""
    shared = argparse.ArgumentParser(add_help=False, parents=[common])
    shared.add_argument("--json", action="store_true", help="print the reply as JSON")
    about = argparse.ArgumentParser(add_help=False)
    about.add_argument("--tag", action="append", dest="tags", metavar="TAG", help="a tag; may be repeated")
    about.add_argument("--title", metavar="TEXT", help="a short title")
    about.add_argument("--source", metavar="WORD", help="where it comes from")
    about.add_argument("--speaker", metavar="NAME", help="who said it")
    about.add_argument("--when", metavar="INSTANT", help="when it happened: a date or an instant")
    about.add_argument("--importance", type=float, metavar="0-10", help="how much it matters")

    remember = commands.add_parser("remember", parents=[shared, about], help="store a memory")
    remember.add_argument("text", nargs="+", metavar="TEXT", help="the text; - reads it from standard input")
    remember.add_argument(
        "--scope", dest="in_scope", metavar="NAME", help="where it belongs; default: the active scope"
    )

    search = commands.add_parser("search", parents=[shared], help="find memories by meaning and words, best first")
    search.add_argument("query", nargs="+", metavar="QUERY", help="what to look for; - reads it from standard input")
    add_filter(search)
    search.add_argument("--mode", choices=MODES, help="what to go by; default: hybrid")
    search.add_argument("--min-confidence", type=float, metavar="0-1", help="leave out weaker matches")
    search.add_argument("-n", "--limit", type=int, default=10, metavar="N", help="most results; default: 10")

    recall = commands.add_parser("recall", parents=[shared], help="list the memories of a time, oldest first")
    recall.add_argument(
        "words", nargs="+", metavar="WORDS-OF-TIME", help="last week, in March, since Monday; - reads them"
    )
    recall.add_argument("--about", metavar="QUERY", help="what they are about; the nearest first")
    recall.add_argument("--scope", dest="in_scope", metavar="NAME", help="only this scope, or ALL")
    recall.add_argument("-n", "--limit", type=int, default=100, metavar="N", help="most results; default: 100")

    show = commands.add_parser("show", parents=[shared], help="show one memory, whole")
    show.add_argument("memory_id", metavar="ID", help="its id, as search shows it")
    show.add_argument("--history", action="store_true", help="also what it said before it was changed")
    show.add_argument("--before", metavar="REVISION", help="with --history: only versions before this one")

    edit = commands.add_parser("edit", parents=[shared, about], help="change a memory; what it said before is kept")
    edit.add_argument("memory_id", metavar="ID", help="its id, as search shows it")
    edit.add_argument(
        "text",
        nargs="*",
        metavar="TEXT",
        help="its new text; - reads it; without any, an editor opens ($VISUAL, $EDITOR)",
    )
    edit.add_argument("--no-tags", action="store_true", help="take all tags away")


def add_filter(parser: argparse.ArgumentParser) -> None:
    """Add the filter flags of `search` and `why`."""
    parser.add_argument("--scope", dest="in_scope", metavar="NAME", help="only this scope, or ALL")
    parser.add_argument(
        "--tag", action="append", dest="tags", metavar="TAG", help="only with this tag; may be repeated"
    )
    parser.add_argument("--time", metavar="WORDS", help="only of this time, in words: last week")


def build_query(options: argparse.Namespace) -> Json:
    """Return the request for the arguments of `search`."""
    filters = {"tags": options.tags, "time_query": options.time}
    request: Json = {"action": "retrieve_memory", "query": read_text(options.query)}
    request |= {"filter": {name: value for name, value in filters.items() if value is not None}}
    return request | ({} if options.in_scope is None else {"scope": options.in_scope})


def remember(options: argparse.Namespace) -> int:
    """Store a memory, and print its id."""
    request: Json = {"action": "store_memory", "content": read_text(options.text), "metadata": _metadata(options)}
    if options.tags:
        request["tags"] = options.tags
    if options.in_scope is not None:
        request["scope"] = options.in_scope
    reply = daemon_requests.ask(options, request)
    if options.json or reply["status"] != "OK":
        return daemon_requests.report(reply)
    print(f"{reply['memory_id']} stored in {in_one_line(reply['scope'])}")
    print_notes(reply)
    return 0


def search(options: argparse.Namespace) -> int:
    """Find memories and list them, best first."""
    request = build_query(options) | {"top_k": options.limit}
    request |= {} if options.mode is None else {"mode": options.mode}
    request |= {} if options.min_confidence is None else {"min_confidence": options.min_confidence}
    reply = daemon_requests.ask(options, request)
    code = _print_results(options, reply, request["query"])
    if options.time and not options.json and reply["status"] == "OK" and not reply["results"]:
        listing = {name: value for name, value in request.items() if name == "scope"} | {
            "action": "list_memories",
            "limit": 1,
        }
        for days in name_other_years(options.time, reply, (1, -1)):
            listing["filter"] = request["filter"] | {"time_query": days}
            if count := daemon_requests.ask(options, listing).get("total", 0):
                tables.note(f"{days} has {count:,}: --time {days!r}")
                break
    return code


def recall(options: argparse.Namespace) -> int:
    """List the memories of a time range."""
    request = {"action": "recall_memory_by_time", "time_query": read_text(options.words), "limit": options.limit}
    request |= {} if options.about is None else {"query": options.about}
    request |= {} if options.in_scope is None else {"scope": options.in_scope}
    reply = daemon_requests.ask(options, request)
    code = _print_results(options, reply, options.about or "")
    if options.json or reply["status"] != "OK":
        return code
    for days in name_other_years(request["time_query"], reply, (1,) if reply["results"] else (1, -1)):
        other_reply = daemon_requests.ask(options, request | {"time_query": days, "limit": 1})
        if count := other_reply.get("total", 0):
            tables.note(f"{days} has {count:,}: recall {days}")
            break
    return code


def name_other_years(words: str, reply: Json, ways: Sequence[int]) -> Iterator[str]:
    """Yield the parsed days moved by each number of years in *ways* (negative: earlier), if the words name no year.

    If there are results, this is done only for whole months in the past.
    """
    import datetime as dt

    from infinite_memory.contracts.other_years import is_month, name_in_other_year

    frame: Json = reply.get("time_frame") or {}
    if not frame.get("from") or not frame.get("to"):
        return
    start, end = dt.datetime.fromisoformat(frame["from"]), dt.datetime.fromisoformat(frame["to"])
    for years in ways:
        if reply["results"]:
            now = dt.datetime.now(dt.UTC)
            if not is_month(start, end) or end.replace(year=end.year + years) > now:
                continue
        if days := name_in_other_year(words, start, end, years):
            yield days


def show(options: argparse.Namespace) -> int:
    """Show one memory, whole."""
    if options.before is not None and not options.history:
        raise ConfigError("--before goes with --history")
    page = {} if options.before is None else {"before_revision": options.before}
    reply = daemon_requests.ask(options, {"action": "get_memory", "memory_id": options.memory_id} | page)
    if options.json or reply["status"] != "OK":
        return daemon_requests.report(reply)
    _print_memory(reply["memory"])
    for old in reply["revisions"] if options.history else ():
        print()
        _print_memory(old)
    if reply["revisions"] and not options.history:
        changes = len(reply["revisions"]) + reply.get("older_revisions", 0)
        tables.note(f"it was changed {format_count(changes, 'time')}; --history shows what it said before")
    if options.history and "older_revisions" in reply:
        first = reply["revisions"][0]["revision"]
        tables.note(
            f"{format_count(reply['older_revisions'], 'version')} before revision {first:,} left out; --before {first} shows more"
        )
    return 0


def edit(options: argparse.Namespace) -> int:
    """Change a memory, by arguments or in an editor; a change made elsewhere while the editor was open is not overwritten."""
    request: Json = {"action": "update_memory", "memory_id": options.memory_id}
    if options.tags and options.no_tags:
        raise ConfigError("--no-tags goes without --tag")
    if metadata := _metadata(options):
        request["metadata"] = metadata
    if options.tags or options.no_tags:
        request["tags"] = options.tags or []
    revision, unsaved = None, None
    if options.text:
        request["content"] = read_text(options.text)
        if options.text == ["-"]:
            unsaved = editor.UnsavedText(options.memory_id, request["content"].encode("utf-8", "surrogatepass"))
    elif "tags" not in request and not metadata:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise ConfigError(
                "edit: nothing is to change: give a text, - or a flag; an editor opens on a terminal only"
            )
        before = daemon_requests.ask(options, {"action": "get_memory", "memory_id": options.memory_id})
        if before["status"] != "OK":
            return daemon_requests.report(before)
        revision = before["memory"]["revision"]
        request["content"], unsaved = editor.edit_text(options.memory_id, before["memory"]["text"])
        if request["content"] == before["memory"]["text"]:
            print(tables.UNCHANGED)
            return 0
    reply = _send_change(options, request, revision, unsaved)
    if reply["status"] == "OK" and reply["outcome"] != "unchanged":
        UndoJournal().add({"edited": {reply["memory_id"]: reply["revision"] - 1}})
    if options.json or reply["status"] != "OK":
        return daemon_requests.report(reply)
    if reply["outcome"] == "unchanged":
        print(tables.UNCHANGED)
        return 0
    print(f"{reply['memory_id']} changed; revision {reply['revision']}")
    if tables.is_terminal():
        tables.note(f"undo takes it back; show --history {reply['memory_id']} shows what it said before")
    print_notes(reply)
    return 0


def _send_change(
    options: argparse.Namespace, request: Json, revision: int | None, unsaved: editor.UnsavedText | None
) -> Json:
    """Send a change; if it is refused, the reply says where the user's text is kept.

    Raises:
        InfiniteMemoryError: the change could not be sent; the text's location is printed.
    """
    try:
        reply = daemon_requests.ask(options, request, expected_revision=revision)
    except (InfiniteMemoryError, OSError, KeyboardInterrupt):
        if unsaved is not None:
            tables.note(unsaved.keep())
        raise
    if reply["status"] != "OK" and unsaved is not None:
        reply["error"] = f"{reply['error']}; {unsaved.keep()}"
    return reply


def read_text(words: list[str]) -> str:
    """Return a text given as words, or for `-` standard input without its final line break.

    Raises:
        ConfigError: standard input is not UTF-8.
    """
    if words != ["-"]:
        return " ".join(words)
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as exc:
        raise ConfigError(f"standard input is not UTF-8: byte {exc.object[exc.start]:#04x} at {exc.start}") from exc


def _metadata(options: argparse.Namespace) -> Json:
    """Return the metadata given as flags."""
    fields = {
        "title": options.title,
        "source": options.source,
        "speaker": options.speaker,
        "timestamp": options.when,
        "importance": options.importance,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _print_results(options: argparse.Namespace, reply: Json, words: str) -> int:
    if options.json or reply["status"] != "OK":
        return daemon_requests.report(reply)
    if frame := reply.get("time_frame"):
        span = f"{(frame['from'] or 'the beginning')[:16]} to {(frame['to'] or 'the end')[:16]}"
        tables.note(f"{span} {frame['timezone']}")
    results = reply["results"]
    if results:
        tables.print_memories(results, words)
    else:
        tables.note(f"nothing was found in {', '.join(reply['scopes_searched']) or 'any scope'}")
    if reply.get("total", 0) > len(results):
        tables.note(f"{len(results):,} of {reply['total']:,} are shown; --limit shows more")
    print_notes(reply)
    return 0


def print_notes(reply: Json) -> None:
    """Print a reply's note and warnings; the request's scope field is replaced with its flag."""
    for text in (reply.get("note"), *reply.get("warnings", ())):
        if text:
            tables.note(text.replace('"scope": "ALL"', "--scope ALL"))


def _print_memory(memory: Json) -> None:
    fields = {name: _to_text(value) for name, value in memory.items() if name != "text"}
    tables.print_fields({name: value for name, value in fields.items() if value}, memory["text"])


def _to_text(value: Any) -> str:
    """Return the value of a field on one line; "" for None."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else str(value)


COMMANDS = {"remember": remember, "search": search, "recall": recall, "show": show, "edit": edit}
