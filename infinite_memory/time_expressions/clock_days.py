"""Rules that narrow a day to a part or a time: "in the afternoon", "9am on Tuesday", "Friday between 1PM and 4 PM", "last night"."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from infinite_memory.time_expressions.clocks import (
    LATE_PARTS,
    Clock,
    at_clock,
    between_clocks,
    clock,
    clock_range,
    clock_today,
)
from infinite_memory.time_expressions.dates import ends_phrase
from infinite_memory.time_expressions.day_parts import day_start, part_span
from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import Span, unit_span

_MAX_NIGHTS = 1000  # of "three nights ago"
_MAX_FILLERS = 5  # between a day and its time: "a primeras horas de la"
_NIGHT_ENDS = 6  # hours: "two at night" is after midnight


def narrow(reader: Reader, result: Found) -> Found:
    """Narrow the preceding day by the part or time after it: "Friday afternoon between 1PM and 4 PM"."""
    start = day_start(reader, result.node)
    if start is None:
        return result
    index = reader.skip_sign(result.after)
    plain = reader.lone or isinstance(result.node, Span)
    if read := clock_range(reader, reader.skip(index, Tag.OF, limit=1), plain=plain) or clock_range(
        reader, index, plain=plain
    ):
        return Found(between_clocks(reader, start, read[0], read[1]), read[2])
    behind = index
    fillers = (Tag.IN, Tag.ON, Tag.OF, Tag.AT, Tag.SOFT, Tag.THE, Tag.AROUND)
    while behind - index < _MAX_FILLERS and reader.has(behind, *fillers) and not reader.has(behind, Tag.PART):
        behind += 1
    marked = behind > index
    if reader.has(behind, Tag.PART):
        return _narrow_part(reader, start, behind)
    if bounded := _bounded(reader, start, index):
        return bounded
    if read_clock := clock(reader, behind, plain=marked and reader.has(index, Tag.AT)):
        if not read_clock.plain or reader.lone or ends_phrase(reader, read_clock.after):
            return Found(at_clock(reader, start, read_clock), read_clock.after)
    return result


def _bounded(reader: Reader, start: dt.datetime, position: int) -> Found | None:
    """Read the rest of "yesterday after 3pm", "gestern vor 15 Uhr": the day from a time on, or up to it."""
    if reader.language.scriptless or not reader.has(position, Tag.AFTER, Tag.SINCE, Tag.BEFORE, Tag.UNTIL):
        return None
    read = clock(reader, reader.skip(position + 1, Tag.OF, Tag.THE, Tag.ON, Tag.AT, limit=3))
    if read is None or read.plain:
        return None
    moment = at_clock(reader, start, read)
    assert moment.start is not None
    end = start + dt.timedelta(days=1)
    if reader.has(position, Tag.SINCE) and moment.start < reader.now:
        return Found(Span(moment.start, reader.instant, moment.grain), read.after)
    if reader.has(position, Tag.AFTER, Tag.SINCE):
        return Found(Span(moment.start, end, moment.grain), read.after) if moment.start < end else None
    last = moment.end if reader.has(position, Tag.UNTIL) else moment.start
    last = last if read.offset else end  # midnight at the end of the day
    return Found(Span(start, last, moment.grain), read.after) if last is not None and last > start else None


def _narrow_part(reader: Reader, start: dt.datetime, position: int) -> Found:
    if reader.language.scriptless and (read := clock(reader, position)):
        return Found(at_clock(reader, start, read), read.after)
    part: str = reader.at(position).get(Tag.PART)
    index = reader.skip_sign(position + 1)
    if ranged := clock_range(reader, index, plain=True):
        return Found(_in_part(reader, start, ranged[0], ranged[1], part), ranged[2])
    behind = reader.skip(index, Tag.ON, Tag.AT, Tag.AROUND, Tag.ROUGHLY, limit=2)
    if read := clock(reader, behind, plain=behind > index):
        return Found(at_clock(reader, start, _into_part(read, part)), read.after)
    return Found(part_span(start, part), position + 1)


def _in_part(reader: Reader, start: dt.datetime, first: Clock, last: Clock, part: str) -> Span:
    first, last = _into_part(first, part), _into_part(last, part)
    if last.offset <= first.offset:
        last = replace(last, hour=last.hour + 12 if last.hour + 12 > first.hour else last.hour + 24)
    return between_clocks(reader, start, first, last)


def part_of_day(reader: Reader, position: int) -> Found | None:
    """Read "tonight", "this morning", "last night", "in the afternoon on Friday", "first thing yesterday"."""
    today = unit_span(reader.now, Unit.DAY).start
    assert today is not None
    word = reader.at(position)
    if word.has(Tag.DAY_PART):
        days, part = word.get(Tag.DAY_PART)
        start = today + dt.timedelta(days=days)
        if ranged := clock_range(reader, position + 1, plain=True):
            return Found(_in_part(reader, start, ranged[0], ranged[1], part), ranged[2])
        if read := clock(reader, reader.skip(position + 1, Tag.ON, limit=1)):
            return Found(at_clock(reader, start, _into_part(read, part)), read.after)
        return Found(part_span(start, part), position + 1)
    index = reader.skip(position, Tag.THE, limit=1)
    if (
        reader.has(index, Tag.PART)
        and reader.has(index + 1, Tag.BEFORE)
        and reader.at(index + 2).get(Tag.RELATIVE) == -1
    ):
        if not reader.has(index + 3, Tag.UNIT, Tag.WEEKDAY, Tag.MONTH):  # "the night before last"
            return Found(part_span(today - dt.timedelta(days=2), reader.at(index).get(Tag.PART)), index + 3)
    count = reader.count(position)
    if count and count[0] < _MAX_NIGHTS and reader.has(count[1], Tag.PART) and reader.has(count[1] + 1, Tag.AGO):
        return Found(part_span(today - dt.timedelta(days=count[0]), reader.at(count[1]).get(Tag.PART)), count[1] + 2)
    if reader.has(index, Tag.RELATIVE) and reader.has(index + 1, Tag.PART):
        days = int(reader.at(index).get(Tag.RELATIVE))
        return _narrow_part(reader, today + dt.timedelta(days=days), index + 1)
    if (
        reader.has(index, Tag.PART)
        and reader.at(index + 1).get(Tag.RELATIVE) == -1
        and reader.language.code in ("fr", "es", "pt")
    ):
        # "la nuit dernière"
        return Found(part_span(today - dt.timedelta(days=1), reader.at(index).get(Tag.PART)), index + 2)
    if reader.has(index, Tag.PART) and not reader.has(index, Tag.HOLIDAY):
        behind = reader.skip(reader.skip_sign(index + 1), Tag.ON, Tag.OF, Tag.THE, limit=3)
        result = reader.day(behind)
        if result and (day := day_start(reader, result.node)) is not None:
            ranged = clock_range(reader, result.after)
            if ranged:
                return Found(_in_part(reader, day, ranged[0], ranged[1], reader.at(index).get(Tag.PART)), ranged[2])
            return Found(part_span(day, reader.at(index).get(Tag.PART)), result.after)
    return None


def clock_then_day(reader: Reader, position: int) -> Found | None:
    """Read "9am on Tuesday", "from 3:30 to 5:55 on 1/1/2015", "12:30 PM ON FRI", "seven on 15"."""
    ranged = clock_range(reader, position, plain=True)
    if ranged:
        if parted := _part_behind(reader, ranged[2]):
            start, part, after = parted
            return Found(_in_part(reader, start, ranged[0], ranged[1], part), after)
        result = _day_behind(reader, ranged[2])
        if result and (day := day_start(reader, result.node)) is not None:
            if not (ranged[0].plain and ranged[1].plain) or reader.lone or isinstance(result.node, Span):
                return Found(between_clocks(reader, day, ranged[0], ranged[1]), result.after)
    index = reader.skip(position, Tag.ON, Tag.AT, Tag.THE, limit=2)
    if (
        index > position
        and (plain := clock(reader, index, plain=True))
        and (parted := _part_behind(reader, plain.after))
    ):
        start, part, after = parted
        return Found(at_clock(reader, start, _into_part(plain, part)), after)  # "at 9 last night"
    read = clock(reader, index, plain=reader.lone)
    if read and read.plain and (not reader.has(read.after, Tag.ON, Tag.OF) or reader.has(read.after, Tag.TO)):
        return None
    if read is None or (index == position and _is_length(reader, read)):
        return None
    if parted := _part_behind(reader, read.after):
        start, part, after = parted
        return Found(at_clock(reader, start, _into_part(read, part)), after)
    result = _day_behind(reader, read.after)
    if result and (day := day_start(reader, result.node)) is not None:
        return Found(at_clock(reader, day, read), result.after)
    return None if read.plain else Found(clock_today(reader, read), read.after, False)


def _is_length(reader: Reader, read: Clock) -> bool:
    """True if a time without "at" may be how long something took: "trabajé 3 horas ayer"."""
    if reader.lone or read.half or read.minute is not None:
        return False
    return reader.has(read.after - 1, Tag.UNIT) and reader.has(read.after - 1, Tag.HOUR_MARK)


def _part_behind(reader: Reader, position: int) -> tuple[dt.datetime, str, int] | None:
    """Read "last night", "yesterday evening", "am Freitag Abend" after a time: the midnight, the part and the position after it."""
    index = reader.skip(reader.skip_sign(position), Tag.ON, Tag.OF, Tag.IN, Tag.THE, limit=3)
    today = unit_span(reader.now, Unit.DAY).start
    assert today is not None
    word, following = reader.at(index), reader.at(index + 1)
    if word.has(Tag.DAY_PART):
        days, part = word.get(Tag.DAY_PART)
        return today + dt.timedelta(days=days), part, index + 1
    if word.has(Tag.RELATIVE) and following.has(Tag.PART):
        return today + dt.timedelta(days=int(word.get(Tag.RELATIVE))), following.get(Tag.PART), index + 2
    if word.has(Tag.PART) and following.get(Tag.RELATIVE) == -1 and reader.language.code in ("fr", "es", "pt"):
        return today - dt.timedelta(days=1), word.get(Tag.PART), index + 2
    result = _day_behind(reader, position)
    start = day_start(reader, result.node) if result else None
    if result is None or start is None:
        return None
    behind = reader.skip(reader.skip_sign(result.after), Tag.IN, Tag.ON, Tag.OF, Tag.AT, Tag.THE, limit=3)
    return (start, reader.at(behind).get(Tag.PART), behind + 1) if reader.has(behind, Tag.PART) else None


def _into_part(clock: Clock, part: str) -> Clock:
    """Adjust a 12-hour time to a part of the day: two at night is after midnight, eight at night is before it."""
    if clock.half or clock.hour > 12:
        if part == "night" and clock.hour < _NIGHT_ENDS:
            return replace(clock, hour=clock.hour + 24)
        return clock
    if (part == "night" and clock.hour < _NIGHT_ENDS) or (part in ("night", "evening") and clock.hour == 12):
        return replace(clock, hour=clock.hour % 12 + 24)
    return replace(clock, hour=clock.hour + 12) if part in LATE_PARTS and clock.hour < 12 else clock


def _day_behind(reader: Reader, position: int) -> Found | None:
    index = reader.skip(reader.skip_sign(position), Tag.ON, Tag.OF, Tag.IN, Tag.THE, limit=3)
    return reader.day(index) or reader.day(reader.skip(reader.skip_sign(position), Tag.ON, Tag.OF, Tag.IN, limit=2))
