"""Wakes the job runner: at each job's time (APScheduler's cron triggers), and every 30 s.

The 30 s are measured by the event loop's monotonic clock. An interval trigger would use the system clock: set forward by
years, APScheduler lists every missed run, by the million and on the event loop; set back, it sleeps until the clock has
caught up. So a wakeup that finds the clock changed makes the triggers compute their next runs again.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.cron import CronTrigger

from infinite_memory.clock import ClockWatch
from infinite_memory.tasks import cancel_and_wait

log = logging.getLogger(__name__)

LOOK_EVERY_S = 30.0  # a changed clock, or a wakeup from sleep, is noticed after this long
MOVED_S = 5.0  # normal clock drift and adjustment between two wakeups
_DAY = dt.timedelta(days=1)


class DailyTrigger(CronTrigger):  # type: ignore[misc]  # APScheduler has no types
    """A cron trigger that fires once for missed runs, however many days were missed."""

    def get_next_fire_time(self, previous_fire_time: dt.datetime | None, now: dt.datetime) -> dt.datetime | None:
        """Return the next run; after a gap of more than a day, the first that is not before *now*."""
        if previous_fire_time is not None and now - previous_fire_time > _DAY:
            previous_fire_time = None
        next_run: dt.datetime | None = super().get_next_fire_time(previous_fire_time, now)
        return next_run


class Wakeups:
    """Calls *on_wakeup* at each of *times* (by job) and every 30 s, after *was_set* if the clock was set. Used from one event loop."""

    def __init__(
        self, times: Mapping[str, dt.time], zone: ZoneInfo, on_wakeup: Callable[[], None], watch: ClockWatch,
        was_set: Callable[[dt.timedelta], None],
    ) -> None:  # fmt: skip
        self._on_wakeup, self._watch, self._was_set = on_wakeup, watch, was_set
        self._triggers = {
            name: DailyTrigger(hour=time.hour, minute=time.minute, timezone=zone) for name, time in times.items()
        }
        self._scheduler: Any = AsyncIOScheduler(
            timezone=dt.UTC, job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
        )
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start, with an immediate wakeup; needs a running event loop."""
        for name, trigger in self._triggers.items():
            self._scheduler.add_job(_awaitable(self.look), trigger, id=name)
        self._scheduler.start()
        self._task = asyncio.create_task(self._run(), name="job wakeups")

    async def close(self) -> None:
        """Stop the wakeups."""
        self._scheduler.shutdown(wait=False)
        if self._task is not None:
            await cancel_and_wait([self._task])

    def look(self) -> None:
        """Call *on_wakeup*; if the clock was set, recompute the next runs first."""
        moved = self._watch.take_shift()
        if abs(shift := moved.total_seconds()) > MOVED_S:
            log.info("the clock was set by %.0f s", shift, extra={"event": "clock_set", "seconds": round(shift)})
            self._was_set(moved)
            for name, trigger in self._triggers.items():
                self._scheduler.reschedule_job(name, trigger=trigger)
        self._on_wakeup()

    async def _run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY_S)


def _awaitable(call: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """Wrap *call* to run on the event loop: the scheduler runs plain functions in threads."""

    async def run() -> None:
        call()

    return run
