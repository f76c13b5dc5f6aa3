"""Whether the clock is trusted to tell how long ago something was forgotten: a purge by a clock that is wrong for a while removes for
good what was promised to come back for weeks.

An age is counted from the last run that succeeded, which today's run confirms, so one run by a clock that is ahead removes nothing
early. Where the clock was seen to be set by days, what was noted until then tells no age: nothing is purged until the time after which
things are purged has gone by once more.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from infinite_memory.clock import Clock
from infinite_memory.store.base import Store

META = "job.purge_guard"  # of this database alone, as all of jobs: no backup carries it
FAULT = dt.timedelta(days=3)  # by how much a clock may be wrong: nobody counts on the hour of a purge
GAP = dt.timedelta(days=30)
"""A jump this long, with nobody there to see it, is taken for a clock that was set, where the one before it was in doubt."""
_EVER = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class PurgeReference:
    """The instant from which ages are counted; where nothing is purged before ``waits_until``, one so early that nothing is old."""

    as_of: dt.datetime
    waits_until: dt.datetime | None = None


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
        was_set = record.get("was_set", True)
        if not isinstance(since, dt.datetime) or not isinstance(looked_at, dt.datetime):
            since, was_set = now if last_ok_at is None else _EVER, False
        else:
            is_waiting = looked_at - since < self._wait
            if abs(shift) > FAULT or now < looked_at - FAULT or (is_waiting and now - looked_at > GAP):
                since, was_set = now, True
        looked = {"trusted_since": since, "looked_at": now, "was_set": was_set}
        await self._store.set_meta(META, {**record, **looked})
        return since + self._wait

    def get_reference(self, last_ok_at: dt.datetime | None) -> dt.datetime:
        """Return the instant from which ages are counted."""
        now = self._clock()
        return now if last_ok_at is None else min(now, last_ok_at)

    async def note_purge(self, as_of: dt.datetime) -> None:
        """Note from when a nightly run counted ages.

        Raises:
            StoreError: the note cannot be written.
        """
        await self._store.set_meta(META, {**(await self._store.get_meta(META) or {}), "counted_from": as_of})

    async def find_reference(self) -> PurgeReference:
        """Return from when ages are counted where somebody asks for a purge: as the last nightly run did; notes nothing.

        A new home waits only where its clock was set: what it took in of another may have been forgotten long ago.

        Raises:
            StoreError: the notes cannot be read.
        """
        record = await self._store.get_meta(META) or {}
        since, looked_at = record.get("trusted_since"), record.get("looked_at")
        if not isinstance(since, dt.datetime) or not isinstance(looked_at, dt.datetime):
            return PurgeReference(self._clock())  # no run has looked at the clock yet
        counted_from = record.get("counted_from")
        as_of = self.get_reference(counted_from if isinstance(counted_from, dt.datetime) else looked_at)
        waits_until = since + self._wait
        if as_of < waits_until and record.get("was_set", True):
            return PurgeReference(_EVER, waits_until)
        return PurgeReference(as_of)
