"""What was removed a moment ago: a slower reader of the store must not bring it back."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from infinite_memory.models import MemoryId

REMOVALS_KEPT = 10_000
"""Removals remembered: many more than happen while one page of the store is read."""


class Removals:
    """The ids of the newest removals. ``count`` rises with each, so that a reader can tell whether there were any meanwhile."""

    def __init__(self) -> None:
        self.count = 0
        self._ids: OrderedDict[MemoryId, None] = OrderedDict()

    def __contains__(self, memory_id: MemoryId) -> bool:
        return memory_id in self._ids

    def __bool__(self) -> bool:
        return bool(self._ids)

    def add(self, memory_ids: Iterable[MemoryId]) -> None:
        """Remember removals."""
        for memory_id in memory_ids:
            self._ids[memory_id] = None
            self.count += 1
        while len(self._ids) > REMOVALS_KEPT:
            self._ids.popitem(last=False)

    def discard(self, memory_ids: Iterable[MemoryId]) -> None:
        """Forget those of memories that were written again."""
        for memory_id in memory_ids:
            self._ids.pop(memory_id, None)

    def clear(self) -> None:
        """Forget all: any of them may be there again."""
        self._ids.clear()
