"""Counts which memories are answers, so that pruning knows what is of use. Kept in memory, written now and then."""

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

WRITE_EVERY_S = 30.0  # one write for many answers; what a crash loses of it is no harm
MAX_KEPT = 20_000  # memories counted before they are written at once


class UsageCounter:
    """The counts that are not yet written. Used from one event loop."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._counts: dict[MemoryId, tuple[ScopeId, int]] = {}
        self._written_at = time.monotonic()
        self._writing: asyncio.Task[None] | None = None

    def record(self, memories: Iterable[MemoryRecord]) -> None:
        """Count memories that were answers."""
        for memory in memories:
            _, count = self._counts.get(memory.memory_id, (memory.scope_id, 0))
            self._counts[memory.memory_id] = memory.scope_id, count + 1
        rested = time.monotonic() - self._written_at > WRITE_EVERY_S
        idle = self._writing is None or self._writing.done()
        if self._counts and idle and (rested or len(self._counts) > MAX_KEPT):
            self._writing = asyncio.create_task(self.write(), name="uses")  # nobody waits for it

    async def close(self) -> None:
        """Write what is left."""
        if self._writing is not None:
            await asyncio.gather(self._writing, return_exceptions=True)
        await self.write()

    async def write(self) -> None:
        """Write what was counted; what cannot be written is forgotten, for it is worth no error."""
        counts, self._counts = self._counts, {}
        self._written_at = time.monotonic()
        if not counts:
            return
        try:
            await self._store.uses.add(counts, self._clock())
        except StoreError as exc:
            log.info("uses were not counted: %s", exc, extra={"event": "uses_not_counted"})
