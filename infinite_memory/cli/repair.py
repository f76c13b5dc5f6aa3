"""`infinite-memory repair`: lists unreadable documents, exports, mends or removes them."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from infinite_memory.cli.daemon_requests import report
from infinite_memory.cli.progress import add_option, asking
from infinite_memory.errors import format_count

Json = dict[str, Any]
Ask = Callable[[Json], Json]

_WORDS = {"mended": "mended", "removed": "removed", "left": "left as it is"}
_WOULD = {"mended": "would be mended", "removed": "would be removed", "left": "would be left as it is"}
_CAN = {"mended": "can be mended", "removed": "", "left": "cannot be mended"}


def add_parsers(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add the command to the parser of `infinite-memory`."""
    repair = commands.add_parser(
        "repair", parents=[common], help="list documents that cannot be read; with --yes mend or remove them"
    )
    repair.add_argument("--export", type=Path, metavar="FILE", help="write them to a new file first, as Extended JSON")
    repair.add_argument("--mend", action="store_true", help="mend what can be mended: recomputed keys, defaults")
    repair.add_argument("--remove", action="store_true", help="permanently remove what is not mended")
    repair.add_argument("--yes", action="store_true", help="do it; without, it is only told what would be done")
    repair.add_argument("--json", action="store_true")
    add_option(repair)


def run(options: argparse.Namespace) -> int:
    """Repair, or print what would be done; 0 if nothing is set aside any more, 1 if something is left, 2 for a usage error."""
    if options.yes and not (options.mend or options.remove):
        print("infinite-memory repair: --yes goes with --mend, --remove or both", file=sys.stderr)
        return 2
    return repair(options, asking(options, "repair"))


def repair(options: argparse.Namespace, ask: Ask) -> int:
    """Repair through the daemon; see `run`."""
    is_list = not (options.mend or options.remove)  # shows what could be mended
    request = {"action": "repair_documents", "mend": options.mend or is_list, "remove": options.remove}
    try:
        replies = list(_pages(request | {"dry_run": True, "export": options.export is not None}, ask))
        if options.export is not None and (lines := [line for reply in replies for line in reply["exported"]]):
            _write(options.export, lines)
    except _RefusedError as exc:
        return report(exc.reply)
    except OSError as exc:
        print(f"infinite-memory repair: {options.export} cannot be written: {exc.strerror}", file=sys.stderr)
        return 1
    documents = [document for reply in replies for document in reply["documents"]]
    if options.yes and documents:
        try:
            documents = [
                document for reply in _pages(request | {"dry_run": False}, ask) for document in reply["documents"]
            ]
        except _RefusedError as exc:
            return report(exc.reply)
    return _tell(options, documents)


def _tell(options: argparse.Namespace, documents: list[Json]) -> int:
    counts = {word: sum(document["outcome"] == word for document in documents) for word in _WORDS}
    if options.json:
        print(json.dumps({"documents": documents, "dry_run": not options.yes} | counts, ensure_ascii=False))
    elif not documents:
        print("every document can be read")
    else:
        words = _WORDS if options.yes else _WOULD if options.mend or options.remove else _CAN
        for document in documents:
            faults = "; ".join(f"{fault['field']}: {fault['expected']} was expected" for fault in document["faults"])
            suffix = f", with {format_count(document['memories'], 'memory')}" if "memories" in document else ""
            print(f"{document['collection']} {document['id']}: {faults}: {words[document['outcome']]}{suffix}")
        reasons = ", ".join(f"{count:,} {words[word]}" for word, count in counts.items() if count)
        print(f"{format_count(len(documents), 'document')} cannot be read: {reasons}")
        if not options.yes:
            print(
                "nothing was changed; --mend --yes mends, --remove --yes removes, --export FILE writes them out first"
            )
    return 0 if not documents or (options.yes and not counts["left"]) else 1


class _RefusedError(Exception):
    def __init__(self, reply: Json) -> None:
        super().__init__(reply.get("error"))
        self.reply = reply


def _pages(request: Json, ask: Ask) -> Iterator[Json]:
    """Yield the replies page by page; repaired documents leave the list, the remaining ones are skipped by offset."""
    offset, limit = 0, 200
    while True:
        reply = ask(request | {"offset": offset, "limit": limit})
        if reply["status"] != "OK":
            raise _RefusedError(reply)
        yield reply
        if len(reply["documents"]) < limit:
            return
        offset += limit if request["dry_run"] else reply["left"]


def _write(path: Path, lines: list[str]) -> None:
    """Write a new file that only its owner can read.

    Raises:
        OSError: the file exists, or cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())


COMMANDS = {"repair": run}
