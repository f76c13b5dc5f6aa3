"""Rules for calendar periods: "Q3", "last summer", "Christmas 2016", "the 90s", "week 27", "the week of July 23"."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from infinite_memory.time_expressions.cjk_dates import half_behind_year, half_of_year, marked_date
from infinite_memory.time_expressions.countries import get_local_holiday
from infinite_memory.time_expressions.dates import (
    Rule,
    bare_year,
    day_and_month,
    day_of_month,
    longest,
    month_and_day,
    month_of,
    relative_year,
    weekday_date,
)
from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.numeric import checked, numeric_date
from infinite_memory.time_expressions.ordinals import nth_compound, nth_of_period
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import (
    FIRST_YEAR,
    LAST_YEAR,
    Date,
    Span,
    settle,
    shift,
    unit_span,
    week_of_year,
)

_PARTS_OF_YEAR = {Unit.TWO_MONTHS: 2, Unit.QUARTER: 3, Unit.FOUR_MONTHS: 4, Unit.HALF_YEAR: 6}  # months
_TO_SUNDAY = (-1, -2, 4, 3, 2, 1, 0)  # days from Monday, Tuesday, ... to the Sunday of the nearest weekend


def year_first(reader: Reader, position: int) -> Found | None:
    """Read "2016 november", "2016, nov", "2017 q1"."""
    year = reader.year(position)
    if year is None:
        return None
    index = reader.skip(reader.skip_sign(year[1], ",-"), Tag.OF, limit=1)
    if reader.has(index, Tag.MONTH):
        month: int = reader.at(index).get(Tag.MONTH)
        index = reader.skip_sign(index + 1, "-") if reader.at(index + 1).glued else index + 1
        day = reader.number(index)
        if day and day.value <= 31 and day.digits <= 2 and (reader.at(index).glued or day.ordinal):
            return checked(Date(year[0], month, day.value), day.after)
        return Found(Date(year[0], month), index)
    if (
        (result := quarter(reader, index) or half_behind_year(reader, index))
        and isinstance(result.node, Date)
        and result.node.year is None
    ):
        return Found(replace(result.node, year=year[0]), result.after)
    return None


def quarter(reader: Reader, position: int) -> Found | None:
    """Read "Q3", "Q1 of 2017", "4th quarter 2018", "the first quarter of the year", "H2 2016"."""
    start = reader.skip(position, Tag.THE, limit=1)
    width, number, after, strong = 3, 0, start, True
    if reader.has(start, Tag.QUARTER_MARK, Tag.HALF_MARK) and reader.at(start + 1).digits == 1:
        width = 3 if reader.has(start, Tag.QUARTER_MARK) else 6
        number, after = reader.at(start + 1).value or 0, start + 2
        strong = width == 3 or reader.lone
    elif (nth := reader.number(start)) and reader.at(nth.after).get(Tag.UNIT) in _PARTS_OF_YEAR:
        if not nth.ordinal and not reader.language.scriptless:
            return None
        width = _PARTS_OF_YEAR[reader.at(nth.after).get(Tag.UNIT)]
        number, after = nth.value, nth.after + 1
        strong = not reader.has(nth.after, Tag.WEAK)
    elif reader.at(start).get(Tag.UNIT) is Unit.QUARTER and (nth := reader.number(start + 1)) and not nth.digits > 1:
        number, after, strong = nth.value, nth.after, False
    if not 1 <= number <= 12 // width:
        return None
    date = Date(month=(number - 1) * width + 1, months=width)
    index = reader.skip(reader.skip_sign(after, ",-/"), Tag.OF, Tag.THE, limit=2)
    if year := reader.year(index, short=reader.at(index).folded == "'") or _year_behind_slash(reader, after):
        return Found(replace(date, year=year[0]), year[1])
    if results := relative_year(reader, index):
        return Found(replace(date, year=results[0]), results[1])
    if index > after and reader.at(index).get(Tag.UNIT) is Unit.YEAR:
        return Found(date, index + 1)
    return Found(date, after, strong)


def _year_behind_slash(reader: Reader, position: int) -> tuple[int, int] | None:
    """Read the year of "Q3/2016" and "T3/16", whose digits are also those of a month and year: the year and the position after it."""
    number = reader.at(position + 1)
    if reader.at(position).folded != "/" or not reader.at(position).glued or not number.glued or number.value is None:
        return None
    if reader.at(position + 2).glued and reader.at(position + 2).folded.isalnum():
        return None
    if number.digits == 2:
        return reader.full_year(number.value), position + 2
    return (number.value, position + 2) if number.digits == 4 and FIRST_YEAR <= number.value <= LAST_YEAR else None


def season(reader: Reader, position: int) -> Found | None:
    """Read "spring", "last summer", "winter 2015": meteorological seasons, three whole months."""
    index, offset = position, None
    if reader.has(index, Tag.RELATIVE):
        offset, index = int(reader.at(index).get(Tag.RELATIVE)), index + 1
    name = reader.at(index)
    if not name.has(Tag.SEASON):
        return None
    date, after = Date(month=name.get(Tag.SEASON), months=3), index + 1
    if offset is None and reader.has(after, Tag.RELATIVE) and not reader.has(after, Tag.AGO):
        offset, after = int(reader.at(after).get(Tag.RELATIVE)), after + 1
    behind = reader.skip(after, Tag.OF, limit=1)
    if year := reader.year(behind):
        return Found(replace(date, year=year[0]), year[1])
    if results := relative_year(reader, behind):
        return Found(replace(date, year=results[0]), results[1])
    if offset is None:
        return Found(date, after, not name.has(Tag.WEAK))
    span = settle(date, reader.now)
    if span and span.end and offset < 0 and span.end > reader.now:
        span = settle(date, reader.now, ceiling=shift(reader.now, Unit.YEAR, offset))
    return Found(span, after) if span else None


def _is_when(reader: Reader, position: int) -> bool:
    """True if a particle of time follows, and no word of the text is about a thing: "お盆に帰省した", not "お盆に載せた"."""
    if not reader.language.scriptless or not reader.has(position, Tag.IN, Tag.ON, Tag.BETWEEN_CLOSES):
        return False
    return not any(reader.has(index, Tag.THING) for index in range(position, len(reader.lexemes)))


def holiday_date(reader: Reader, position: int) -> Found | None:
    """Read "christmas", "thanksgiving 2016", "last easter", "new year eve", "halloween weekend 2021"."""
    index = reader.skip(position, Tag.THE, Tag.RELATIVE, limit=2)
    if reader.at(index).get(Tag.UNIT) is Unit.DAY and reader.has(index + 1, Tag.OF):
        index = reader.skip(index + 1, Tag.OF, Tag.THE, limit=2)
    opened = reader.has(index, Tag.EVE) and reader.has(index + 1, Tag.OF)  # "la víspera de Navidad"
    index = reader.skip(index + 1, Tag.OF, Tag.THE, limit=2) if opened else index
    name = reader.at(index)
    if not name.has(Tag.HOLIDAY):
        return None
    date, after = Date(holiday=get_local_holiday(name.get(Tag.HOLIDAY), reader.country)), index + 1
    if opened:
        date = replace(date, shift=-1)
    elif reader.has(after, Tag.EVE):
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
    elif results := relative_year(reader, behind):
        date, after = replace(date, year=results[0]), results[1]
    strong = not name.has(Tag.WEAK) or date.year is not None or index > position or _is_when(reader, after)
    if not weekend:
        return Found(date, after, strong)
    span = settle(date, reader.now)
    if span is None or span.start is None:
        return None
    sunday = span.start + dt.timedelta(days=_TO_SUNDAY[span.start.weekday()])
    return Found(unit_span(sunday, Unit.WEEKEND), after)


def decade(reader: Reader, position: int) -> Found | None:
    """Read "1990s", "the '40s", "nineties", "in the 90s"."""
    index = reader.skip(position, Tag.THE, limit=1)
    if reader.has(index, Tag.DECADE):
        strong = index > position or reader.lone or reader.language.code != "en"  # "in her thirties"
        return _decade(reader, int(reader.at(index).get(Tag.DECADE)), index + 1, strong=strong)
    opened = reader.has(index, Tag.DECADE_OPENS)
    index = reader.skip(index, Tag.DECADE_OPENS, limit=2)
    century = reader.at(index).get(Tag.CENTURY_LAST)
    index = index + 1 if century else index
    century_value: int | None = None
    if century:
        century_value = (reader.now.year // 100 - 1) * 100
    elif (
        (nth := reader.number(index))
        and reader.at(nth.after).get(Tag.UNIT) is Unit.CENTURY
        and reader.language.scriptless
    ):
        century_value, index = (nth.value - 1) * 100, nth.after + 1
    quoted = reader.at(index).folded == "'"
    number = reader.number(index + 1 if quoted else index)
    if number is None or number.ordinal or number.value % 10:
        return None
    closed = reader.has(number.after, Tag.DECADE_CLOSES)
    if closed and not reader.at(number.after).glued and number.digits != 4 and not reader.language.scriptless:
        closed = False
    if not (closed or opened):
        return None
    after = number.after + 1 if closed else number.after
    value = number.value if century_value is None or number.value >= 100 else century_value + number.value
    strong = number.digits != 2 or quoted or opened or reader.has(position, Tag.THE) or reader.language.scriptless
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


def week_of(reader: Reader, position: int) -> Found | None:
    """Read "week 27 of last year", "the week of July 23", "the week beginning on February 4"."""
    index = reader.skip(position, Tag.THE, limit=1)
    if reader.at(index).get(Tag.UNIT) is not Unit.WEEK:
        opened = reader.has(index, Tag.BEGINNING) and reader.at(index).folded == "w/c"
        return _week_holding(reader, index + 1) if opened else None
    number = reader.number(index + 1)
    slashed = reader.at(index + 1)
    if (
        slashed.value
        and slashed.digits <= 2
        and reader.at(index + 2).folded == "/"
        and reader.at(index + 3).digits == 4
    ):
        date = Date(reader.at(index + 3).value, week=slashed.value)  # "KW 45/2026"
        return Found(date, index + 4) if slashed.value <= 53 else None
    if number and not number.ordinal and 1 <= number.value <= 53 and number.digits <= 2:
        behind = reader.skip(reader.skip_sign(number.after, ",/"), Tag.OF, Tag.THE, limit=2)
        if year := reader.year(behind):
            return Found(Date(year[0], week=number.value), year[1])
        if results := relative_year(reader, behind):
            return Found(Date(results[0], week=number.value), results[1])
        return Found(Date(week=number.value), number.after)
    following = reader.skip(index + 1, Tag.BEGINNING, Tag.OF, limit=2)
    if following == index + 1:
        return None
    return _week_holding(reader, following)


def iso_week(reader: Reader, position: int) -> Found | None:
    """Read "2026-W45", "2026-W45-3" and, if something indicates a time, "W45"."""
    read = reader.at(position).get(Tag.ISO_WEEK)
    if read is None:
        return None
    year, week, day = read
    if year is None:
        behind = reader.skip(reader.skip_sign(position + 1, ",/"), Tag.OF, Tag.THE, limit=2)
        if full := reader.year(behind):
            return Found(Date(full[0], week=week), full[1])
        if relative := relative_year(reader, behind):
            return Found(Date(relative[0], week=week), relative[1])
        return Found(Date(week=week), position + 1, reader.at(position).folded.startswith("kw"))
    if day is None:
        return Found(Date(year, week=week), position + 1)
    monday = week_of_year(year, week)
    return Found(unit_span(monday + dt.timedelta(days=day - 1), Unit.DAY), position + 1) if monday else None


def _week_holding(reader: Reader, position: int) -> Found | None:
    index = reader.skip(position, Tag.ON, limit=1)
    result = longest(
        reader, index, (numeric_date, month_and_day, day_and_month, holiday_date, weekday_date, day_of_month)
    )
    if (
        result is None
        or not isinstance(result.node, Date)
        or result.node.grain is not Unit.DAY
        or result.node.weekday is not None
    ):
        return None
    span = settle(result.node, reader.now)
    return Found(unit_span(span.start, Unit.WEEK), result.after) if span and span.start else None


def weekend_of(reader: Reader, position: int) -> Found | None:
    """Read "the weekend of March 3": the one that contains the day, or the next one."""
    index = reader.skip(position, Tag.THE, limit=1)
    if reader.at(index).get(Tag.UNIT) is not Unit.WEEKEND or not reader.has(index + 1, Tag.OF):
        return None
    result = _week_holding(reader, reader.skip(index + 1, Tag.OF, Tag.THE, limit=2))
    if result is None or not isinstance(result.node, Span) or result.node.start is None:
        return None
    return Found(unit_span(result.node.start, Unit.WEEKEND), result.after)


def marked_year_first(reader: Reader, position: int) -> Found | None:
    """Read "2015年第二季度": a marked year, then a quarter, season, holiday or week."""
    year = marked_date(reader, position)
    if year is None or not isinstance(year.node, Date) or year.node.grain is not Unit.YEAR:
        return None
    result = longest(
        reader,
        reader.skip(year.after, Tag.OF, limit=1),
        (quarter, half_behind_year, season, holiday_date, numbered_week),
    )
    if result is None or not isinstance(result.node, Date) or result.node.year is not None:
        return None
    return Found(replace(result.node, year=year.node.year), result.after)


def numbered_week(reader: Reader, position: int) -> Found | None:
    """Read "第27周"."""
    number = reader.number(position) if reader.language.scriptless else None
    if number is None or not number.ordinal or not 1 <= number.value <= 53:
        return None
    if reader.at(number.after).get(Tag.UNIT) is not Unit.WEEK:
        return None
    return Found(Date(week=number.value), number.after + 1)


DATE_RULES: tuple[Rule, ...] = (
    marked_date,
    marked_year_first,
    numbered_week,
    half_of_year,
    numeric_date,
    month_and_day,
    day_and_month,
    year_first,
    quarter,
    decade,
    season,
    holiday_date,
    week_of,
    iso_week,
    weekend_of,
    month_of,
    nth_of_period,
    nth_compound,
    weekday_date,
    bare_year,
    day_of_month,
)
