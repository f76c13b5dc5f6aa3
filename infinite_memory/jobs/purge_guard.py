"""Whether the clock is trusted to tell how long ago something was forgotten: a purge by a clock that is wrong for a while removes for
good what was promised to come back for weeks.

An age is counted from the last run that succeeded, which today's run confirms, so one run by a clock that is ahead removes nothing
early. Where the clock was seen to be set by days, what was noted until then tells no age: nothing is purged until the time after which
things are purged has gone by once more.
"""

from __future__ import annotations

import datetime as dt

from infinite_memory.clock import Clock
from infinite_memory.store.base import Store

META = "job.purge_guard"  # of this database alone, as all of jobs: no backup carries it
FAULT = dt.timedelta(days=3)  # by how much a clock may be wrong: nobody counts on the hour of a purge
GAP = dt.timedelta(days=30)
"""A jump this long, with nobody there to see it, is taken for a clock that was set, where the one before it was in doubt."""
_EVER = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class PurgeGuard:
    """Notes since when the clock is trusted. *days* is after how many of them things are purged."""

    def __init__(self, store: Store, days: float, clock: Clock) -> None:
        self._store, self._wait, self._clock = store, dt.timedelta(days=days), clock

    async def look(self, last_ok_at: dt.datetime | None, shift: dt.timedelta = dt.timedelta()) -> dt.datetime:
        """Return before when nothing is to be purged.

        Args:
            last_ok_at: When things were purged last; in a home that has purged before, and noted nothing yet, it is trusted.
            shift: How far the clock was set since the last call, as far as this process saw it.

        Raises:
            StoreError: the note cannot be read or written.
        """
        now, record = self._clock(), await self._store.get_meta(META) or {}
        since, looked_at = record.get("trusted_since"), record.get("looked_at")
        if not isinstance(since, dt.datetime) or not isinstance(looked_at, dt.datetime):
            since = now if last_ok_at is None else _EVER
        else:
            is_waiting = looked_at - since < self._wait
            if abs(shift) > FAULT or now < looked_at - FAULT or (is_waiting and now - looked_at > GAP):
                since = now
        await self._store.set_meta(META, {"trusted_since": since, "looked_at": now})
        return since + self._wait

    def get_reference(self, last_ok_at: dt.datetime | None) -> dt.datetime:
        """Return the instant from which ages are counted."""
        now = self._clock()
        return now if last_ok_at is None else min(now, last_ok_at)
