"""When it is looked whether a job is due: at each job's time (APScheduler's cron triggers), and every half a minute besides.

The half minutes go by the event loop's clock, which nobody sets. An interval trigger would go by the computer's: set forward by
years, APScheduler lists every run that was missed, by the million and on the event loop; set back, it sleeps until the clock has
caught up. So the look that finds the clock moved makes the triggers compute their next runs again.
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

LOOK_EVERY_S = 30.0  # a clock that was set, or a machine that slept, is noticed after this long
MOVED_S = 5.0  # what a clock may stray between two looks without having been set
_DAY = dt.timedelta(days=1)


class DailyTrigger(CronTrigger):  # type: ignore[misc]  # APScheduler has no types
    """A cron trigger that names one missed run, however many days were missed."""

    def get_next_fire_time(self, previous_fire_time: dt.datetime | None, now: dt.datetime) -> dt.datetime | None:
        """Return the next run; after a gap of days the first that is not before *now*."""
        if previous_fire_time is not None and now - previous_fire_time > _DAY:
            previous_fire_time = None
        next_run: dt.datetime | None = super().get_next_fire_time(previous_fire_time, now)
        return next_run


class Wakeups:
    """Calls *look* at each of *times* (by job) and every half a minute, *was_set* first if the clock was set. For one event loop."""

    def __init__(
        self, times: Mapping[str, dt.time], zone: ZoneInfo, look: Callable[[], None], watch: ClockWatch,
        was_set: Callable[[dt.timedelta], None],
    ) -> None:  # fmt: skip
        self._look, self._watch, self._was_set = look, watch, was_set
        self._triggers = {
            name: DailyTrigger(hour=time.hour, minute=time.minute, timezone=zone) for name, time in times.items()
        }
        self._scheduler: Any = AsyncIOScheduler(
            timezone=dt.UTC, job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
        )
        self._looking: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, with a look at once; needs a running event loop."""
        for name, trigger in self._triggers.items():
            self._scheduler.add_job(_awaitable(self.look), trigger, id=name)
        self._scheduler.start()
        self._looking = asyncio.create_task(self._run(), name="job wakeups")

    async def close(self) -> None:
        """Call no more."""
        self._scheduler.shutdown(wait=False)
        if self._looking is not None:
            await cancel_and_wait([self._looking])

    def look(self) -> None:
        """Look, with the next runs computed again where the clock was set."""
        moved = self._watch.take_shift()
        if abs(shift := moved.total_seconds()) > MOVED_S:
            log.info("the clock was set by %.0f s", shift, extra={"event": "clock_set", "seconds": round(shift)})
            self._was_set(moved)
            for name, trigger in self._triggers.items():
                self._scheduler.reschedule_job(name, trigger=trigger)
        self._look()

    async def _run(self) -> None:
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY_S)


def _awaitable(call: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    """Make *call* run on the event loop: the scheduler hands plain functions to threads."""

    async def run() -> None:
        call()

    return run
