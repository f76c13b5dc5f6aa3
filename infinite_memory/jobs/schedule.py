"""Once a day at a time on the user's clock, through every change of that clock.

A day's due instant is the first at which a clock there shows the time. In the night in which it is shown twice, that is the
earlier one; in the night in which it is skipped, it is as long after midnight as the time says (02:30 is then shown as 03:30). So
each day has exactly one.
"""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

_DAY = dt.timedelta(days=1)


def get_due(day: dt.date, time: dt.time, zone: ZoneInfo) -> dt.datetime:
    """Return the instant of a day, in UTC."""
    return dt.datetime.combine(day, time, tzinfo=zone).replace(fold=0).astimezone(dt.UTC)


def last_due(now: dt.datetime, time: dt.time, zone: ZoneInfo) -> dt.datetime:
    """Return the newest due instant that is not after *now*."""
    day = now.astimezone(zone).date() + _DAY
    while (due := get_due(day, time, zone)) > now:
        day -= _DAY
    return due


def next_due(now: dt.datetime, time: dt.time, zone: ZoneInfo) -> dt.datetime:
    """Return the first due instant after *now*."""
    day = now.astimezone(zone).date() - _DAY
    while (due := get_due(day, time, zone)) <= now:
        day += _DAY
    return due


def parse_time(text: str) -> dt.time:
    """Read a time of day, HH:MM.

    Raises:
        ValueError: it is none.
    """
    return dt.datetime.strptime(text, "%H:%M").time()
