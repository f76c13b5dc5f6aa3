"""Calendar arithmetic in local wall time: spans, and the span of a partial date.

Everything here is naive local time; `find_time` converts it to UTC once, at the end, so that a day has 23 or 25 hours when the
clocks change. Only spans counted in hours, minutes or seconds from now are absolute, which is marked by aware datetimes.
"""

from __future__ import annotations

import calendar
import datetime as dt
from dataclasses import dataclass, replace

from infinite_memory.time_expressions.holidays import count_days, holiday
from infinite_memory.time_expressions.lexicon import Unit

FIRST_YEAR, LAST_YEAR = 1000, 2999  # four-digit numbers that may be years
_YEARS_BACK = 12
"""A 29 February is at most eight years back; a weekday and day of the month together recur within eleven."""

_MONTHS_BACK = 12 * _YEARS_BACK


@dataclass(frozen=True, slots=True)
class Span:
    """A span ``start <= t < end``. None is an open end. *grain* is the unit that was named."""

    start: dt.datetime | None
    end: dt.datetime | None
    grain: Unit = Unit.DAY


@dataclass(frozen=True, slots=True)
class Date:
    """A partial date; `settle` fills in the missing parts.

    ``months`` is the width if no day is given (3 for a quarter or season). ``day_first`` is the order in which a
    numeric date was parsed, and ``swapped`` its other reading (month, day), if there is one.
    """

    year: int | None = None
    month: int | None = None
    day: int | None = None
    weekday: int | None = None
    months: int = 1
    holiday: str | None = None
    week: int | None = None
    shift: int = 0
    swapped: tuple[int, int] | None = None
    day_first: bool | None = None

    @property
    def grain(self) -> Unit:
        """The unit of this date."""
        if self.day is not None or self.weekday is not None or self.holiday:
            return Unit.DAY
        if self.week is not None:
            return Unit.WEEK
        if self.month is not None:
            return {1: Unit.MONTH, 3: Unit.QUARTER, 4: Unit.FOUR_MONTHS, 6: Unit.HALF_YEAR}.get(self.months, Unit.MONTH)
        return Unit.YEAR


def midnight(day: dt.date) -> dt.datetime:
    """Return the start of a day."""
    return dt.datetime.combine(day, dt.time())


def add_months(day: dt.datetime, months: int) -> dt.datetime:
    """Add calendar months; a day that the month does not have becomes its last."""
    count = day.year * 12 + day.month - 1 + months
    year, month = count // 12, count % 12 + 1
    return day.replace(year=year, month=month, day=min(day.day, calendar.monthrange(year, month)[1]))


_MONTHS = {
    Unit.MONTH: 1,
    Unit.TWO_MONTHS: 2,
    Unit.QUARTER: 3,
    Unit.FOUR_MONTHS: 4,
    Unit.HALF_YEAR: 6,
    Unit.YEAR: 12,
    Unit.DECADE: 120,
    Unit.CENTURY: 1200,
}
_DAYS = {Unit.DAY: 1, Unit.WEEK: 7, Unit.WEEKEND: 7, Unit.FORTNIGHT: 14}
_SECONDS = {Unit.SECOND: 1, Unit.MINUTE: 60, Unit.HOUR: 3600}


def shift(instant: dt.datetime, unit: Unit, count: int) -> dt.datetime:
    """Add *count* units; raises OverflowError or ValueError outside the years 1 to 9999."""
    if unit in _MONTHS:
        return add_months(instant, _MONTHS[unit] * count)
    if unit in _DAYS:
        return instant + dt.timedelta(days=_DAYS[unit] * count)
    return instant + dt.timedelta(seconds=_SECONDS[unit] * count)


_MONTH_DAYS = 30


def half_width(count: int, unit: Unit) -> dt.timedelta:
    """Return half of a length, with months of thirty days; at least a minute."""
    if unit in _MONTHS:
        return dt.timedelta(days=count * _MONTHS[unit] * _MONTH_DAYS / 2)
    seconds = _DAYS[unit] * 86400 if unit in _DAYS else _SECONDS[unit]
    return dt.timedelta(seconds=max(60, count * seconds / 2))


