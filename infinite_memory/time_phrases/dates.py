"""Rules for dates of the calendar: "March 3rd", "03/15/2024", "the third Wednesday of last month", "week 27", "Q3", "the 90s".

Each rule takes a reader and a place, and gives what it read or None. `calendar_date` tries them all; the longest wins.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace

from infinite_memory.time_phrases.holidays import nth_weekday
from infinite_memory.time_phrases.reader import Found, Reader
from infinite_memory.time_phrases.spans import Date, Span, midnight, settle, shift, unit_span, unit_start
from infinite_memory.time_phrases.table import Tag, Unit
from infinite_memory.time_phrases.unspaced import marked_date

_SATURDAY = 5
_TO_SUNDAY = (-1, -2, 4, 3, 2, 1, 0)  # days from Monday, Tuesday, ... to the Sunday of the nearest weekend

Rule = Callable[[Reader, int], Found | None]


def longest(reader: Reader, place: int, rules: tuple[Rule, ...]) -> Found | None:
    """Try *rules* at *place*; the one that reads furthest wins, the earlier one if two do."""
    best: Found | None = None
    for rule in rules:
        found = rule(reader, place)
        if found and (best is None or found.after > best.after):
            best = found
    return best


def numeric_date(reader: Reader, place: int) -> Found | None:
    """Read "2018/08/05", "10.31.1974", "22/Jan/2019", "2014-10", "5/17"."""
    first = reader.at(place)
    if first.value is None or _continues_number(reader, place):
        return None
    sign, middle = reader.at(place + 1), reader.at(place + 2)
    separator = sign.folded
    if separator not in ("/", ".", "-"):
        return _spaced_date(reader, place) if reader.lone else None
    glued = sign.glued and middle.glued
    if not glued:
        return _month_and_year(reader, place, separator)
    if middle.value is None and not middle.has(Tag.MONTH):
        return None
    third_sign, third = reader.at(place + 3), reader.at(place + 4)
    if third_sign.glued and third.glued and third.digits and third.value is not None:
        lone_comma = reader.lone and third_sign.folded == "," and separator == "/"
        if third_sign.folded == separator or lone_comma:
            return _three_parts(reader, place, separator)
    if third_sign.folded == separator and third_sign.glued and third.digits and third.glued:
        return None
    if middle.has(Tag.MONTH):
        return _day_and_month_name(reader, place)
    return _two_parts(reader, place, separator)


def _continues_number(reader: Reader, place: int) -> bool:
    """Tell whether digits and a sign stand right before, as in the "2.3" of "1.2.3"."""
    sign = reader.at(place - 1)
    return (
        reader.at(place).glued
        and sign.glued
        and sign.folded in (".", "/", ",", ":")
        and reader.at(place - 2).digits > 0
    )


def _three_parts(reader: Reader, place: int, separator: str) -> Found | None:
    first, middle, third = reader.at(place), reader.at(place + 2), reader.at(place + 4)
    assert first.value is not None and third.value is not None
    after = place + 5
    if reader.at(after).folded == "t" and reader.at(after).glued:
        after = after + 1 if reader.at(after + 1).digits == 2 else after
    if middle.has(Tag.MONTH):
        year, day = (first.value, third.value) if first.digits == 4 else (third.value, first.value)
        if max(first.digits, third.digits) < 4:
            year = reader.full_year(year)
        return _checked(Date(year, middle.get(Tag.MONTH), day), after)
    assert middle.value is not None
    if first.digits == 4 and third.digits <= 2:
        return _checked(Date(first.value, middle.value, third.value), after)
    if third.digits == 4 or (third.digits == 2 and first.digits <= 2 and _allows_short_year(reader, separator)):
        year = third.value if third.digits == 4 else reader.full_year(third.value)
        dated = _ordered(reader, first.value, middle.value)
        return _checked(replace(dated, year=year), after) if dated else None
    return None


def _allows_short_year(reader: Reader, separator: str) -> bool:
    if separator == "-":
        return reader.lone
    dotted = reader.language.dotted_dates or (reader.lone and not reader.language.month_first)
    return separator == "/" or dotted


def _ordered(reader: Reader, first: int, second: int) -> Date | None:
    """Tell day from month: by size where only one order is possible, else by the language's habit."""
    as_day_first = first <= 31 and 1 <= second <= 12
    as_month_first = second <= 31 and 1 <= first <= 12
    if not as_day_first and not as_month_first:
        return None
    day_first = as_day_first and not (as_month_first and reader.language.month_first)
    month, day = (second, first) if day_first else (first, second)
    swapped = (day, month) if as_day_first and as_month_first and first != second else None
    return Date(None, month, day, swapped=swapped, day_first=day_first)


