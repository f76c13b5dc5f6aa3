"""Rules for the beginning, middle, end and rest of a period: "end of last month", "mid March", "early 2000", "the rest of the week"."""

from __future__ import annotations

from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import Span, shift, unit_span

_WHOLE_UNITS = (Unit.WEEK, Unit.MONTH, Unit.QUARTER, Unit.YEAR, Unit.DECADE)  # "the end of the week" is of this one
_EDGE_SHARE = 3  # the beginning of a period is its first third, the end its last


def edge(reader: Reader, position: int) -> Found | None:
    """Read "end of last month", "mid March", "early 2000": a third of the period; a year or longer by whole months."""
    index = reader.skip(position, Tag.THE, limit=1)
    if not reader.has(index, Tag.EDGE):
        return None
    which: str = reader.at(index).get(Tag.EDGE)
    behind = reader.skip(index + 1, Tag.OF, Tag.IN, limit=2)
    behind = behind + 1 if reader.is_dash(behind) else behind
    the = reader.skip(behind, Tag.THE, limit=1)
    unit = reader.at(the).get(Tag.UNIT)
    result = None
    if reader.depth <= 2:
        reader.depth += 1
        result = reader.day(behind)
        reader.depth -= 1
    if result is None and unit in _WHOLE_UNITS and behind > index + 1:
        result = Found(unit_span(reader.now, unit), the + 1)
    if result is None:
        return None
    cut = edge_span(reader.settled(result), which)
    return Found(cut, result.after, result.strong or behind > index + 1) if cut is not None else None


def half(reader: Reader, position: int) -> Found | None:
    """Read "the first half of October", "la segunda mitad del mes pasado", "der zweiten Hälfte der letzten Woche"."""
    if not any(reader.has(position + step, Tag.HALF_OF) for step in (1, 2, 3)):
        return None
    number = reader.number(reader.skip(position, Tag.THE, limit=1))
    if number is None or not number.ordinal or number.value not in (1, 2):
        return None
    if not reader.has(number.after, Tag.HALF_OF) or not reader.has(number.after + 1, Tag.OF):
        return None
    behind = reader.skip(number.after + 1, Tag.OF, limit=1)
    the = reader.skip(behind, Tag.THE, limit=1)
    unit = reader.at(the).get(Tag.UNIT)
    result = reader.day(behind) or reader.day(the)
    if result is None and unit in _WHOLE_UNITS:
        result = Found(unit_span(reader.now, unit), the + 1)
    if result is None:
        return None
    cut = edge_span(reader.settled(result), "first_half" if number.value == 1 else "second_half")
    return Found(cut, result.after) if cut is not None else None


def rest(reader: Reader, position: int) -> Found | None:
    """Read "the rest of today", "der Rest der Woche", "今日の残りの時間": from now to the end of a period that has begun.

    Where that is all the text, the period may be a bare unit; inside a sentence "the rest of the day" is of any day.
    """
    scriptless = reader.language.scriptless
    behind = position if scriptless else reader.skip(position, Tag.THE, limit=1)
    if not scriptless:
        if not reader.has(behind, Tag.REST):
            return None
        behind = reader.skip(behind + 1, Tag.OF, limit=1)
    the = reader.skip(behind, Tag.THE, limit=1)
    result = reader.day(behind) or reader.day(the)
    unit = reader.at(the).get(Tag.UNIT)
    if result is None and unit is not None and unit >= Unit.DAY and reader.lone and not scriptless:
        result = Found(unit_span(reader.now, unit), the + 1)
    if result is None:
        return None
    after = result.after
    if scriptless:
        after = reader.skip(result.after, Tag.OF, limit=1)
        if not reader.has(after, Tag.REST):
            return None
        after += 1
    span = reader.settled(result)
    if span is None or span.start is None or span.end is None or span.start.tzinfo or span.end.tzinfo:
        return None
    if not span.start <= reader.now < span.end:
        return None  # "the rest of last week" began at a time that was not said
    return Found(Span(reader.instant, span.end, span.grain), after, result.strong)


def edge_span(span: Span | None, which: str) -> Span | None:
    """Cut the start, middle or end third, or a half, out of *span*, in whole days, or whole months from a quarter up.

    None where that is no period of the calendar with both ends, a week or longer.
    """
    if span is None or span.start is None or span.end is None or span.grain < Unit.WEEK:
        return None
    if span.start.tzinfo or span.end.tzinfo:
        return None
    if which in ("first_half", "second_half"):
        return _half_span(span, which)
    months = (span.end.year - span.start.year) * 12 + span.end.month - span.start.month
    if months >= _EDGE_SHARE:
        unit, count = Unit.MONTH, months
    else:
        unit, count = Unit.DAY, (span.end - span.start).days
    third = max(1, round(count / _EDGE_SHARE))
    first = shift(span.start, unit, third)
    last = shift(span.start, unit, count - third)
    ends = {"start": (span.start, first), "middle": (first, last), "end": (last, span.end)}
    return Span(*ends[which], unit)


def _half_span(span: Span, which: str) -> Span:
    """Cut a half out of *span*, in whole months where they are even, else in whole days; Thursday is in both halves of a week."""
    assert span.start is not None and span.end is not None
    months = (span.end.year - span.start.year) * 12 + span.end.month - span.start.month
    whole = span.start.day == span.end.day == 1 and months >= 2 and months % 2 == 0
    unit, count = (Unit.MONTH, months) if whole else (Unit.DAY, (span.end - span.start).days)
    if which == "first_half":
        return Span(
            span.start, shift(span.start, unit, (count + 1) // 2 if span.grain is Unit.WEEK else count // 2), unit
        )
    return Span(shift(span.start, unit, count // 2), span.end, unit)
