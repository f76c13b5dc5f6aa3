"""The clock, passed as an argument so that tests and requests can set the time; and detection of changes of the system clock."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

Clock = Callable[[], dt.datetime]


def system_clock() -> dt.datetime:
    """Return the present instant, as an aware UTC datetime."""
    return dt.datetime.now(dt.UTC)


def read_boot_clock() -> float:
    """Return the seconds since the machine booted, including sleep if the system counts it."""
    if hasattr(time, "CLOCK_BOOTTIME"):  # Linux, whose monotonic clock stops during sleep
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_MONOTONIC"):  # macOS, whose `time.monotonic` stops during sleep; this one does not
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()


class ClockWatch:
    """Detects that a clock was set, by comparing it with the monotonic clock *steady*."""

    def __init__(self, clock: Clock, steady: Callable[[], float] = read_boot_clock) -> None:
        self._clock, self._steady = clock, steady
        self._offset = self._read()

    def take_shift(self) -> dt.timedelta:
        """Return how far the clock was set since the last call (negative: back)."""
        offset = self._read()
        shift, self._offset = offset - self._offset, offset
        return dt.timedelta(seconds=shift)

    def _read(self) -> float:
        return self._clock().timestamp() - self._steady()
