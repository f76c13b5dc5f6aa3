"""Several recurring periods: "the last two Mondays", "les deux derniers étés", "过去两个冬天", "the last three Christmases".

They become one span, from the start of the first to the end of the last. A season or month that has not ended is not one of the
last ones, as "last summer", said in July, is in the previous year.
"""

from __future__ import annotations

from dataclasses import replace

from infinite_memory.time_expressions.amounts import MAX_COUNT, Duration
from infinite_memory.time_expressions.countries import get_local_holiday
from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import Date, Span, settle, shift, unit_span

_SEASON = 3  # months


def several(reader: Reader, count: int, back: int, position: int) -> Found | None:
    """Read what is counted in "the last two Mondays": the weekday, season, month or holiday at *position*."""
    if not 1 <= count <= MAX_COUNT or back == 0:
        return None
    index = reader.skip(position, Tag.COUNTER, limit=1)
    word = reader.at(index)
    if word.has(Tag.WEEKDAY):
        return _weekdays(reader, count, back, index)
    return _yearly(reader, count, back, index) if word.has(Tag.PLURAL) else None


def years_of(reader: Reader, amount: tuple[Duration, int]) -> Found | None:
    """Read the summers of "过去两年的夏天", "ここ2年の夏"; *amount* are the years before them."""
    parts, after = amount
    if len(parts) != 1 or parts[0].unit is not Unit.YEAR or not reader.has(after, Tag.OF):
        return None
    return several(reader, parts[0].count, -1, after + 1) if reader.has(after + 1, Tag.PLURAL) else None


def _weekdays(reader: Reader, count: int, back: int, index: int) -> Found | None:
    date = Date(weekday=reader.at(index).get(Tag.WEEKDAY))
    tomorrow = unit_span(reader.now, Unit.DAY, 1).start
    nearest = settle(date, reader.now) if back < 0 else settle(date, reader.now, floor=tomorrow)
    if nearest is None or nearest.start is None or nearest.end is None:
        return None
    weeks = (count - 1) * (1 if back > 0 else -1)
    first, last = sorted((nearest.start, shift(nearest.start, Unit.WEEK, weeks)))
    return Found(Span(first, shift(last, Unit.DAY, 1), Unit.DAY), index + 1)


def _yearly(reader: Reader, count: int, back: int, index: int) -> Found | None:
    tag, value = reader.at(index).get(Tag.PLURAL)
    if tag is Tag.HOLIDAY:
        date = Date(holiday=get_local_holiday(value, reader.country))
    elif tag in (Tag.SEASON, Tag.MONTH):
        date = Date(month=value, months=_SEASON if tag is Tag.SEASON else 1)
    else:
        return None
    if back > 0:
        nearest = settle(date, reader.now, floor=unit_span(reader.now, Unit.DAY, 1).start)
    else:
        nearest = settle(date, reader.now)
        if nearest and nearest.end and nearest.end > reader.now and tag is not Tag.HOLIDAY:
            nearest = settle(date, reader.now, ceiling=shift(reader.now, Unit.YEAR, -1))
    if nearest is None or nearest.start is None:
        return None
    year = nearest.start.year + (count - 1) * (1 if back > 0 else -1)
    farthest = settle(replace(date, year=year), reader.now)
    if farthest is None:
        return None
    first, last = (farthest, nearest) if back < 0 else (nearest, farthest)
    return Found(Span(first.start, last.end, date.grain), index + 1)
