"""To which memories something happened lately: what was removed while the store was read, what was written while others went.

A slower reader of the store must not bring back what was removed meanwhile; what came before its reading began says nothing,
for since then another process may have brought the memory back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from infinite_memory.models import MemoryId

CAPACITY = 10_000
"""Ids remembered: many more than come while one page of the store is read."""


class RecentIds:
    """The ids that came last. ``count`` rises with each: who begins something remembers it, and asks later what came since."""

    def __init__(self) -> None:
        self.count = 0
        self._numbers: OrderedDict[MemoryId, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._numbers)

    def since(self, count: int, memory_ids: Iterable[MemoryId]) -> list[MemoryId]:
        """Return those of *memory_ids* that came since ``count`` was *count*."""
        return (
            [memory_id for memory_id in memory_ids if self._numbers.get(memory_id, 0) > count]
            if self.count > count
            else []
        )

    def add(self, memory_ids: Iterable[MemoryId]) -> None:
        """Take ids up."""
        for memory_id in memory_ids:
            self.count += 1
            self._numbers[memory_id] = self.count
            self._numbers.move_to_end(memory_id)
        while len(self._numbers) > CAPACITY:
            self._numbers.popitem(last=False)

    def discard(self, memory_ids: Iterable[MemoryId]) -> None:
        """Forget ids."""
        for memory_id in memory_ids:
            self._numbers.pop(memory_id, None)

    def clear(self) -> None:
        """Forget all."""
        self._numbers.clear()
