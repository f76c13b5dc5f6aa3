"""Conditions rechecked when a memory is removed: it may have been edited since it was selected, and then no longer match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infinite_memory.models import MemoryRecord


@dataclass(frozen=True, slots=True)
class Condition:
    """What memories were selected by; an empty condition holds for all.

    ``tag_key`` is one of its tags, folded (`models.tag_key`); ``content_hashes`` are those of the texts as read
    (`models.content_hash`).
    """

    tag_key: str | None = None
    content_hashes: frozenset[str] | None = None

    def __bool__(self) -> bool:
        """True if it is not empty."""
        return self.tag_key is not None or self.content_hashes is not None

    def holds(self, memory: MemoryRecord) -> bool:
        """True if *memory* meets the condition."""
        if self.tag_key is not None and self.tag_key not in memory.tag_keys:
            return False
        return self.content_hashes is None or memory.content_hash in self.content_hashes

    def to_query(self) -> dict[str, Any]:
        """Return the condition as part of a MongoDB query over memory documents."""
        query: dict[str, Any] = {}
        if self.tag_key is not None:
            query["tag_keys"] = self.tag_key
        if self.content_hashes is not None:
            query["content_hash"] = {"$in": sorted(self.content_hashes)}
        return query


ANY = Condition()
