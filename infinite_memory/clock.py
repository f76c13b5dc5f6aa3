"""The clock as an argument, so that tests and requests can say what time it is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

Clock = Callable[[], dt.datetime]


def system_clock() -> dt.datetime:
    """Tell the time, aware and in UTC."""
    return dt.datetime.now(dt.UTC)