def _two_parts(reader: Reader, place: int, separator: str) -> Found | None:
    first, second = reader.at(place), reader.at(place + 2)
    assert first.value is not None and second.value is not None
    after = place + 3
    if first.digits == 4 and second.digits <= 2 and 1 <= second.value <= 12 and 1900 <= first.value <= 2100:
        return Found(Date(first.value, second.value), after, False)
    if second.digits == 4 and first.digits <= 2 and 1 <= first.value <= 12 and 1900 <= second.value <= 2100:
        if separator != "." or reader.language.dotted_dates or reader.lone:
            return Found(Date(second.value, first.value), after, False)
    if first.digits > 2 or second.digits > 2 or separator == "-":
        return None
    if separator == ".":
        if reader.at(after).folded == "." and reader.at(after).glued and not reader.at(after + 1).digits:
            dated = Date(None, second.value, first.value, day_first=True)
            return _checked(dated, after + 1, strong=reader.language.dotted_dates)
        if not reader.language.dotted_dates or second.digits < 2:
            return None
    dated_or_none = _ordered(reader, first.value, second.value)
    return _checked(dated_or_none, after, strong=False) if dated_or_none else None


def _day_and_month_name(reader: Reader, place: int) -> Found | None:
    first, month = reader.at(place), reader.at(place + 2).get(Tag.MONTH)
    if first.digits == 4:
        return Found(Date(first.value, month), place + 3)
    return _checked(Date(None, month, first.value), place + 3)


def _month_and_year(reader: Reader, place: int, separator: str) -> Found | None:
    """Read "11 - 2016" and "2016 /11", with blanks; only where the whole text is a time."""
    first, second = reader.at(place), reader.at(place + 2)
    if not reader.lone or second.value is None or separator == "." or first.value is None:
        return None
    for year, month in ((first, second), (second, first)):
        if year.digits == 4 and month.digits <= 2 and month.value is not None and 1 <= month.value <= 12:
            return Found(Date(year.value, month.value), place + 3)
    return None


def _spaced_date(reader: Reader, place: int) -> Found | None:
    """Read "20 2 2014" and "2010 01 29"; only where the whole text is a time."""
    first, second, third = (reader.at(place + step) for step in range(3))
    if first.value is None or second.value is None or third.value is None or second.digits > 2 or third.glued:
        return None
    if first.digits == 4 and third.digits <= 2:
        return _checked(Date(first.value, second.value, third.value), place + 3)
    if third.digits in (2, 4) and first.digits <= 2:
        year = third.value if third.digits == 4 else reader.full_year(third.value)
        dated = _ordered(reader, first.value, second.value)
        return _checked(replace(dated, year=year), place + 3) if dated else None
    return None


def _checked(date: Date, after: int, *, strong: bool = True) -> Found | None:
    """Give *date* if the calendar can have such a day."""
    try:
        dt.date(date.year or 2000, date.month or 1, date.day or 1)
    except ValueError:
        return None
    return Found(date, after, strong)


def month_and_day(reader: Reader, place: int) -> Found | None:
    """Read "March 3rd", "May twenty-fourth, 2010", "2016 november", "June of nineteen ninety nine", "March"."""
    month = reader.at(place)
    if not month.has(Tag.MONTH):
        return None
    number: int = month.get(Tag.MONTH)
    strong = not month.has(Tag.WEAK)
    at = reader.skip_sign(place + 1, ".") if reader.at(place + 1).glued else place + 1
    at = reader.skip_sign(at)
    if year := reader.year(reader.skip(reader.skip(at, Tag.OF, limit=2), Tag.THE, limit=1)):
        return Found(Date(year[0], number), year[1])
    if reader.is_dash(at) and reader.at(at).glued and reader.at(at + 1).digits == 4 and (year := reader.year(at + 1)):
        return Found(Date(year[0], number), year[1])
    unit_year = reader.skip(at, Tag.OF, Tag.THE, limit=3)
    if reader.at(unit_year).get(Tag.UNIT) is Unit.YEAR and (year := reader.year(unit_year + 1)):
        return Found(Date(year[0], number), year[1])
    day_at = reader.skip(at, Tag.THE, limit=1)
    day = reader.number(day_at)
    if day and 1 <= day.value <= 31 and day.digits <= 2 and not _counts_something(reader, day.after):
        if not (day.ordinal is False and reader.has(day_at - 1, Tag.THE) and not reader.lone):
            return with_year(reader, Date(None, number, day.value), day.after)
    if day and day.digits == 2 and day.value > 31 and at == place + 1:
        return Found(Date(reader.full_year(day.value), number), day.after, strong or reader.lone)
    if reader.at(at).folded == "'" and (year := reader.year(at)):
        return Found(Date(year[0], number), year[1])
    return Found(Date(None, number), place + 1, strong)


