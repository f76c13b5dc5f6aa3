"""Rules for a part counted inside a longer span: "the first Monday of this month", "last day in october", "5月の第一月曜日"."""

from __future__ import annotations

import datetime as dt

from infinite_memory.time_expressions.edges import edge_span
from infinite_memory.time_expressions.holidays import nth_weekday
from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import Date, Span, midnight, settle, shift, unit_span, unit_start

_SATURDAY = 5


def nth_of_period(reader: Reader, position: int) -> Found | None:
    """Read "first Monday of this month", "last day in october 2015", "first ten days of last year", "third week of May"."""
    index = reader.skip(position, Tag.THE, limit=1)
    nth, index = which(reader, index)
    if nth is None:
        return None
    count = reader.number(index)
    many = count.value if count and not count.ordinal and count.digits <= 2 else 1
    if count and many > 1:
        index = count.after
    word = reader.at(index)
    if not word.has(Tag.WEEKDAY, Tag.UNIT):
        return None
    after = index + 1
    inside = reader.skip(after, Tag.OF, Tag.IN, limit=2)
    outer = _outer(reader, inside)
    if outer is None or outer[0].start is None or outer[0].end is None or not (inside > after or reader.lone):
        return None
    if many == 1 and abs(nth) == 1 and word.get(Tag.PLURAL) == (Tag.UNIT, Unit.DAY):
        span = edge_span(outer[0], "start" if nth > 0 else "end")  # "the first days of May" are more than one
    else:
        span = nth_inside(nth, many, word.get(Tag.WEEKDAY), word.get(Tag.UNIT), outer[0])
    return Found(span, outer[1]) if span else None


def nth_compound(reader: Reader, position: int) -> Found | None:
    """Read "die erste Oktoberwoche", "am letzten Novemberwochenende 2025": a month and the counted unit in one German word."""
    nth, index = which(reader, reader.skip(position, Tag.THE, limit=1))
    unit = reader.at(index + 1).get(Tag.UNIT)
    if nth is None or not reader.has(index, Tag.MONTH) or not reader.at(index + 1).glued:
        return None
    if not reader.language.joined_parts or unit not in (Unit.WEEK, Unit.WEEKEND):
        return None
    year = reader.year(index + 2)
    month = settle(Date(year[0] if year else None, reader.at(index).get(Tag.MONTH)), reader.now)
    span = nth_inside(nth, 1, None, unit, month) if month else None
    return Found(span, year[1] if year else index + 2) if span else None


def which(reader: Reader, position: int) -> tuple[int | None, int]:
    """Read "third" (3), "opening" (1), "last" or "final" (-1), "second last" (-2)."""
    number = reader.number(position)
    if number and number.ordinal and number.value <= 366:
        if reader.at(number.after).get(Tag.RELATIVE) == -1:
            return -number.value, number.after + 1
        return number.value, number.after
    word = reader.at(position)
    if word.get(Tag.RELATIVE) == -1:
        return -1, position + 1
    return (word.get(Tag.WHICH_PART) or None, position + 1) if word.has(Tag.WHICH_PART) else (None, position)


def _outer(reader: Reader, position: int) -> tuple[Span, int] | None:
    """Read the containing period: "last year", "October 2018", "the month"."""
    index = reader.skip(position, Tag.THE, limit=1)
    if reader.at(index).get(Tag.UNIT) in (Unit.MONTH, Unit.YEAR, Unit.WEEK) and not reader.has(index + 1, Tag.RELATIVE):
        year = reader.year(index + 1)
        if year is None:
            return unit_span(reader.now, reader.at(index).get(Tag.UNIT)), index + 1
    if reader.depth > 2:
        return None
    reader.depth += 1
    try:
        result = reader.period(position)
    finally:
        reader.depth -= 1
    if result is None:
        return None
    span = result.node if isinstance(result.node, Span) else settle(result.node, reader.now)
    return (span, result.after) if span and span.grain >= Unit.WEEK else None


def nth_inside(nth: int, many: int, weekday: int | None, unit: Unit | None, outer: Span) -> Span | None:
    """Return the *nth* weekday, or *many* of *unit* from the *nth* on, inside *outer*; None if there is none.

    A negative *nth* counts from the end.
    """
    start, end = outer.start, outer.end
    assert start is not None and end is not None
    if unit is Unit.FORTNIGHT and outer.grain is Unit.MONTH and many == 1:
        # "la segunda quincena de octubre" has 16 days.
        halves = {1: "first_half", 2: "second_half", -1: "second_half"}
        return edge_span(outer, halves[nth]) if nth in halves else None
    if many > 1 and (weekday is not None or unit is Unit.WEEKEND):
        return _many_inside(nth, many, weekday, unit, outer)
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
        saturday = nth_inside(nth, 1, _SATURDAY, None, outer)
        return unit_span(saturday.start, Unit.WEEKEND) if saturday and saturday.start else None
    if unit is Unit.WEEK:  # the first week is the one with the period's first Thursday, as in ISO 8601
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


def _many_inside(nth: int, many: int, weekday: int | None, unit: Unit | None, outer: Span) -> Span | None:
    """Return the span from the first to the last of "the first two Mondays of October", "the last three weekends of 2025"."""
    numbers = (nth, nth + many - 1) if nth > 0 else (nth - many + 1, nth)
    first, last = (nth_inside(number, 1, weekday, unit, outer) for number in numbers)
    return Span(first.start, last.end, last.grain) if first and last else None


def nth_behind(reader: Reader, result: Found) -> Found:
    """Narrow a period by the words after it: "5月の第一月曜日"; return *result* itself if there are none."""
    start = reader.skip(result.after, Tag.OF, limit=1)
    nth, index = which(reader, start)
    if nth is None:
        return result
    index = reader.skip(index, Tag.OF, limit=1)
    count = reader.number(index)
    many = count.value if count and not count.ordinal and count.digits <= 2 else 1
    if reader.has(start, Tag.BEFORE_CLOSES, Tag.AFTER_CLOSES):
        if many == 1 or start == result.after:
            return result  # "10月前一天" may be the day before it
        nth = reader.at(start).get(Tag.WHICH_PART) or nth  # "十月的前三天"
    if count and abs(nth) == 1:
        index = count.after  # "最后一个星期五"
    index = reader.skip(index, Tag.COUNTER, limit=1)
    word = reader.at(index)
    span = result.node if isinstance(result.node, Span) else settle(result.node, reader.now)
    if span is None or span.start is None or span.end is None or span.grain < Unit.WEEK:
        return result
    if not word.has(Tag.WEEKDAY, Tag.UNIT) or span.start.tzinfo is not None:
        return result
    inner = nth_inside(nth, many, word.get(Tag.WEEKDAY), word.get(Tag.UNIT), span)
    return Found(inner, index + 1) if inner else result
