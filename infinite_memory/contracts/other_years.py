"""The same days of another year, for where it is those that may be meant.

"Last March", said in November, is that of this year for one person and that of the last for another. Where nothing is found in the one,
the terminal and the page look into the other and name it, in words that can be asked for as they stand.
"""

from __future__ import annotations

import calendar
import datetime as dt
import re


def name_days(start: dt.datetime, end: dt.datetime) -> str:
    """Name the days between two instants, each on its own clock, in words that are read as them again: a month, a day, or the first
    day and the last."""
    last = end - dt.timedelta(milliseconds=1)
    if is_month(start, end):
        return f"{calendar.month_name[start.month]} {start.year}"
    return f"{start:%Y-%m-%d}" + (f" to {last:%Y-%m-%d}" if start.date() != last.date() else "")


def is_month(start: dt.datetime, end: dt.datetime) -> bool:
    """True if two instants, each on its own clock, are the ends of a calendar month."""
    return start.day == end.day == 1 and 28 <= (end.replace(tzinfo=None) - start.replace(tzinfo=None)).days <= 31


def name_in_other_year(words: str, start: dt.datetime | None, end: dt.datetime | None, years: int) -> str | None:
    """Name the days that *words* were read as, in another year.

    Args:
        start, end: What the words were read as, on the clock of whoever said them; None where that is open.
        years: How many after the year of those; below 0 before it.

    Returns:
        The days; None where the words name their year, an end is open, or that year has no such day.
    """
    if start is None or end is None or re.search(r"\d{4}", words):
        return None
    try:
        return name_days(start.replace(year=start.year + years), end.replace(year=end.year + years))
    except ValueError:  # a 29 February, or beyond the years that there are
        return None