def _counts_something(reader: Reader, after: int) -> bool:
    """Tell whether the number before *after* counts units ("march 10 miles" cannot be told, "may 10 minutes" can)."""
    following = reader.at(after)
    return following.has(Tag.UNIT) and not following.has(Tag.WEAK) and following.get(Tag.UNIT) is not Unit.DAY


def with_year(reader: Reader, date: Date, after: int) -> Found | None:
    """Add the year, or the "of this year", that may follow a month and day."""
    at = reader.skip_sign(after)
    at = reader.skip(at, Tag.OF, Tag.THE, limit=2)
    if reader.at(at).get(Tag.UNIT) is Unit.YEAR and reader.year(at + 1):
        at += 1
    comma = at > after and not reader.has(after, Tag.OF)
    if (year := reader.year(at, short=not comma)) and not _is_clock(reader, at, year[1]):
        return _checked(replace(date, year=year[0]), year[1])
    if found := relative_year(reader, at):
        return _checked(replace(date, year=found[0]), found[1])
    return _checked(date, after)


def _is_clock(reader: Reader, at: int, after: int) -> bool:
    """Tell whether the two digits that might be a year start a clock time, a range or a count."""
    if reader.at(at).digits != 2:
        return False
    following = reader.at(after)
    return following.folded in (":", "-", "/", "%") or following.has(
        Tag.MERIDIEM, Tag.HOUR_MARK, Tag.UNIT, Tag.TO, Tag.MONTH
    )


def relative_year(reader: Reader, place: int) -> tuple[int, int] | None:
    """Read "last year", "this year" or "the year": its number and the place behind."""
    at = reader.skip(place, Tag.THE, limit=1)
    for relative, unit in ((at, at + 1), (at + 1, at)):
        if reader.has(relative, Tag.RELATIVE) and reader.at(unit).get(Tag.UNIT) is Unit.YEAR:
            return reader.now.year + int(reader.at(relative).get(Tag.RELATIVE)), at + 2
    if reader.has(at, Tag.YEAR_WORD):
        return reader.now.year + int(reader.at(at).get(Tag.YEAR_WORD)), at + 1
    return None


def day_and_month(reader: Reader, place: int) -> Found | None:
    """Read "3 Feb 2020", "the third of march", "twenty third day of September", "4 of this month"."""
    start = reader.skip(place, Tag.THE, limit=1)
    if reader.at(start).get(Tag.UNIT) is Unit.DAY and not reader.language.scriptless:
        start += 1
    day = reader.number(start)
    if day is None or not 1 <= day.value <= 31 or day.digits > 2:
        return None
    at = day.after
    if reader.at(at).get(Tag.UNIT) is Unit.DAY and (day.ordinal or reader.language.scriptless):
        at += 1
    at = reader.skip(at, Tag.OF, Tag.THE, limit=2)
    if reader.at(at).glued and reader.at(at).folded in ("-", "/"):
        at += 1
    if reader.has(at, Tag.MONTH) and (at > day.after or not reader.has(at, Tag.UNIT) or reader.has(at, Tag.WEAK)):
        month: int = reader.at(at).get(Tag.MONTH)
        if reader.at(at).has(Tag.WEAK) and not day.ordinal and reader.at(place - 1).has(Tag.LABEL):
            return None
        after = at + 1
        if reader.at(after).folded == "." and reader.at(after).glued and not reader.is_over(after):
            after += 1
        found = with_year(reader, Date(None, month, day.value), after)
        if found and reader.at(at).has(Tag.WEAK) and not day.ordinal and found.after == after:
            found = replace(found, strong=reader.at(at).capital and day.digits > 0)  # "12 may suffice", "one may ask"
        return found
    month_number = reader.number(at) if reader.lone and at > day.after else None
    if (
        month_number
        and reader.has(day.after, Tag.OF)
        and day.digits
        and month_number.digits
        and month_number.value <= 12
        and reader.is_over(month_number.after)
    ):
        return _checked(Date(None, month_number.value, day.value), month_number.after)  # "17 del 11"
    for relative, unit in ((at, at + 1), (at + 1, at)):
        if reader.has(relative, Tag.RELATIVE) and reader.at(unit).get(Tag.UNIT) is Unit.MONTH:
            if at == day.after and reader.at(relative).get(Tag.RELATIVE) != 0:
                return None  # "2 derniers mois" are months, not a day
            span = unit_span(reader.now, Unit.MONTH, int(reader.at(relative).get(Tag.RELATIVE)))
            assert span.start is not None
            return _checked(Date(span.start.year, span.start.month, day.value), at + 2)
    return None


