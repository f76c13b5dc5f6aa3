"""The clock as an argument, so that tests and requests can say what time it is; and whether it was set."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

Clock = Callable[[], dt.datetime]


def system_clock() -> dt.datetime:
    """Return the present instant, aware and in UTC."""
    return dt.datetime.now(dt.UTC)


def read_boot_clock() -> float:
    """Return the seconds since the machine started, those in which it slept included where the system counts them."""
    if hasattr(time, "CLOCK_BOOTTIME"):  # Linux, whose monotonic clock stands still in sleep
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_MONOTONIC"):  # macOS, whose `time.monotonic` stands still in sleep, and this does not
        return time.clock_gettime(time.CLOCK_MONOTONIC)
    return time.monotonic()


class ClockWatch:
    """Notices that a clock was set: by how much it has moved against *steady*, which nobody sets."""

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
