"""The same moment in another period: "this time last year", "um diese Zeit vor zwei Jahren", "去年同期", "on the same day last month".

The minute is not meant. Around a day a year or more away the span is two weeks on either side, around one some months away three
days, around one some weeks away a day, and around a moment some days away an hour. "The same day" is that day.
"""

from __future__ import annotations

import datetime as dt

from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import Span, add_months, unit_span, unit_start

_DAYS_AROUND = {
    Unit.WEEK: 1,
    Unit.MONTH: 3,
    Unit.TWO_MONTHS: 3,
    Unit.QUARTER: 3,
    Unit.FOUR_MONTHS: 3,
    Unit.HALF_YEAR: 3,
    Unit.YEAR: 14,
    Unit.DECADE: 14,
}
_IN_MONTHS = (Unit.MONTH, Unit.TWO_MONTHS, Unit.QUARTER, Unit.FOUR_MONTHS, Unit.HALF_YEAR, Unit.YEAR, Unit.DECADE)


def same_time(reader: Reader, position: int) -> Found | None:
    """Read "this time last year", "this day two years ago": the word for the moment, then its period."""
    word = reader.at(position)
    if not word.has(Tag.SAME, Tag.RELATIVE, Tag.DAY):
        return None
    is_day = word.get(Tag.RELATIVE) == 0 and reader.at(position + 1).get(Tag.UNIT) is Unit.DAY
    if is_day:
        kind, index = "day", position + 2  # "this day"
    elif word.has(Tag.SAME) and not reader.language.scriptless:
        kind, index = word.get(Tag.SAME), position + 1
    elif word.get(Tag.DAY) == 0 and reader.has(position + 1, Tag.AGO_OPENS):
        kind, index = "day", position + 1  # "heute vor einem Jahr"
    else:
        return None
    index = reader.skip(index, Tag.OF, Tag.IN, Tag.ON, limit=1)
    result = reader.day(index) or reader.day(reader.skip(index, Tag.THE, limit=1))
    span = reader.settled(result) if result else None
    moved = _moved(reader, span, kind) if span else None
    return Found(moved, result.after) if result and moved else None


def same_time_behind(reader: Reader, result: Found) -> Found:
    """Narrow a period by "um diese Zeit", "同期" after it; return *result* itself if there is none."""
    index = result.after
    if not reader.has(index, Tag.SAME):
        index = index + 1 if reader.has(index, Tag.OF, Tag.IN, Tag.ON) else index
        if index == result.after or not reader.has(index, Tag.SAME):
            return result
    if reader.has(index + 1, Tag.COMPARED):
        return result
    span = reader.settled(result) if isinstance(result.node, Span) or reader.language.scriptless else None
    moved = _moved(reader, span, reader.at(index).get(Tag.SAME)) if span else None
    return Found(moved, index + 1) if moved else result


def _moved(reader: Reader, span: Span, kind: str) -> Span | None:
    """Return the span around now, moved into *span*; None if that is not a calendar unit, or the current one."""
    unit, start = span.grain, span.start
    if start is None or start.tzinfo is not None or unit < Unit.DAY or span != unit_span(start, unit):
        return None
    here = unit_start(reader.now, unit)
    if start == here:
        return None
    if unit in _IN_MONTHS:
        moment = add_months(reader.now, (start.year - here.year) * 12 + start.month - here.month)
    else:
        moment = reader.now + (start - here)
    if unit is Unit.DAY:
        hour = dt.timedelta(hours=1)
        return Span(moment - hour, moment + hour, Unit.HOUR) if kind == "time" else None
    if unit not in _DAYS_AROUND:
        return None
    around = dt.timedelta(days=_DAYS_AROUND[unit] if kind == "time" else 0)
    day = unit_start(moment, Unit.DAY)
    return Span(day - around, day + dt.timedelta(days=1) + around, Unit.DAY)
