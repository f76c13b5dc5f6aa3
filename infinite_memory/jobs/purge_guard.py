"""Decides whether the clock can be trusted for purges: while it is wrong, a purge would hard-delete memories that were promised to be
restorable for weeks.

Ages are counted from the last successful run, which today's run confirms, so one run with a clock that is ahead removes nothing
early. If the clock was seen to be set by days, times recorded before are unreliable: nothing is purged until the full retention
period has passed again.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from infinite_memory.clock import Clock
from infinite_memory.store.base import Store

META = "job.purge_guard"  # specific to this database, like all job state: not in backups
FAULT = dt.timedelta(days=3)  # tolerated clock error: nobody depends on the hour of a purge
GAP = dt.timedelta(days=30)
"""A gap this long between runs counts as a clock change, if the clock was in doubt already."""
_EVER = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class PurgeReference:
    """The reference instant for ages; if nothing may be purged before ``waits_until``, an instant so early that nothing is old."""

    as_of: dt.datetime
    waits_until: dt.datetime | None = None


class PurgeGuard:
    """Records since when the clock is trusted. *days* is the retention period before a purge."""

    def __init__(self, store: Store, days: float, clock: Clock) -> None:
        self._store, self._wait, self._clock = store, dt.timedelta(days=days), clock

    async def look(self, last_ok_at: dt.datetime | None, shift: dt.timedelta = dt.timedelta()) -> dt.datetime:
        """Check the clock, and return the instant before which nothing may be purged.

        Args:
            last_ok_at: The last successful purge; a home with a purge and without a record yet is trusted.
            shift: How far the clock was set since the last call, if this process saw it.

        Raises:
            StoreError: the record cannot be read or written.
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
        """Return the reference instant for ages."""
        now = self._clock()
        return now if last_ok_at is None else min(now, last_ok_at)

    async def note_purge(self, as_of: dt.datetime) -> None:
        """Record the reference instant of a nightly run.

        Raises:
            StoreError: the record cannot be written.
        """
        await self._store.set_meta(META, {**(await self._store.get_meta(META) or {}), "counted_from": as_of})

    async def find_reference(self) -> PurgeReference:
        """Return the reference for a purge on request: that of the last nightly run. Records nothing.

        A new home waits only if its clock was set: memories that it imported may have been forgotten long ago.

        Raises:
            StoreError: the record cannot be read.
        """
        record = await self._store.get_meta(META) or {}
        since, looked_at = record.get("trusted_since"), record.get("looked_at")
        if not isinstance(since, dt.datetime) or not isinstance(looked_at, dt.datetime):
            return PurgeReference(self._clock())  # no run has checked the clock yet
        counted_from = record.get("counted_from")
        as_of = self.get_reference(counted_from if isinstance(counted_from, dt.datetime) else looked_at)
        waits_until = since + self._wait
        if as_of < waits_until and record.get("was_set", True):
            return PurgeReference(_EVER, waits_until)
        return PurgeReference(as_of)
