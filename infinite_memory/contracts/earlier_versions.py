"""Earlier versions of a memory as `get_memory` gives them: which one it is, and what makes the memory say that again.

For the page and the command line, which both take a change back; that is a change like any other, and its scope stays.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

FIELDS = ("title", "speaker", "conversation_id", "source", "importance", "timestamp")
"""What a memory may say beside its text, its tags and what is free in its metadata."""


def find_version(found: Json, revision: int) -> Json | None:
    """Return the version that had *revision*; None where the reply has none."""
    return next((version for version in found["revisions"] if version["revision"] == revision), None)


def was_changed_since(found: Json, revision: int) -> bool:
    """Return whether the memory says something else by now than the version that came after *revision*.

    A move makes a version, too, which says the same.
    """
    later = [version for version in found["revisions"] if version["revision"] > revision]
    return any(build_changes(version, found["memory"]) for version in later)


def build_changes(old: Json, memory: Json) -> Json:
    """Return what `update_memory` has to change so that a memory says what an earlier version said; {} where nothing differs.

    A field that the version did not have stays, for none can be taken away.
    """
    changes: Json = {} if old["text"] == memory["text"] else {"content": old["text"]}
    if old["tags"] != memory["tags"]:
        changes["tags"] = old["tags"]
    metadata = {name: old[name] for name in FIELDS if name in old and old[name] != memory.get(name)}
    before, now = old.get("metadata", {}), memory.get("metadata", {})
    metadata |= {name: before.get(name) for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
    return changes | ({"metadata": metadata} if metadata else {})