def year_first(reader: Reader, place: int) -> Found | None:
    """Read "2016 november", "2016, nov", "2017 q1"."""
    year = reader.year(place)
    if year is None:
        return None
    at = reader.skip(reader.skip_sign(year[1], ",-"), Tag.OF, limit=1)
    if reader.has(at, Tag.MONTH):
        month: int = reader.at(at).get(Tag.MONTH)
        at = reader.skip_sign(at + 1, "-") if reader.at(at + 1).glued else at + 1
        day = reader.number(at)
        if day and day.value <= 31 and day.digits <= 2 and (reader.at(at).glued or day.ordinal):
            return _checked(Date(year[0], month, day.value), day.after)
        return Found(Date(year[0], month), at)
    if (found := quarter(reader, at)) and isinstance(found.node, Date) and found.node.year is None:
        return Found(replace(found.node, year=year[0]), found.after)
    return None


def bare_year(reader: Reader, place: int) -> Found | None:
    """Read "2008", "year 2008", "the year of 2008", "nineteen ninety six"; bare ones need support."""
    at = reader.skip(place, Tag.THE, limit=1)
    if reader.at(at).get(Tag.UNIT) is Unit.YEAR:
        named = reader.skip(at + 1, Tag.OF, limit=1)
        number = reader.number(named)
        if year := reader.year(named):
            return Found(Date(year[0]), year[1])
        return Found(Date(number.value), number.after) if number and number.digits == 4 and number.value > 999 else None
    year = reader.year(place)
    if year is None:
        return None
    following = reader.at(year[1])
    if following.has(Tag.UNIT) and not following.has(Tag.RELATIVE) and not reader.lone:
        return None
    return Found(Date(year[0]), year[1], reader.at(place).value is None and reader.at(place + 1).has(Tag.NUMBER))


def day_of_month(reader: Reader, place: int) -> Found | None:
    """Read "the 21st" and, where the whole text is a time, "the second" or a bare "15"."""
    start = reader.skip(place, Tag.THE, limit=1)
    if reader.at(start).get(Tag.UNIT) is Unit.DAY and reader.language.code in ("es", "pt"):
        day = reader.number(start + 1)  # "el día 15"
        if day and not day.ordinal and 1 <= day.value <= 31 and day.digits <= 2:
            return Found(Date(day=day.value), day.after)
    day = reader.number(start)
    if day is None or not 1 <= day.value <= 31 or day.digits > 2:
        return None
    if day.ordinal and not day.digits and day.value > 1 and reader.language.code in ("fr", "es", "pt"):
        return None  # only the first of the month is said as an ordinal
    if day.ordinal and (start > place or reader.lone or reader.language.dotted_dates):
        if reader.lone or ends_phrase(reader, day.after):
            return Found(Date(day=day.value), day.after, False)
        return None
    return Found(Date(day=day.value), day.after, False) if reader.lone else None


def ends_phrase(reader: Reader, place: int) -> bool:
    """Tell whether no noun follows that an ordinal could belong to ("the second round")."""
    following = reader.at(place)
    return reader.is_over(place) or not following.folded.isalnum() or following.has(Tag.COMMON, Tag.OF, Tag.TO, Tag.AND)


