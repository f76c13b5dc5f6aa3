"""Rules for the beginning, middle, end and rest of a period: "end of last month", "mid March", "early 2000", "the rest of the week"."""

from __future__ import annotations

from infinite_memory.time_expressions.lexemes import Lexeme
from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import Date, Span, shift, unit_span

_WHOLE_UNITS = (Unit.WEEK, Unit.MONTH, Unit.QUARTER, Unit.YEAR, Unit.DECADE)  # "the end of the week" is of this one
_EDGE_SHARE = 3  # the beginning of a period is its first third, the end its last
_HALVES = {1: "first_half", 2: "second_half", -1: "second_half"}
_THIRDS = {1: "start", 2: "middle", 0: "middle", 3: "end", -1: "end"}


def edge(reader: Reader, position: int) -> Found | None:
    """Read "end of last month", "mid March", "early 2000": a third of the period; for a year or longer in whole months."""
    index = reader.skip(position, Tag.THE, limit=1)
    if not reader.has(index, Tag.EDGE):
        return None
    edge_name: str = reader.at(index).get(Tag.EDGE)
    third = 1 if reader.at(index + 1).get(Tag.PARTS_OF) == _EDGE_SHARE else 0  # "the middle third of"
    behind = reader.skip(index + 1 + third, Tag.OF, Tag.IN, limit=2)
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
    cut = edge_span(reader.settled(result), edge_name)
    return Found(cut, result.after, result.strong or behind > index + 1) if cut is not None else None


def part(reader: Reader, position: int) -> Found | None:
    """Read "the first half of October", "la segunda mitad del mes pasado", "the last third of 2025", "das erste Drittel des Monats"."""
    part_name, index = _which_part(reader, reader.skip(position, Tag.THE, limit=1))
    if part_name is None:
        return None
    if not reader.has(index, Tag.OF):
        year = reader.year(index)  # "das erste Drittel 2025"
        result = Found(Date(year[0]), year[1]) if year else None
    else:
        behind = reader.skip(index, Tag.OF, limit=1)
        the = reader.skip(behind, Tag.THE, limit=1)
        unit = reader.at(the).get(Tag.UNIT)
        result = reader.day(behind) or reader.day(the)
        if result is None and unit in _WHOLE_UNITS:
            result = Found(unit_span(reader.now, unit), the + 1)
    if result is None:
        return None
    cut = edge_span(reader.settled(result), part_name)
    return Found(cut, result.after) if cut is not None else None


def _which_part(reader: Reader, position: int) -> tuple[str | None, int]:
    """Read "first half", "final third", "tercio final": its name and the position after it."""
    nth, index = _which(reader, position)
    if nth is not None:
        return _part_name(reader, index, nth), index + 1
    if reader.language.scriptless or not reader.has(position, Tag.HALF_OF, Tag.PARTS_OF):
        return None, position
    behind = reader.at(position + 1).get(Tag.WHICH_PART)
    return (None if behind is None else _part_name(reader, position, behind)), position + 2


def _which(reader: Reader, position: int) -> tuple[int | None, int]:
    """Read "second", "middle", "final": the number of the part (0 is the middle, -1 the last), and the position after it."""
    word = reader.at(position)
    if word.has(Tag.WHICH_PART):
        return word.get(Tag.WHICH_PART), position + 1
    number = reader.number(position)
    if number is not None and number.ordinal:
        return number.value, number.after
    return (-1, position + 1) if word.get(Tag.RELATIVE) == -1 else (None, position)


def _part_name(reader: Reader, position: int, nth: int) -> str | None:
    """Return the name of the *nth* half or third for the noun at *position*; None if it is neither."""
    if reader.has(position, Tag.HALF_OF):
        return _HALVES.get(nth)
    return _THIRDS.get(nth) if reader.at(position).get(Tag.PARTS_OF) == _EDGE_SHARE else None


