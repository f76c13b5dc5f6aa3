"""Rules for lengths of time counted from now or from a day: "two weeks ago", "the day before yesterday", "3 days after Easter".

N days ago is that day. N weeks, months or years ago is the calendar unit that holds that day: nobody who says "two months ago"
means the one day.
"""

from __future__ import annotations

import datetime as dt

from infinite_memory.time_phrases.reader import Found, Reader
from infinite_memory.time_phrases.spans import Date, Span, settle, shift, unit_span, unit_start, weekday_of_week
from infinite_memory.time_phrases.table import Tag, Unit

_MOST_PARTS = 6  # of a duration: years, months, weeks, days, hours, minutes
MOST_COUNT = 100_000
_SOME = 4  # how many a plural without a number is taken to be, give or take one
Duration = list[tuple[int, Unit, bool]]


def duration(reader: Reader, place: int) -> tuple[Duration, int] | None:
    """Read "3 months and 2 weeks and 2 days": the parts and the place behind."""
    parts: Duration = []
    at = reader.skip(place, Tag.ROUGHLY, limit=2)
    after = at
    if half := _half_unit(reader, at):
        return half
    while len(parts) < _MOST_PARTS:
        count = reader.count(at)
        if (
            count
            and reader.has(count[1], Tag.AND)
            and (half := _half_unit(reader, reader.skip(count[1] + 1, Tag.VAGUE, limit=1)))
        ):
            unit = reader.at(half[1] - 1).get(Tag.UNIT)  # "one and a half years"
            return [*parts, (count[0], unit, False), *half[0]], half[1]
        if count is None or count[0] > MOST_COUNT or not reader.has(count[1], Tag.UNIT):
            break
        unit = reader.at(count[1]).get(Tag.UNIT)
        if unit is Unit.MONTH and reader.has(count[1], Tag.MONTH_MARK):
            break
        parts.append((count[0], unit, count[2]))
        after = count[1] + 1
        at = reader.skip(reader.skip_sign(after), Tag.AND, limit=1)
    return (parts, after) if parts else None


def _half_unit(reader: Reader, place: int) -> tuple[Duration, int] | None:
    """Read "half an hour", "half a year"."""
    if not reader.has(place, Tag.HALF):
        return None
    at = place + 1 if reader.has(place + 1, Tag.VAGUE) else place
    halves = {
        Unit.HOUR: (30, Unit.MINUTE),
        Unit.DAY: (12, Unit.HOUR),
        Unit.YEAR: (6, Unit.MONTH),
        Unit.DECADE: (5, Unit.YEAR),
    }
    found = halves.get(reader.at(at + 1).get(Tag.UNIT))
    return ([(*found, False)], at + 2) if found else None


def _back(at: dt.datetime, parts: Duration, sign: int = -1) -> dt.datetime:
    """Go back by every part, in wall time; whoever counts in hours passes an absolute instant."""
    for count, unit, _ in sorted(parts, key=lambda part: -part[1]):
        at = shift(at, unit, sign * count)
    return at


def ago(reader: Reader, place: int) -> Found | None:
    """Read "two days ago", "vor zwei Tagen", "2 thursdays ago", "a few weeks back"."""
    opened = reader.has(place, Tag.AGO_OPENS)
    start = reader.skip(place, Tag.AGO_OPENS, Tag.ROUGHLY, limit=3) if opened else place
    read = duration(reader, start)
    if read is None and reader.has(start, Tag.UNIT) and (opened or reader.has(start + 1, Tag.AGO)):
        if reader.language.scriptless:
            return None
        read = ([(_SOME, reader.at(start).get(Tag.UNIT), True)], start + 1)  # "years ago"
    if either := _either_ago(reader, start, opened=opened):
        return either
    if read is None:
        return None if opened else _weekdays_ago(reader, place)
    parts, after = read
    closed = reader.has(after, Tag.AGO)
    if not opened and not closed:
        return None
    if parts[0][0] >= 1000 and parts[0][1] is Unit.YEAR:
        return None
    after = after + 1 if closed else after
    word = reader.at(after)
    if word.has(Tag.DAY) and int(word.get(Tag.DAY)) <= 0 and min(part[1] for part in parts) >= Unit.DAY:
        base = unit_span(reader.now, Unit.DAY, int(word.get(Tag.DAY))).start
        assert base is not None
        return Found(unit_span(_back(base, parts), Unit.DAY), after + 1)
    if len(parts) == 1 and parts[0][1] is Unit.WEEK and not parts[0][2]:
        weekday = reader.skip(after, Tag.ON, limit=1)
        if reader.has(weekday, Tag.WEEKDAY):  # "two weeks ago on Thursday"
            return Found(
                weekday_of_week(reader.now, int(reader.at(weekday).get(Tag.WEEKDAY)), -parts[0][0]), weekday + 1
            )
    span = ago_span(reader.now, reader.instant, parts)
    return Found(span, after) if span else None