def weekday_date(reader: Reader, place: int) -> Found | None:
    """Read "Monday", "Friday the 22nd", "Mon 13th", "thursday 29/03", "Friday 2018-7-6", "Sunday, Feb 10"."""
    name = reader.at(place)
    if not name.has(Tag.WEEKDAY):
        return None
    weekday: int = name.get(Tag.WEEKDAY)
    at = reader.skip_sign(place + 1, ".") if reader.at(place + 1).glued and not reader.is_over(place + 2) else place + 1
    at = reader.skip(reader.skip_sign(at), Tag.THE, limit=1)
    found = longest(reader, at, (numeric_date, month_and_day, day_and_month))
    if found and isinstance(found.node, Date) and found.node.day is not None:
        return replace(found, strong=True)
    day = reader.number(at)
    if day and 1 <= day.value <= 31 and day.digits <= 2 and not _is_clock_number(reader, day.after):
        if day.ordinal or (day.digits and reader.at(at - 1).has(Tag.WEEKDAY)) or reader.lone:
            after = day.after + 1 if reader.at(day.after).get(Tag.UNIT) is Unit.DAY else day.after
            return Found(Date(day=day.value, weekday=weekday), after)
    return Found(Date(weekday=weekday), place + 1, not name.has(Tag.WEAK))


def _is_clock_number(reader: Reader, after: int) -> bool:
    following = reader.at(after)
    if following.has(Tag.MERIDIEM, Tag.HOUR_MARK, Tag.UNIT, Tag.AGO) and following.get(Tag.UNIT) is not Unit.DAY:
        return True
    return following.folded in ("-", ":") and reader.at(after + 1).digits > 0


def quarter(reader: Reader, place: int) -> Found | None:
    """Read "Q3", "Q1 of 2017", "4th quarter 2018", "the first quarter of the year", "H2 2016"."""
    start = reader.skip(place, Tag.THE, limit=1)
    width, number, after, strong = 3, 0, start, True
    if reader.has(start, Tag.QUARTER_MARK, Tag.HALF_MARK) and reader.at(start + 1).digits == 1:
        width = 3 if reader.has(start, Tag.QUARTER_MARK) else 6
        number, after = reader.at(start + 1).value or 0, start + 2
        strong = width == 3 or reader.lone
    elif (nth := reader.number(start)) and reader.at(nth.after).get(Tag.UNIT) in (Unit.QUARTER, Unit.HALF_YEAR):
        if not nth.ordinal and not reader.language.scriptless:
            return None
        width = 3 if reader.at(nth.after).get(Tag.UNIT) is Unit.QUARTER else 6
        number, after = nth.value, nth.after + 1
        strong = not reader.has(nth.after, Tag.WEAK)
    elif reader.at(start).get(Tag.UNIT) is Unit.QUARTER and (nth := reader.number(start + 1)) and not nth.digits > 1:
        number, after, strong = nth.value, nth.after, False
    if not 1 <= number <= 12 // width:
        return None
    date = Date(month=(number - 1) * width + 1, months=width)
    at = reader.skip(reader.skip_sign(after, ",-/"), Tag.OF, Tag.THE, limit=2)
    if year := reader.year(at, short=reader.at(at).folded == "'"):
        return Found(replace(date, year=year[0]), year[1])
    if found := relative_year(reader, at):
        return Found(replace(date, year=found[0]), found[1])
    if at > after and reader.at(at).get(Tag.UNIT) is Unit.YEAR:
        return Found(date, at + 1)
    return Found(date, after, strong)


def season(reader: Reader, place: int) -> Found | None:
    """Read "spring", "last summer", "winter 2015": meteorological seasons, three whole months."""
    at, back = place, None
    if reader.has(at, Tag.RELATIVE):
        back, at = int(reader.at(at).get(Tag.RELATIVE)), at + 1
    name = reader.at(at)
    if not name.has(Tag.SEASON):
        return None
    date, after = Date(month=name.get(Tag.SEASON), months=3), at + 1
    if back is None and reader.has(after, Tag.RELATIVE) and not reader.has(after, Tag.AGO):
        back, after = int(reader.at(after).get(Tag.RELATIVE)), after + 1
    behind = reader.skip(after, Tag.OF, limit=1)
    if year := reader.year(behind):
        return Found(replace(date, year=year[0]), year[1])
    if found := relative_year(reader, behind):
        return Found(replace(date, year=found[0]), found[1])
    if back is None:
        return Found(date, after, not name.has(Tag.WEAK))
    span = settle(date, reader.now)
    if span and span.end and back < 0 and span.end > reader.now:
        span = settle(date, reader.now, ceiling=shift(reader.now, Unit.YEAR, back))
    return Found(span, after) if span else None


