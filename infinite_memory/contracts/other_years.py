"""The same days of another year, as an alternative reading of a time expression.

"Last March", said in November, is in this year for some people and in the last for others. If nothing is found in the one,
the terminal and the page search the other and name it, in words that can be used as a query.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re


def name_days(start: dt.datetime, end: dt.datetime) -> str:
    """Return words for the days between two instants, each in its own time zone, that parse to the same days.

    They are a month, a day, or the first day and the last.
    """
    last = end - dt.timedelta(milliseconds=1)
    if is_month(start, end):
        return f"{calendar.month_name[start.month]} {start.year}"
    return f"{start:%Y-%m-%d}" + (f" to {last:%Y-%m-%d}" if start.date() != last.date() else "")


def is_month(start: dt.datetime, end: dt.datetime) -> bool:
    """True if two instants, each in its own time zone, are the ends of a calendar month."""
    return start.day == end.day == 1 and 28 <= (end.replace(tzinfo=None) - start.replace(tzinfo=None)).days <= 31


def name_in_other_year(words: str, start: dt.datetime | None, end: dt.datetime | None, years: int) -> str | None:
    """Return words for the days that *words* were parsed to, in another year.

    Args:
        start, end: The range of the words, in the time zone of the caller; None if that end is open.
        years: Years after that of the range; negative for years before it.

    Returns:
        The days; None if the words include the year, an end is open, or that year has no such day.
    """
    if start is None or end is None or re.search(r"\d{4}", words):
        return None
    try:
        return name_days(start.replace(year=start.year + years), end.replace(year=end.year + years))
    except ValueError:  # 29 February, or outside the supported years
        return None