def _either_ago(reader: Reader, place: int, *, opened: bool) -> Found | None:
    """Read "between 3 and 5 days ago", "two or three weeks ago"."""
    at = reader.skip(place, Tag.BETWEEN, Tag.FROM, limit=1)
    first = reader.count(at)
    if first is None or not (reader.has(first[1], Tag.AND, Tag.OR, Tag.TO) or reader.is_dash(first[1])):
        return None
    read = duration(reader, first[1] + 1)
    if read is None or len(read[0]) > 1 or not (opened or reader.has(read[1], Tag.AGO)):
        return None
    count, unit, _ = read[0][0]
    early = ago_span(reader.now, reader.instant, [(max(count, first[0]), unit, False)])
    late = ago_span(reader.now, reader.instant, [(min(count, first[0]), unit, False)])
    after = read[1] + 1 if reader.has(read[1], Tag.AGO) else read[1]
    return Found(Span(early.start, late.end, unit), after) if early and late else None


def ago_span(wall: dt.datetime, instant: dt.datetime, parts: Duration) -> Span | None:
    """Give the stretch that lies a duration back: one unit wide, a vague count one unit wider on each side."""
    unit = min(part[1] for part in parts)
    vague = any(part[2] for part in parts)
    if unit <= Unit.HOUR:
        start = _back(instant, parts)
        more = 1 if vague else 0
        return Span(shift(start, unit, -more), shift(start, unit, 1 + more), unit)
    if unit is Unit.WEEKEND:
        return unit_span(wall, unit, -parts[-1][0])
    day = _back(unit_start(wall, Unit.DAY), parts)
    if vague:
        return Span(shift(day, unit, -1), shift(day, unit, 1) + dt.timedelta(days=1), unit)
    if len(parts) > 1 or unit is Unit.DAY:
        return unit_span(day, Unit.DAY)
    return unit_span(day, Unit.WEEK if unit is Unit.FORTNIGHT else unit)


def _weekdays_ago(reader: Reader, place: int) -> Found | None:
    count = reader.count(place)
    if (
        count is None
        or count[0] > MOST_COUNT
        or not reader.has(count[1], Tag.WEEKDAY)
        or not reader.has(count[1] + 1, Tag.AGO)
    ):
        return None
    span = settle(Date(weekday=reader.at(count[1]).get(Tag.WEEKDAY), shift=-7 * (count[0] - 1)), reader.now)
    return Found(span, count[1] + 2) if span else None


def before_day(reader: Reader, place: int) -> Found | None:
    """Read "the day before yesterday", "two days before yesterday", "the week before last", "the day after Christmas"."""
    start = reader.skip(place, Tag.THE, limit=1)
    read = duration(reader, start)
    if read:
        parts, at = read
    elif reader.has(start, Tag.UNIT):
        parts, at = [(1, reader.at(start).get(Tag.UNIT), False)], start + 1
    elif (
        reader.has(start, Tag.WEEKDAY)
        and reader.has(start + 1, Tag.BEFORE)
        and reader.at(start + 2).get(Tag.RELATIVE) == -1
    ):
        span = settle(Date(weekday=reader.at(start).get(Tag.WEEKDAY), shift=-7), reader.now)
        return Found(span, start + 3) if span else None
    elif reader.language.before_day_is_day and reader.has(start, Tag.BEFORE):
        parts, at = [(1, Unit.DAY, False)], start
        behind = reader.skip(reader.skip_sign(start + 1, "-"), Tag.OF, limit=1)
        if not reader.has(behind, Tag.DAY) or reader.at(behind).get(Tag.DAY) != -1:
            return None
    else:
        return None
    ahead = reader.has(at, Tag.AFTER) and not reader.has(at, Tag.BEFORE)
    if not (ahead or reader.has(at, Tag.BEFORE)) or parts[0][1] < Unit.DAY:
        return None
    at = reader.skip(reader.skip_sign(at + 1, "-"), Tag.OF, limit=1)
    unit = parts[-1][1]
    if not read and not ahead and reader.at(at).get(Tag.RELATIVE) == -1 and not reader.has(at + 1, Tag.UNIT):
        return Found(unit_span(reader.now, unit, -2), at + 1)
    if reader.depth <= 2:
        reader.depth += 1
        try:
            found = reader.day(at)
        finally:
            reader.depth -= 1
        if found is not None:
            span = found.node if isinstance(found.node, Span) else settle(found.node, reader.now)
            if span is None or span.start is None or span.start.tzinfo is not None:
                return None
            base = _back(span.start, parts, 1 if ahead else -1)
            if unit is Unit.DAY or len(parts) > 1 or span.grain is Unit.DAY:
                return Found(unit_span(base, Unit.DAY), found.after)
            return Found(unit_span(base, unit), found.after)
    if reader.is_over(at) and not read and not ahead and unit is Unit.DAY:
        return Found(unit_span(reader.now, unit, -1), at)
    return None


def since(reader: Reader, parts: Duration) -> Span:
    """Give the stretch from a duration back until now."""
    unit = min(part[1] for part in parts)
    if unit <= Unit.HOUR:
        now = reader.instant
        return Span(_back(now, parts), now, unit)
    now = reader.now
    return Span(_back(unit_start(now, Unit.DAY), parts), reader.instant, unit)
