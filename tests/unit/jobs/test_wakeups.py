"""When jobs are looked at while the clock is set: at once, without a list of what was missed, and with next runs of the right clock."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

from infinite_memory.clock import ClockWatch
from infinite_memory.jobs.wakeups import DailyTrigger, Wakeups

ZONE = ZoneInfo("UTC")
NOW = dt.datetime(2026, 11, 30, 12, tzinfo=dt.UTC)


def test_after_years_the_trigger_names_one_missed_run_and_then_the_next_to_come() -> None:
    trigger, missed = DailyTrigger(hour=3, minute=0, timezone=ZONE), dt.datetime(1970, 1, 1, 3, tzinfo=dt.UTC)
    assert trigger.get_next_fire_time(missed, NOW) == dt.datetime(2026, 12, 1, 3, tzinfo=dt.UTC)


async def test_a_clock_that_was_set_back_leaves_no_run_far_in_the_future() -> None:
    offset, looks, shifts = dt.timedelta(), 0, list[dt.timedelta]()

    def clock() -> dt.datetime:
        return dt.datetime.now(dt.UTC) + offset

    def look() -> None:
        nonlocal looks
        looks += 1

    wakeups = Wakeups({"backup": dt.time(3, 0)}, ZONE, look, ClockWatch(clock), shifts.append)
    wakeups.start()
    try:
        scheduler = wakeups._scheduler
        far = dt.datetime.now(dt.UTC) + dt.timedelta(days=30)
        scheduler.modify_job("backup", next_run_time=far)  # as a clock a month ahead leaves it
        wakeups.look()
        assert scheduler.get_job("backup").next_run_time == far
        offset = dt.timedelta(days=-30)
        wakeups.look()
        assert scheduler.get_job("backup").next_run_time <= dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
        assert looks == 2
        assert [round(shift.total_seconds()) for shift in shifts] == [-30 * 86400]
        assert [job.id for job in scheduler.get_jobs()] == ["backup"]  # no interval, whose missed runs are millions
    finally:
        await wakeups.close()


def test_a_shift_of_the_clock_is_told_once() -> None:
    now, steady = NOW, 100.0
    watch = ClockWatch(lambda: now, lambda: steady)
    now, steady = NOW + dt.timedelta(seconds=30), 130.0
    assert watch.take_shift() == dt.timedelta()
    now = now - dt.timedelta(days=365)
    assert watch.take_shift() == dt.timedelta(days=-365)
    assert watch.take_shift() == dt.timedelta()
