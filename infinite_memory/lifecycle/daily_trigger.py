"""APScheduler's side of `daily`: when it is to wake us."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

from apscheduler.triggers.base import BaseTrigger

from infinite_memory.lifecycle.daily import next_due


class DailyTrigger(BaseTrigger):  # type: ignore[misc]  # the library has no types
    """Fires once each day, at a time on the clocks of a zone."""

    def __init__(self, time: dt.time, zone: ZoneInfo) -> None:
        self._time, self._zone = time, zone

    def get_next_fire_time(self, previous_fire_time: dt.datetime | None, now: dt.datetime) -> dt.datetime:
        """Give the first due instant after both."""
        after = now if previous_fire_time is None else max(previous_fire_time, now)
        return next_due(after, self._time, self._zone)
