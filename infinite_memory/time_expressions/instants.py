"""Instants in requests: RFC 3339 with or without offset, or a date alone. Standard library only.

Time expressions are not instants (`find_time` parses those), and neither are bare numbers: seconds and milliseconds are ambiguous.
"""

from __future__ import annotations

import datetime as dt
import re
from zoneinfo import ZoneInfo

_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
_INSTANT = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})[Tt ](\d{2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)? ?([Zz]|[+-]\d{2}:?\d{2})?", re.ASCII
)
_MAX_LENGTH = 40
EXPECTED = "an instant such as 2026-11-10T18:00:00Z or a date such as 2026-11-10"


def parse_instant(text: str, zone: ZoneInfo) -> dt.datetime:
    """Parse an instant; one without offset is wall time in *zone*, and a date alone its midnight there. Return aware UTC.

    Raises:
        ValueError: *text* is neither, or there is no such day or time.
    """
    return parse_day_or_instant(text, zone, upper=False)


def parse_day_or_instant(text: str, zone: ZoneInfo, *, upper: bool) -> dt.datetime:
    """Parse an end of a range, as aware UTC.

    A date alone means the whole local day: as lower end its midnight, as upper end the *next* midnight, so that a half-open range
    includes the day. `is_day` distinguishes the two forms.

    Raises:
        ValueError: as `parse_instant`.
    """
    written = text.strip() if isinstance(text, str) else ""
    if not isinstance(text, str) or len(written) > _MAX_LENGTH:
        raise ValueError(f"{_shown(text)} is not {EXPECTED}")
    try:
        if day := _DATE.fullmatch(written):
            midnight = dt.datetime.combine(dt.date(*map(int, day.groups())), dt.time())
            wall = midnight + dt.timedelta(days=1) if upper else midnight
            return wall.replace(tzinfo=zone).astimezone(dt.UTC)
        if match := _INSTANT.fullmatch(written):
            return _instant(match, zone)
    except (ValueError, OverflowError) as exc:
        raise ValueError(f"{_shown(text)} is not a day and time that exist: {exc}") from exc
    raise ValueError(f"{_shown(text)} is not {EXPECTED}")


def is_day(text: str) -> bool:
    """True if *text* is a date without a time."""
    return _DATE.fullmatch(text.strip()) is not None


def _instant(match: re.Match[str], zone: ZoneInfo) -> dt.datetime:
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    whole, leap = int(second or 0), 0
    if whole == 60:  # RFC 3339 allows a leap second; the next second is the nearest supported one
        whole, leap = 59, 1
    micro = int((fraction or "0").ljust(6, "0")[:6])
    wall = dt.datetime(int(year), int(month), int(day), int(hour), int(minute), whole, micro)
    wall += dt.timedelta(seconds=leap)
    return wall.replace(tzinfo=_offset(offset, zone)).astimezone(dt.UTC)


def _offset(offset: str | None, zone: ZoneInfo) -> dt.tzinfo:
    if offset is None:
        return zone
    if offset in ("Z", "z"):
        return dt.UTC
    hours, minutes = int(offset[1:3]), int(offset[-2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"the offset {offset} does not exist")
    delta = dt.timedelta(hours=hours, minutes=minutes)
    return dt.timezone(-delta if offset[0] == "-" else delta)


def _shown(value: object) -> str:
    written = repr(value)
    return written if len(written) <= _MAX_LENGTH * 2 else f"{written[: _MAX_LENGTH * 2]}…"
