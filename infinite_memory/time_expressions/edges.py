"""Rules for the beginning, middle, end and rest of a period: "end of last month", "mid March", "early 2000", "the rest of the week"."""

from __future__ import annotations

from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import Span, settle, shift, unit_span

_EDGE_SHARE = 3  # the beginning of a period is its first third, the end its last


def edge(reader: Reader, place: int) -> Found | None:
    """Read "end of last month", "mid March", "early 2000": a third of the period; a year or longer by whole months."""
    at = reader.skip(place, Tag.THE, limit=1)
    if not reader.has(at, Tag.EDGE):
        return None
    which: str = reader.at(at).get(Tag.EDGE)
    behind = reader.skip(at + 1, Tag.OF, Tag.IN, limit=2)
    behind = behind + 1 if reader.is_dash(behind) else behind
    the = reader.skip(behind, Tag.THE, limit=1)
    unit = reader.at(the).get(Tag.UNIT)
    found = None
    if reader.depth <= 2:
        reader.depth += 1
        found = reader.day(behind)
        reader.depth -= 1
    if found is None and unit in (Unit.WEEK, Unit.MONTH, Unit.QUARTER, Unit.YEAR, Unit.DECADE) and behind > at + 1:
        found = Found(unit_span(reader.now, unit), the + 1)
    if found is None:
        return None
    span = found.node if isinstance(found.node, Span) else settle(found.node, reader.now)
    if span is None or span.start is None or span.end is None or span.start.tzinfo or span.grain < Unit.WEEK:
        return None
    return Found(edge_span(span, which), found.after, found.strong or behind > at + 1)


def rest(reader: Reader, place: int) -> Found | None:
    """Read "the rest of today", "der Rest der Woche", "今日の残りの時間": from now to the end of a period that has begun.

    Where that is all the text, the period may be a bare unit; inside a sentence "the rest of the day" is of any day.
    """
    scriptless = reader.language.scriptless
    behind = place if scriptless else reader.skip(place, Tag.THE, limit=1)
    if not scriptless:
        if not reader.has(behind, Tag.REST):
            return None
        behind = reader.skip(behind + 1, Tag.OF, limit=1)
    the = reader.skip(behind, Tag.THE, limit=1)
    found = reader.day(behind) or reader.day(the)
    unit = reader.at(the).get(Tag.UNIT)
    if found is None and unit is not None and unit >= Unit.DAY and reader.lone and not scriptless:
        found = Found(unit_span(reader.now, unit), the + 1)
    if found is None:
        return None
    after = found.after
    if scriptless:
        after = reader.skip(found.after, Tag.OF, limit=1)
        if not reader.has(after, Tag.REST):
            return None
        after += 1
    span = found.node if isinstance(found.node, Span) else settle(found.node, reader.now)
    if span is None or span.start is None or span.end is None or span.start.tzinfo or span.end.tzinfo:
        return None
    if not span.start <= reader.now < span.end:
        return None  # "the rest of last week" began at a time that was not said
    return Found(Span(reader.instant, span.end, span.grain), after, found.strong)


def edge_span(span: Span, which: str) -> Span:
    """Cut the start, middle or end third out of *span*, in whole days, or whole months from a quarter up."""
    assert span.start is not None and span.end is not None
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
