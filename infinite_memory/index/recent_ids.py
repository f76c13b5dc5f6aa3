"""Ids of memories that were recently removed or written, for readers of the store that run concurrently.

A slow reader of the store must not bring back memories removed meanwhile; removals before it started do not count, since another
process may have restored the memory after them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from infinite_memory.models import MemoryId

CAPACITY = 10_000
"""Ids kept: many more than arrive while one page of the store is read."""


class RecentIds:
    """The most recent ids. ``count`` increases with each: a reader notes it at its start, and later asks for the ids since."""

    def __init__(self) -> None:
        self.count = 0
        self._numbers: OrderedDict[MemoryId, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._numbers)

    def since(self, count: int, memory_ids: Iterable[MemoryId]) -> list[MemoryId]:
        """Return those of *memory_ids* added since ``count`` was *count*."""
        return (
            [memory_id for memory_id in memory_ids if self._numbers.get(memory_id, 0) > count]
            if self.count > count
            else []
        )

    def add(self, memory_ids: Iterable[MemoryId]) -> None:
        """Add ids."""
        for memory_id in memory_ids:
            self.count += 1
            self._numbers[memory_id] = self.count
            self._numbers.move_to_end(memory_id)
        while len(self._numbers) > CAPACITY:
            self._numbers.popitem(last=False)

    def discard(self, memory_ids: Iterable[MemoryId]) -> None:
        """Discard ids."""
        for memory_id in memory_ids:
            self._numbers.pop(memory_id, None)

    def clear(self) -> None:
        """Discard all ids."""
        self._numbers.clear()
