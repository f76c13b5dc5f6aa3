"""Daily due instants at a local time, across daylight saving changes.

A day's due instant is the first at which a local clock shows the time: the earlier one on a day when the time occurs twice. On a day
that skips the time, it is as long after midnight as the time says (02:30 is then 03:30 on the clock). So each day has exactly one.
"""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

_DAY = dt.timedelta(days=1)


def get_due(day: dt.date, time: dt.time, zone: ZoneInfo) -> dt.datetime:
    """Return the due instant of a day, in UTC."""
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
    """Parse a time of day, HH:MM.

    Raises:
        ValueError: it is not one.
    """
    return dt.datetime.strptime(text, "%H:%M").time()