def holiday_date(reader: Reader, place: int) -> Found | None:
    """Read "christmas", "thanksgiving 2016", "last easter", "new year eve", "halloween weekend 2021"."""
    at = reader.skip(place, Tag.THE, Tag.RELATIVE, limit=2)
    if reader.at(at).get(Tag.UNIT) is Unit.DAY and reader.has(at + 1, Tag.OF):
        at = reader.skip(at + 1, Tag.OF, Tag.THE, limit=2)
    name = reader.at(at)
    if not name.has(Tag.HOLIDAY):
        return None
    date, after = Date(holiday=name.get(Tag.HOLIDAY)), at + 1
    if reader.has(after, Tag.EVE):
        date, after = replace(date, shift=-1), after + 1
    elif reader.at(after).get(Tag.UNIT) is Unit.DAY:
        after += 1
    weekend = reader.at(after).get(Tag.UNIT) is Unit.WEEKEND
    after = after + 1 if weekend else after
    last = not reader.language.scriptless and reader.has(after, Tag.RELATIVE) and reader.at(after).get(Tag.UNIT) is None
    if last and reader.at(after + 1).get(Tag.UNIT) is None:
        after += 1
    behind = reader.skip(reader.skip_sign(after), Tag.OF, Tag.THE, limit=2)
    if year := reader.year(behind):
        date, after = replace(date, year=year[0]), year[1]
    elif found := relative_year(reader, behind):
        date, after = replace(date, year=found[0]), found[1]
    strong = not name.has(Tag.WEAK) or date.year is not None or at > place
    if not weekend:
        return Found(date, after, strong)
    span = settle(date, reader.now)
    if span is None or span.start is None:
        return None
    sunday = span.start + dt.timedelta(days=_TO_SUNDAY[span.start.weekday()])
    return Found(unit_span(sunday, Unit.WEEKEND), after)


