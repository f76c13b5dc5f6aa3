"""Rules for a count and some more of it: "two years and a bit ago", "just over two years ago", "hace diez y pico días".

It is between that count and one more of its unit: two years and a bit ago lies between three and two years ago. Of a round number it is
between it and the next ten: "ten-odd days ago" is 11 to 19.
"""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

from infinite_memory.time_expressions.amounts import MAX_COUNT, Duration, Part, duration, in_units
from infinite_memory.time_expressions.durations import ago_span, since
from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import Span

_TEN = 10


def some_more_ago(reader: Reader, position: int) -> Found | None:
    """Read a count and some more, told to be ago."""
    word = reader.at(position)
    opened, is_more = word.has(Tag.AGO_OPENS), word.has(Tag.JUST_OVER)
    index = position + 1 if opened or is_more else position
    if opened and not is_more and reader.has(index, Tag.JUST_OVER):
        is_more, index = True, index + 1
    if tens := _counted(reader, index):
        unit, low, high, after = tens
        span = _between(reader, in_units(Fraction(low), unit), in_units(Fraction(high), unit))
    else:
        read = duration(reader, index)
        if read is None:
            return None
        parts, after = read
        if reader.has(after, Tag.SOME_MORE):
            is_more, after = True, after + (not reader.has(after, Tag.AGO))  # "2年ちょっと前" ends in its word for ago
        if not is_more or any(part.vague or part.step for part in parts):
            return None
        span = _up_to_one_more(reader, parts)
    closed = reader.has(after, Tag.AGO)
    return Found(span, after + closed) if span and (opened or closed) else None


def _counted(reader: Reader, position: int) -> tuple[Unit, int, int, int] | None:
    """Read "two and a bit years", "diez y pico días": the unit, the least and the most of it, and the place behind."""
    count = reader.count(position)
    if count is None or count[2] or not 0 < count[0] < MAX_COUNT or not reader.has(count[1], Tag.SOME_MORE):
        return None
    many, index = count[0], count[1] + 1
    if not reader.has(index, Tag.UNIT):
        return None
    is_round = _TEN <= many < _TEN**2 and many % _TEN == 0
    return reader.at(index).get(Tag.UNIT), many + is_round, many + (_TEN - 1 if is_round else 1), index + 1


def _up_to_one_more(reader: Reader, parts: Duration) -> Span:
    unit = min(part.unit for part in parts)
    early, late = since(reader, [*parts, Part(1, unit)]).start, since(reader, parts).start
    assert late is not None
    return Span(early, late if unit <= Unit.HOUR else late + dt.timedelta(days=1), unit)


def _between(reader: Reader, low: Duration | None, high: Duration | None) -> Span | None:
    if not low or not high:
        return None
    if high[0].count - low[0].count == 1:
        return _up_to_one_more(reader, low)
    early, late = (ago_span(reader.now, reader.instant, parts) for parts in (high, low))
    return Span(early.start, late.end, low[0].unit) if early and late else None
