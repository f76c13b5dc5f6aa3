"""Instants in replies: RFC 3339, and in words: how long ago, with date and time in the user's time zone.

Why words beside the timestamp: an assistant that reads "3 weeks ago, Tue 7 Nov 2023, 14:05" need not count days to order events,
which it does badly.
"""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def format_instant(instant: dt.datetime) -> str:
    """Format an instant in UTC: ``2023-07-20T15:30:45.123Z``."""
    return instant.astimezone(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def on_clock(instant: dt.datetime, zone: dt.tzinfo | None) -> dt.datetime:
    """Return an instant in a time zone (None: the system's); in UTC if it would leave the years 1 to 9999 there.

    Such instants occur: 0001-01-01T00:00:00Z is what some languages write for a missing time.
    """
    try:
        return instant.astimezone(zone)
    except (OverflowError, ValueError):
        return instant.astimezone(dt.UTC)


def format_relative(instant: dt.datetime, now: dt.datetime, zone: ZoneInfo) -> str:
    """Format *instant* relative to *now*, both in *zone*: ``yesterday, Mon 6 Nov 2023, 14:05``."""
    there, here = on_clock(instant, zone), on_clock(now, zone)
    return f"{_distance(there.date(), here.date())}, {format_day(there)}, {there:%H:%M}"


def format_day(day: dt.date) -> str:
    """Format a day, or that of an instant in its own time zone: ``Mon 6 Nov 2023``."""
    return f"{_DAYS[day.weekday()]} {day.day} {_MONTHS[day.month - 1]} {day.year}"


def _distance(date: dt.date, today: dt.date) -> str:
    days = (today - date).days
    if days in _NEAR:
        return _NEAR[days]
    count, unit = _counted(abs(days))
    amount = f"{count} {unit}{'' if count == 1 else 's'}"
    return f"{amount} ago" if days > 0 else f"in {amount}"


_NEAR = {0: "today", 1: "yesterday", -1: "tomorrow"}


def _counted(days: int) -> tuple[int, str]:
    """Return the largest unit of which there are at least two; the remainder is less than one of it."""
    for length, unit in ((365.2425, "year"), (30.436875, "month"), (7, "week")):
        if days >= 2 * length:
            return int(days / length), unit
    return days, "day"
