"""What a memory must still be when it goes: it may be edited while many are being forgotten, and then it is not the one that was chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from infinite_memory.models import MemoryRecord


@dataclass(frozen=True, slots=True)
class Condition:
    """What memories were chosen by; without any part it holds for each.

    ``tag_key`` is a tag that it carries, folded (`models.tag_key`); ``content_hashes`` are those of the texts that were read
    (`models.content_hash`).
    """

    tag_key: str | None = None
    content_hashes: frozenset[str] | None = None

    def __bool__(self) -> bool:
        """Return whether it asks for anything."""
        return self.tag_key is not None or self.content_hashes is not None

    def holds(self, memory: MemoryRecord) -> bool:
        """Return whether *memory* is what was chosen."""
        if self.tag_key is not None and self.tag_key not in memory.tag_keys:
            return False
        return self.content_hashes is None or memory.content_hash in self.content_hashes

    def to_query(self) -> dict[str, Any]:
        """Return the same as a part of a MongoDB query over documents of memories."""
        query: dict[str, Any] = {}
        if self.tag_key is not None:
            query["tag_keys"] = self.tag_key
        if self.content_hashes is not None:
            query["content_hash"] = {"$in": sorted(self.content_hashes)}
        return query


ANY = Condition()
