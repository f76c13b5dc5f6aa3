"""Earlier versions of a memory in the reply of `get_memory`: finding one, and the update that restores it.

For the page and the command line, which both undo changes; an undo is a change like any other, and keeps the scope.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

FIELDS = ("title", "speaker", "conversation_id", "source", "importance", "timestamp")
"""Fields of a memory other than its text, tags and free metadata."""


def find_version(reply: Json, revision: int) -> Json | None:
    """Return the version with *revision*; None if it is not in the reply."""
    return next((version for version in reply["revisions"] if version["revision"] == revision), None)


def was_changed_since(reply: Json, revision: int) -> bool:
    """True if the memory differs from the version that followed *revision*.

    A move also creates a version, with the same content.
    """
    later = [version for version in reply["revisions"] if version["revision"] > revision]
    return any(build_changes(version, reply["memory"]) for version in later)


def build_changes(old: Json, memory: Json) -> Json:
    """Return the fields for `update_memory` that restore an earlier version; {} if nothing differs.

    A field that the version did not have stays, as fields cannot be removed.
    """
    changes: Json = {} if old["text"] == memory["text"] else {"content": old["text"]}
    if old["tags"] != memory["tags"]:
        changes["tags"] = old["tags"]
    metadata = {name: old[name] for name in FIELDS if name in old and old[name] != memory.get(name)}
    before, now = old.get("metadata", {}), memory.get("metadata", {})
    metadata |= {name: before.get(name) for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    return changes | ({"metadata": metadata} if metadata else {})
