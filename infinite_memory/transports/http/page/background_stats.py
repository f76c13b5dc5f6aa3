"""Statistics of the whole memory, for the health view: computed in the background, because counting a million memories takes seconds.

A view waits for them briefly. After that it shows the previous ones with their time, or that they
are being computed.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

WAIT_S = 0.04  # of the 0.1 s that a view may take
FRESH_S = 2.0  # younger statistics are not computed again


@dataclass(frozen=True, slots=True)
class CountedStats:
    """Statistics with the time of their computation."""

    stats: Json
    at: dt.datetime


class BackgroundStats:
    """The statistics shared by all views. Used from one event loop."""

    def __init__(self) -> None:
        self._counting: asyncio.Task[CountedStats] | None = None
        self._counted: CountedStats | None = None
        self._counted_at = 0.0

    async def find(self, collect: Callable[[], Awaitable[Json]]) -> CountedStats | None:
        """Return the newest statistics, computed by *collect* if they are stale; None while the first are being computed.

        Raises:
            InfiniteMemoryError: they could not be computed.
        """
        if self._counting is None and time.monotonic() - self._counted_at > FRESH_S:
            self._counting = asyncio.create_task(_count(collect), name="page statistics")
        if self._counting is not None:
            await asyncio.wait({self._counting}, timeout=WAIT_S)
            if self._counting is not None and self._counting.done():
                task, self._counting = self._counting, None
                self._counted, self._counted_at = task.result(), time.monotonic()
        return self._counted


async def _count(collect: Callable[[], Awaitable[Json]]) -> CountedStats:
    counted_at = dt.datetime.now(dt.UTC)
    return CountedStats(await collect(), counted_at)