def third_behind(reader: Reader, position: int) -> tuple[str | None, int]:
    """Read "最后三分之一", "最初の3分の1" after a period: which third, and the position after it."""
    word, index = reader.at(position), position + 1
    edge_name: str | None = word.get(Tag.EDGE)
    nth: int | None = word.get(Tag.WHICH_PART)
    if edge_name is None and nth is None:
        number = reader.number(position)
        if number is None or not number.ordinal:
            return None, position
        nth, index = number.value, number.after
    index = reader.skip(index, Tag.OF, Tag.COUNTER, limit=2)
    below = reader.number(index)
    if below is None or below.value != _EDGE_SHARE or not reader.has(below.after, Tag.PARTS_OF):
        return None, position
    above = reader.number(below.after + 1)
    if above is None or above.value != 1:
        return None, position
    return edge_name or (None if nth is None else _THIRDS.get(nth)), above.after


def compound(reader: Reader, position: int) -> Found | None:
    """Read "Jahresende", "Monatsanfang 2025", "die zweite Oktoberhälfte", "letztes Monatsdrittel": a period and its part in one word."""
    if not reader.language.joined_parts:
        return None
    index = reader.skip(position, Tag.THE, limit=1)
    nth, index = _which(reader, index)
    name, last = reader.at(index), reader.at(index + 1)
    if not last.glued or not name.has(Tag.MONTH, Tag.UNIT):
        return None
    part_name: str | None = last.get(Tag.EDGE) if nth is None else _part_name(reader, index + 1, nth)
    if part_name is None:
        return None
    result = _compounded(reader, name, index + 2)
    cut = edge_span(reader.settled(result), part_name)
    return Found(cut, result.after) if cut is not None else None


def _compounded(reader: Reader, name: Lexeme, position: int) -> Found:
    """Return the period of a compound: with the year or unit named after it, else the current one."""
    behind = reader.skip(position, Tag.OF, Tag.THE, limit=2)
    year = reader.year(behind)
    if name.has(Tag.MONTH):
        month: int = name.get(Tag.MONTH)
        return Found(Date(year[0], month), year[1]) if year else Found(Date(None, month), position)
    unit: Unit = name.get(Tag.UNIT)
    if reader.depth <= 2:
        reader.depth += 1
        result = reader.day(behind)
        reader.depth -= 1
        span = reader.settled(result) if result else None
        if result and span and span.grain is unit:
            return result
    return Found(unit_span(reader.now, unit), position)


def rest(reader: Reader, position: int) -> Found | None:
    """Read "the rest of today", "der Rest der Woche", "今日の残りの時間": from now to the end of a period that has begun.

    If that is the whole text, the period may be a bare unit; inside a sentence "the rest of the day" is of any day.
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
        return None  # "the rest of last week" began at an unknown time
    return Found(Span(reader.instant, span.end, span.grain), after, result.strong)


def edge_span(span: Span | None, edge: str) -> Span | None:
    """Cut the start, middle or end third, or a half, out of *span*, in whole days, or whole months from a quarter up.

    None if it is not a bounded calendar period of a week or longer.
    """
    if span is None or span.start is None or span.end is None or span.grain < Unit.WEEK:
        return None
    if span.start.tzinfo or span.end.tzinfo:
        return None
    if edge in ("first_half", "second_half"):
        return _half_span(span, edge)
    months = (span.end.year - span.start.year) * 12 + span.end.month - span.start.month
    if months >= _EDGE_SHARE:
        unit, count = Unit.MONTH, months
    else:
        unit, count = Unit.DAY, (span.end - span.start).days
    third = max(1, round(count / _EDGE_SHARE))
    first = shift(span.start, unit, third)
    last = shift(span.start, unit, count - third)
    ends = {"start": (span.start, first), "middle": (first, last), "end": (last, span.end)}
    return Span(*ends[edge], unit)


def _half_span(span: Span, edge: str) -> Span:
    """Cut a half out of *span*, in whole months if their number is even, else in whole days; Thursday is in both halves of a week."""
    assert span.start is not None and span.end is not None
    months = (span.end.year - span.start.year) * 12 + span.end.month - span.start.month
    is_whole = span.start.day == span.end.day == 1 and months >= 2 and months % 2 == 0
    unit, count = (Unit.MONTH, months) if is_whole else (Unit.DAY, (span.end - span.start).days)
    if edge == "first_half":
        return Span(
            span.start, shift(span.start, unit, (count + 1) // 2 if span.grain is Unit.WEEK else count // 2), unit
        )
    return Span(shift(span.start, unit, count // 2), span.end, unit)