def unit_start(instant: dt.datetime, unit: Unit) -> dt.datetime:
    """Return the start of the calendar unit that contains *instant*; weeks start on Monday, weekends on Saturday."""
    day = instant.replace(hour=0, minute=0, second=0, microsecond=0)
    if unit is Unit.HOUR:
        return instant.replace(minute=0, second=0, microsecond=0)
    if unit is Unit.MINUTE:
        return instant.replace(second=0, microsecond=0)
    if unit is Unit.SECOND:
        return instant.replace(microsecond=0)
    if unit in (Unit.WEEK, Unit.FORTNIGHT):
        return day - dt.timedelta(days=day.weekday())
    if unit is Unit.WEEKEND:
        return day - dt.timedelta(days=day.weekday() - 5)
    if unit in (Unit.MONTH, Unit.TWO_MONTHS, Unit.QUARTER, Unit.FOUR_MONTHS, Unit.HALF_YEAR):
        width = _MONTHS[unit]
        return day.replace(month=(day.month - 1) // width * width + 1, day=1)
    if unit in (Unit.YEAR, Unit.DECADE, Unit.CENTURY):
        width = _MONTHS[unit] // 12
        return day.replace(year=max(1, day.year // width * width), month=1, day=1)
    return day


def unit_span(instant: dt.datetime, unit: Unit, count: int = 0) -> Span:
    """Return the calendar unit *count* units from the one that contains *instant*."""
    start = shift(unit_start(instant, unit), unit, count)
    end = start + dt.timedelta(days=2) if unit is Unit.WEEKEND else shift(start, unit, 1)
    return Span(start, end, unit)


def weekday_of_week(now: dt.datetime, weekday: int, back: int) -> Span:
    """Return a weekday of the calendar week *back* weeks from the current one."""
    day = unit_start(now, Unit.WEEK) + dt.timedelta(days=7 * back + weekday)
    return unit_span(day, Unit.DAY)


def latest_weekend(local_time: dt.datetime) -> Span:
    """Return the current weekend, or else the last one: the past is preferred."""
    return unit_span(local_time, Unit.WEEKEND, 0 if local_time.weekday() >= 5 else -1)


def week_of_year(year: int, week: int) -> dt.datetime | None:
    """Return the Monday of ISO *week* of *year*; None if the year has no such week."""
    try:
        return midnight(dt.date.fromisocalendar(year, week, 1))
    except ValueError:
        return None


def _start_in(date: Date, year: int) -> dt.datetime | None:
    """Return where *date* starts in *year*, for dates that recur yearly."""
    if date.holiday:
        day = holiday(date.holiday, year)
        return midnight(day) if day else None
    if date.week is not None:
        return week_of_year(year, date.week)
    try:
        return dt.datetime(year, date.month or 1, date.day or 1)
    except ValueError:
        return None


def _width_end(date: Date, start: dt.datetime) -> dt.datetime:
    if date.grain is Unit.DAY:
        return start + dt.timedelta(days=count_days(date.holiday, start.year) if date.holiday and not date.shift else 1)
    if date.grain is Unit.WEEK:
        return start + dt.timedelta(days=7)
    return add_months(start, 12 if date.grain is Unit.YEAR else date.months)


def _span(date: Date, start: dt.datetime) -> Span:
    start += dt.timedelta(days=date.shift)
    return Span(start, _width_end(date, start), date.grain)


def settle(
    date: Date, now: dt.datetime, *, floor: dt.datetime | None = None, ceiling: dt.datetime | None = None
) -> Span | None:
    """Return the span of *date*.

    Without bounds it is the most recent one that has begun. With *floor* it is the first one that starts there or later; with
    *ceiling* the last one that starts there or before. None if there is no such day (30 February).
    """
    if date.year is not None:
        start = _start_in(date, date.year)
        return _span(date, start) if start else None
    if date.month is not None or date.holiday or date.week is not None:
        return _yearly(date, ceiling or now, floor)
    if date.day is not None:
        return _monthly(date, ceiling or now, floor)
    if date.weekday is not None:
        return _weekly(date, now, floor, ceiling)
    return None


def _yearly(date: Date, limit: dt.datetime, floor: dt.datetime | None) -> Span | None:
    years = (
        range(floor.year - 1, floor.year + _YEARS_BACK)
        if floor
        else range(limit.year + 1, limit.year - _YEARS_BACK, -1)
    )
    for year in years:
        start = _start_in(date, year)
        if start is None:
            continue
        span = _span(date, start)
        assert span.start is not None
        if (floor is not None and span.start >= floor) or (floor is None and span.start <= limit):
            return span
    return None


def _monthly(date: Date, limit: dt.datetime, floor: dt.datetime | None) -> Span | None:
    first = (floor or limit).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    for step in range(_MONTHS_BACK):
        month = add_months(first, step if floor else -step)
        if (date.day or 1) > calendar.monthrange(month.year, month.month)[1]:
            continue
        start = month.replace(day=date.day or 1)
        if date.weekday is not None and start.weekday() != date.weekday:
            continue
        if (floor is not None and start >= floor) or (floor is None and start <= limit):
            return _span(date, start)
    return None


def _weekly(date: Date, now: dt.datetime, floor: dt.datetime | None, ceiling: dt.datetime | None) -> Span:
    assert date.weekday is not None
    if floor is not None:
        day = unit_start(floor, Unit.DAY)
        return _span(date, day + dt.timedelta(days=(date.weekday - day.weekday()) % 7))
    today = unit_start(now, Unit.DAY)
    if ceiling is not None:
        today = unit_start(ceiling, Unit.DAY) + dt.timedelta(days=1)
    return _span(date, today - dt.timedelta(days=(today.weekday() - date.weekday - 1) % 7 + 1))


def between(first: Date | Span, last: Date | Span, now: dt.datetime) -> Span | None:
    """Return the span from one end to the other, including both, each completing the other's missing parts.

    "5 to 16 August" takes the start's month from the end, "from Aug 5 to 16" the end's from the start; "Nov-Feb 2017" starts in 2016.
    """
    first, last = _lend(first, last)
    if isinstance(first, Date) and isinstance(last, Date) and first.year is None and last.year is not None:
        end = settle(last, now)
        start = settle(first, now, ceiling=end.start) if end else None
    else:
        start = first if isinstance(first, Span) else settle(first, now)
        floor = start.start if start else None
        floor = now if floor is not None and floor.tzinfo is not None else floor  # counted from now, in hours
        end = last if isinstance(last, Span) else settle(last, now, floor=floor)
        if isinstance(first, Date):
            start = first_day(first, start, end, now)
    if start is None or end is None or start.start is None:
        return None
    weekdays = start.grain is Unit.DAY and end.grain is Unit.DAY and isinstance(first, Span) and isinstance(last, Span)
    if weekdays and end.end and not start.start.tzinfo and not end.end.tzinfo and start.start >= end.end:
        week = dt.timedelta(days=7)  # "from last Monday to last Friday", said on a Wednesday
        if start.start - end.end < week:
            start = Span(start.start - week, None, Unit.DAY)
    assert start.start is not None
    if start.start.tzinfo is None and end.end is not None and end.end.tzinfo is None and start.start >= end.end:
        return None
    return Span(start.start, end.end, end.grain)


def first_day(first: Date, start: Span | None, end: Span | None, now: dt.datetime) -> Span | None:
    """Return *start*, or the weekday before *end* that *first* means: "Monday to Wednesday of last week" begins in that week."""
    if first.weekday is None or end is None or not _is_day_before(end, start):
        return start
    return settle(first, now, ceiling=end.start)


def _is_day_before(day: Span | None, start: Span | None) -> bool:
    """True if *day* is a calendar day that ends before *start* begins."""
    if day is None or start is None or day.end is None or start.start is None or day.grain is not Unit.DAY:
        return False
    return day.end.tzinfo is None and start.start.tzinfo is None and day.end <= start.start


def _lend(first: Date | Span, last: Date | Span) -> tuple[Date | Span, Date | Span]:
    if not isinstance(first, Date) or not isinstance(last, Date):
        return first, last
    if first.swapped and last.day_first is not None and not last.swapped and last.day_first != first.day_first:
        first = _swap(first)
    elif last.swapped and first.day_first is not None and not first.swapped and first.day_first != last.day_first:
        last = _swap(last)
    if last.month is None and last.day is not None and first.month is not None and first.day is not None:
        last = replace(last, month=first.month, year=last.year or first.year)
    if first.month is None and first.day is not None and last.month is not None and last.day is not None:
        first = replace(first, month=last.month, year=first.year or last.year)
    return first, last


def _swap(date: Date) -> Date:
    assert date.swapped is not None
    month, day = date.swapped
    return replace(date, month=month, day=day, swapped=None)
