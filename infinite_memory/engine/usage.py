"""Counts how often memories are recalled, so that pruning keeps useful ones. Buffered in memory, written periodically."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable

from infinite_memory.clock import Clock
from infinite_memory.errors import StoreError
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId
from infinite_memory.store.base import Store

log = logging.getLogger(__name__)

WRITE_EVERY_S = 30.0  # one write for many recalls; losing some in a crash is harmless
MAX_KEPT = 20_000  # memories counted before an immediate write


class UsageCounter:
    """The counts not yet written. Use from one event loop only."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._counts: dict[MemoryId, tuple[ScopeId, int]] = {}
        self._written_at = time.monotonic()
        self._writing: asyncio.Task[None] | None = None

    def record(self, memories: Iterable[MemoryRecord]) -> None:
        """Count recalled memories."""
        for memory in memories:
            _, count = self._counts.get(memory.memory_id, (memory.scope_id, 0))
            self._counts[memory.memory_id] = memory.scope_id, count + 1
        rested = time.monotonic() - self._written_at > WRITE_EVERY_S
        idle = self._writing is None or self._writing.done()
        if self._counts and idle and (rested or len(self._counts) > MAX_KEPT):
            self._writing = asyncio.create_task(self.write(), name="uses")  # runs in the background

    async def close(self) -> None:
        """Write the remaining counts."""
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
        await self.write()

    async def write(self) -> None:
        """Write the counts; on failure they are dropped, because they do not justify an error."""
        counts, self._counts = self._counts, {}
        self._written_at = time.monotonic()
        if not counts:
            return
        try:
            await self._store.uses.add(counts, self._clock())
        except StoreError as exc:
            log.info("uses were not counted: %s", exc, extra={"event": "uses_not_counted"})
