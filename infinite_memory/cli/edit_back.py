"""`infinite-memory undo` after `edit`: restores the previous revision of a memory, unless it was changed since."""

from __future__ import annotations

import argparse
import json
from typing import Any

from infinite_memory.cli import daemon_requests, tables
from infinite_memory.cli.undo_journal import UndoJournal
from infinite_memory.contracts.earlier_versions import build_changes, find_version, was_changed_since

Json = dict[str, Any]


def edit_back(options: argparse.Namespace, entry: Json) -> int:
    """Undo one call of `edit`; the undo is itself a new revision, so nothing is lost."""
    ((memory_id, revision),) = entry["edited"].items()
    reply = daemon_requests.ask(options, {"action": "get_memory", "memory_id": memory_id})
    if reply["status"] == "OK":
        reply = _restore(options, reply, revision)
    if reply["status"] == "OK" or reply["error_code"].endswith(("NOT_FOUND", "MEMORY_CHANGED")):
        UndoJournal().remove(entry)  # otherwise it can be retried
    if options.json:
        done = reply["status"] == "OK"
        print(json.dumps({"changed": [reply] if done else [], "failed": [] if done else [reply]}, ensure_ascii=False))
    elif reply["status"] == "OK":
        print(f"{memory_id} says again what it said before; revision {reply['revision']}")
    else:
        tables.note(reply["error"])
    return 0 if reply["status"] == "OK" else 1


def _restore(options: argparse.Namespace, reply: Json, revision: int) -> Json:
    """Restore one version of a memory; refused if its content was changed after the version that followed."""
    memory, old = reply["memory"], find_version(reply, revision)
    if old is None or was_changed_since(reply, revision):
        message = (
            f"{memory['memory_id']} was changed again since; show --history {memory['memory_id']} has every version"
        )
        return {"status": "ERROR", "error": message, "error_code": "MEMORY_CHANGED"}
    if not (changes := build_changes(old, memory)):
        message = f"what was added to {memory['memory_id']} can be changed, but not taken away again"
        return {"status": "ERROR", "error": message, "error_code": "MEMORY_CHANGED"}
    request = {"action": "update_memory", "memory_id": memory["memory_id"]} | changes
    return daemon_requests.ask(options, request, expected_revision=memory["revision"])