def decade(reader: Reader, place: int) -> Found | None:
    """Read "1990s", "the '40s", "nineties", "in the 90s"."""
    at = reader.skip(place, Tag.THE, limit=1)
    if reader.has(at, Tag.DECADE):
        return _decade(reader, int(reader.at(at).get(Tag.DECADE)), at + 1, strong=True)
    opened = reader.has(at, Tag.DECADE_OPENS)
    at = reader.skip(at, Tag.DECADE_OPENS, limit=2)
    century = reader.at(at).get(Tag.CENTURY_LAST)
    at = at + 1 if century else at
    century_value: int | None = None
    if century:
        century_value = (reader.now.year // 100 - 1) * 100
    elif (
        (nth := reader.number(at)) and reader.at(nth.after).get(Tag.UNIT) is Unit.CENTURY and reader.language.scriptless
    ):
        century_value, at = (nth.value - 1) * 100, nth.after + 1
    quoted = reader.at(at).folded == "'"
    number = reader.number(at + 1 if quoted else at)
    if number is None or number.ordinal or number.value % 10:
        return None
    closed = reader.has(number.after, Tag.DECADE_CLOSES)
    if closed and not reader.at(number.after).glued and number.digits != 4 and not reader.language.scriptless:
        closed = False
    if not (closed or opened):
        return None
    after = number.after + 1 if closed else number.after
    value = number.value if century_value is None or number.value >= 100 else century_value + number.value
    strong = number.digits != 2 or quoted or opened or reader.has(place, Tag.THE) or reader.language.scriptless
    return _decade(reader, value, after, strong=strong)


def _decade(reader: Reader, value: int, after: int, *, strong: bool) -> Found | None:
    if value < 100:
        century = reader.now.year // 100 * 100
        value = century + value if century + value <= reader.now.year else century - 100 + value
    if not 1000 <= value < 2990:
        return None
    start = dt.datetime(value, 1, 1)
    after = after + 1 if reader.at(after).get(Tag.UNIT) is Unit.YEAR else after
    return Found(Span(start, shift(start, Unit.YEAR, 10), Unit.DECADE), after, strong)


def week_of(reader: Reader, place: int) -> Found | None:
    """Read "week 27 of last year", "the week of July 23", "the week beginning on February 4"."""
    at = reader.skip(place, Tag.THE, limit=1)
    if reader.at(at).get(Tag.UNIT) is not Unit.WEEK:
        opened = reader.has(at, Tag.BEGINNING) and reader.at(at).folded == "w/c"
        return _week_holding(reader, at + 1) if opened else None
    number = reader.number(at + 1)
    if number and not number.ordinal and 1 <= number.value <= 53 and number.digits <= 2:
        behind = reader.skip(reader.skip_sign(number.after), Tag.OF, Tag.THE, limit=2)
        if year := reader.year(behind):
            return Found(Date(year[0], week=number.value), year[1])
        if found := relative_year(reader, behind):
            return Found(Date(found[0], week=number.value), found[1])
        return Found(Date(week=number.value), number.after)
    following = reader.skip(at + 1, Tag.BEGINNING, Tag.OF, limit=2)
    if following == at + 1:
        return None
    return _week_holding(reader, following)


def _week_holding(reader: Reader, place: int) -> Found | None:
    at = reader.skip(place, Tag.ON, limit=1)
    found = longest(reader, at, (numeric_date, month_and_day, day_and_month, holiday_date, weekday_date, day_of_month))
    if (
        found is None
        or not isinstance(found.node, Date)
        or found.node.grain is not Unit.DAY
        or found.node.weekday is not None
    ):
        return None
    span = settle(found.node, reader.now)
    return Found(unit_span(span.start, Unit.WEEK), found.after) if span and span.start else None


def nth_of_period(reader: Reader, place: int) -> Found | None:
    """Read "first Monday of this month", "last day in october 2015", "first ten days of last year", "third week of May"."""
    at = reader.skip(place, Tag.THE, limit=1)
    nth, at = _which(reader, at)
    if nth is None:
        return None
    count = reader.number(at)
    many = count.value if count and not count.ordinal and count.digits <= 2 else 1
    if count and many > 1:
        at = count.after
    what = reader.at(at)
    if not what.has(Tag.WEEKDAY, Tag.UNIT):
        return None
    after = at + 1
    inside = reader.skip(after, Tag.OF, Tag.IN, limit=2)
    outer = _outer(reader, inside)
    if outer is None or outer[0].start is None or outer[0].end is None or not (inside > after or reader.lone):
        return None
    span = _nth_inside(nth, many, what.get(Tag.WEEKDAY), what.get(Tag.UNIT), outer[0])
    return Found(span, outer[1]) if span else None


def _which(reader: Reader, place: int) -> tuple[int | None, int]:
    """Read "third" (3), "last" (-1) or "second last" (-2)."""
    number = reader.number(place)
    if number and number.ordinal and number.value <= 366:
        if reader.at(number.after).get(Tag.RELATIVE) == -1:
            return -number.value, number.after + 1
        return number.value, number.after
    if reader.at(place).get(Tag.RELATIVE) == -1:
        return -1, place + 1
    return None, place


def _outer(reader: Reader, place: int) -> tuple[Span, int] | None:
    """Read the period something lies in: "last year", "October 2018", "the month"."""
    at = reader.skip(place, Tag.THE, limit=1)
    if reader.at(at).get(Tag.UNIT) in (Unit.MONTH, Unit.YEAR, Unit.WEEK) and not reader.has(at + 1, Tag.RELATIVE):
        year = reader.year(at + 1)
        if year is None:
            return unit_span(reader.now, reader.at(at).get(Tag.UNIT)), at + 1
    if reader.depth > 2:
        return None
    reader.depth += 1
    try:
        found = reader.period(place)
    finally:
        reader.depth -= 1
    if found is None:
        return None
    span = found.node if isinstance(found.node, Span) else settle(found.node, reader.now)
    return (span, found.after) if span and span.grain >= Unit.WEEK else None


def _nth_inside(nth: int, many: int, weekday: int | None, unit: Unit | None, outer: Span) -> Span | None:
    start, end = outer.start, outer.end
    assert start is not None and end is not None
    if weekday is not None:
        if outer.grain is Unit.MONTH:
            day = nth_weekday(start.year, start.month, weekday, nth)
            return Span(midnight(day), midnight(day) + dt.timedelta(days=1)) if day else None
        first = start + dt.timedelta(days=(weekday - start.weekday()) % 7 + 7 * (nth - 1))
        if nth < 0:
            last = end - dt.timedelta(days=1)
            first = last - dt.timedelta(days=(last.weekday() - weekday) % 7 + 7 * (-nth - 1))
        return Span(first, first + dt.timedelta(days=1)) if start <= first < end else None
    if unit is None or unit >= outer.grain or unit < Unit.DAY:
        return None
    if unit is Unit.WEEKEND:
        saturday = _nth_inside(nth, 1, _SATURDAY, None, outer)
        return unit_span(saturday.start, Unit.WEEKEND) if saturday and saturday.start else None
    if unit is Unit.WEEK:  # the first week is the one that holds the period's first Thursday, as in ISO 8601
        monday = unit_start(start, Unit.WEEK)
        base = monday if start.weekday() <= 3 else monday + dt.timedelta(days=7)
        last_monday = unit_start(end - dt.timedelta(days=1), Unit.WEEK)
        if (end - last_monday).days < 4:
            last_monday -= dt.timedelta(days=7)
        begin = shift(base, Unit.WEEK, nth - 1) if nth > 0 else shift(last_monday, Unit.WEEK, nth + 1)
        return Span(begin, shift(begin, Unit.WEEK, many), Unit.WEEK)
    if nth > 0:
        begin = shift(start, unit, nth - 1)
        return Span(begin, shift(begin, unit, many), unit) if begin < end else None
    stop = shift(end, unit, nth + 1)
    return Span(shift(stop, unit, -many), stop, unit)


def month_of(reader: Reader, place: int) -> Found | None:
    """Read "the month of May"."""
    at = reader.skip(place, Tag.THE, limit=1)
    if reader.at(at).get(Tag.UNIT) is not Unit.MONTH or not reader.has(at + 1, Tag.OF):
        return None
    found = month_and_day(reader, at + 2)
    return replace(found, strong=True) if found else None


def weekend_of(reader: Reader, place: int) -> Found | None:
    """Read "the weekend of March 3": the one that holds the day, or the next one after it."""
    at = reader.skip(place, Tag.THE, limit=1)
    if reader.at(at).get(Tag.UNIT) is not Unit.WEEKEND or not reader.has(at + 1, Tag.OF):
        return None
    found = _week_holding(reader, reader.skip(at + 1, Tag.OF, Tag.THE, limit=2))
    if found is None or not isinstance(found.node, Span) or found.node.start is None:
        return None
    return Found(unit_span(found.node.start, Unit.WEEKEND), found.after)


def marked_year_first(reader: Reader, place: int) -> Found | None:
    """Read "2015年第二季度": a marked year, then a quarter, season, holiday or week."""
    year = marked_date(reader, place)
    if year is None or not isinstance(year.node, Date) or year.node.grain is not Unit.YEAR:
        return None
    found = longest(reader, reader.skip(year.after, Tag.OF, limit=1), (quarter, season, holiday_date, numbered_week))
    if found is None or not isinstance(found.node, Date) or found.node.year is not None:
        return None
    return Found(replace(found.node, year=year.node.year), found.after)


def numbered_week(reader: Reader, place: int) -> Found | None:
    """Read "第27周"."""
    number = reader.number(place) if reader.language.scriptless else None
    if number is None or not number.ordinal or not 1 <= number.value <= 53:
        return None
    if reader.at(number.after).get(Tag.UNIT) is not Unit.WEEK:
        return None
    return Found(Date(week=number.value), number.after + 1)


def nth_behind(reader: Reader, found: Found) -> Found:
    """Narrow a period by what follows it: "5月の第一月曜日"; gives *found* itself where nothing does."""
    nth, at = _which(reader, reader.skip(found.after, Tag.OF, limit=1))
    if nth is None:
        return found
    if nth == -1 and (one := reader.number(at)) and one.value == 1:
        at = one.after  # "最后一个星期五"
    at = reader.skip(at, Tag.COUNTER, limit=1)
    what = reader.at(at)
    span = found.node if isinstance(found.node, Span) else settle(found.node, reader.now)
    if span is None or span.start is None or span.end is None or span.grain < Unit.WEEK:
        return found
    if not what.has(Tag.WEEKDAY, Tag.UNIT) or span.start.tzinfo is not None:
        return found
    inner = _nth_inside(nth, 1, what.get(Tag.WEEKDAY), what.get(Tag.UNIT), span)
    return Found(inner, at + 1) if inner else found


DATE_RULES: tuple[Rule, ...] = (
    marked_date,
    marked_year_first,
    numbered_week,
    numeric_date,
    month_and_day,
    day_and_month,
    year_first,
    quarter,
    decade,
    season,
    holiday_date,
    week_of,
    weekend_of,
    month_of,
    nth_of_period,
    weekday_date,
    bare_year,
    day_of_month,
)
