"""What was removed while the store was read: a slower reader must not bring it back.

A removal from before the reading began says nothing: since then, another process may have brought the memory back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from infinite_memory.models import MemoryId

REMOVALS_KEPT = 10_000
"""Removals remembered: many more than happen while one page of the store is read."""


class Removals:
    """The ids of the newest removals. ``count`` rises with each: a reader remembers it, and asks later what went since."""

    def __init__(self) -> None:
        self.count = 0
        self._numbers: OrderedDict[MemoryId, int] = OrderedDict()

    def since(self, count: int, memory_ids: Iterable[MemoryId]) -> list[MemoryId]:
        """Give those of *memory_ids* that were removed since ``count`` was *count*."""
        return [one for one in memory_ids if self._numbers.get(one, 0) > count] if self.count > count else []

    def add(self, memory_ids: Iterable[MemoryId]) -> None:
        """Remember removals."""
        for memory_id in memory_ids:
            self.count += 1
            self._numbers[memory_id] = self.count
            self._numbers.move_to_end(memory_id)
        while len(self._numbers) > REMOVALS_KEPT:
            self._numbers.popitem(last=False)

    def discard(self, memory_ids: Iterable[MemoryId]) -> None:
        """Forget those of memories that were written again."""
        for memory_id in memory_ids:
            self._numbers.pop(memory_id, None)

    def clear(self) -> None:
        """Forget all: any of them may be there again."""
        self._numbers.clear()
