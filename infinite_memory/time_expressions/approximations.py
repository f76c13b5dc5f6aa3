"""Rules for approximate counts: "two years and a bit ago", "just under two years ago", "hace diez y pico días".

The range is between the count and one more or one less of its unit: two years and a bit ago is between three and two years ago. For a
round number it extends to the next ten: "ten-odd days ago" is 11 to 19.
"""

from __future__ import annotations

import datetime as dt
from fractions import Fraction

from infinite_memory.time_expressions.amounts import (
    MAX_COUNT,
    Duration,
    Part,
    approximate,
    duration,
    fraction_part,
    in_units,
)
from infinite_memory.time_expressions.durations import ago_span, since
from infinite_memory.time_expressions.lexemes import Lexeme
from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import Span

_TEN = 10
_BESIDE = (Tag.JUST_OVER, Tag.JUST_UNDER)


def some_more_ago(reader: Reader, position: int) -> Found | None:
    """Read a count and some more, or a little less, with a word for ago."""
    opened = reader.has(position, Tag.AGO_OPENS)
    is_ambiguous = reader.has(position, *_BESIDE)  # "hace poco más de" is both
    index = position + 1 if opened or is_ambiguous else position
    if opened and not is_ambiguous and reader.has(index, *_BESIDE):
        is_ambiguous, index = True, index + 1
    if reader.language.scriptless and approximate(reader, index):
        return None  # "一百多年前" is as wide as its tens or hundreds
    read = _between_counts(reader, index) or _beside_length(
        reader, index, reader.at(index - 1) if is_ambiguous else None
    )
    if read is None:
        return None
    span, after = read
    closed = reader.has(after, Tag.AGO)
    return Found(span, after + closed) if span and (opened or closed) else None


def _between_counts(reader: Reader, position: int) -> tuple[Span | None, int] | None:
    """Read "two and a bit years": the span, if there is one, and the position after it."""
    if not (tens := _counted(reader, position)):
        return None
    unit, low, high, after = tens
    return _between(reader, in_units(Fraction(low), unit), in_units(Fraction(high), unit)), after


def _beside_length(reader: Reader, position: int, how: Lexeme | None) -> tuple[Span | None, int] | None:
    """Read a length with *how* before it, or with words for more or less behind it or inside its unit, as `_between_counts` does."""
    read = duration(reader, position) or _half_year(reader, position)
    if read is None:
        return None
    parts, after = read
    if reader.has(after, Tag.SOME_MORE) or (reader.language.scriptless and reader.has(after, Tag.JUST_UNDER)):
        # "2年ちょっと前" ends in its word for ago.
        how, after = reader.at(after), after + (not reader.has(after, Tag.AGO))
    elif _has_more_inside(reader, after - 1):
        how = reader.at(after - 1)
    if how is None or any(part.vague for part in parts):
        return None
    return (_up_to_one_less if how.has(Tag.JUST_UNDER) else _up_to_one_more)(reader, parts), after


def with_more(reader: Reader, amount: tuple[Duration, int]) -> tuple[Duration, int]:
    """Return a length plus one of its unit, and the position after it, if "and a bit" follows."""
    parts, after = amount
    if _has_more_inside(reader, after - 1):
        return [*parts, _one_of(parts)], after
    if not reader.has(after, Tag.SOME_MORE) or reader.has(after, Tag.AGO) or reader.has(after + 1, Tag.AGO):
        return amount
    return [*parts, _one_of(parts)], after + 1


def _half_year(reader: Reader, position: int) -> tuple[Duration, int] | None:
    """Read the half year of "半年多前", which has no number."""
    if not reader.language.scriptless or reader.at(position).get(Tag.UNIT) is not Unit.HALF_YEAR:
        return None
    half = fraction_part(Unit.YEAR, Fraction(1, 2))
    is_counted = reader.has(position - 1, Tag.NUMBER, Tag.SCALE, Tag.VAGUE) or reader.at(position - 1).digits > 0
    return ([half], position + 1) if half and not is_counted else None


def _has_more_inside(reader: Reader, position: int) -> bool:
    """True for a unit that says itself that there is some more: the "个多月" of "两个多月"."""
    return reader.has(position, Tag.UNIT) and reader.has(position, Tag.SOME_MORE)


def _counted(reader: Reader, position: int) -> tuple[Unit, int, int, int] | None:
    """Read "two and a bit years", "diez y pico días": the unit, its minimum and maximum count, and the position after it."""
    count = reader.count(position)
    if count is None or count[2] or not 0 < count[0] < MAX_COUNT or not reader.has(count[1], Tag.SOME_MORE):
        return None
    many, index = count[0], count[1] + 1
    if not reader.has(index, Tag.UNIT):
        return None
    is_round = _TEN <= many < _TEN**2 and many % _TEN == 0
    return reader.at(index).get(Tag.UNIT), many + is_round, many + (_TEN - 1 if is_round else 1), index + 1


def _one_of(parts: Duration) -> Part:
    """Return one of the smallest unit of a length, or of its fraction."""
    last = min(parts, key=lambda part: part.unit)
    return Part(*last.step) if last.step else Part(1, last.unit)


def _up_to_one_more(reader: Reader, parts: Duration) -> Span:
    return _stretch(reader, [*parts, _one_of(parts)], parts)


def _up_to_one_less(reader: Reader, parts: Duration) -> Span | None:
    """Return the span down to one less; for a count of one, down to a half."""
    last, step = min(parts, key=lambda part: part.unit), _one_of(parts)
    less = [Part(part.count - step.count, part.unit) if part is last else part for part in parts]
    less = [part for part in less if part.count > 0]
    if not less:
        half = fraction_part(last.unit, Fraction(1, 2))
        less = [half] if half else []
    return _stretch(reader, parts, less) if less else None


def _stretch(reader: Reader, longer: Duration, shorter: Duration) -> Span:
    """Return the span between two lengths ago; whole days if the longer one is in days or more."""
    early, late = since(reader, longer).start, since(reader, shorter).start
    assert early is not None and late is not None
    if late.tzinfo is None and early.tzinfo is None:
        return Span(early, late + dt.timedelta(days=1), min(part.unit for part in longer))
    hours = [
        reader.instant + (moment - reader.now if moment.tzinfo is None else moment - reader.instant)
        for moment in (early, late)
    ]
    return Span(hours[0], hours[1], Unit.HOUR)


def _between(reader: Reader, low: Duration | None, high: Duration | None) -> Span | None:
    if not low or not high:
        return None
    if high[0].count - low[0].count == 1:
        return _up_to_one_more(reader, low)
    early, late = (ago_span(reader.now, reader.instant, parts) for parts in (high, low))
    return Span(early.start, late.end, low[0].unit) if early and late else None
