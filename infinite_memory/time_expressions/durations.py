"""Rules for lengths relative to now or to a day: "two weeks ago", "the day before yesterday", "3 days after Easter".

N days ago is that day. N weeks, months or years ago is the calendar unit that contains that day: nobody who says "two months ago"
means the exact day. N hours or minutes ago is the moment with one unit on either side of it. For a fraction ("half an
hour", "a year and a half", "2.5 days") the span is as wide as that fraction, with the moment in its middle.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from fractions import Fraction

from infinite_memory.time_expressions.amounts import (
    MAX_COUNT,
    Amount,
    Duration,
    Part,
    amount,
    approximate,
    duration,
    fraction_behind,
    in_units,
)
from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import (
    Date,
    Span,
    half_width,
    settle,
    shift,
    unit_span,
    unit_start,
    weekday_of_week,
)

_SOME = 4  # assumed count of a plural without a number, give or take two
_NAMED = (Tag.UNIT, Tag.WEEKDAY, Tag.MONTH, Tag.SEASON, Tag.HOLIDAY)  # what "last" may belong to
_HOUR_SIGNS = frozenset({"h", "hr", "hrs", "hs"})
_GOES_ON = frozenset({":", "/", "-"})
_QUANTITY = (Tag.NUMBER, Tag.ORDINAL, Tag.SCALE, Tag.HALF, Tag.QUARTER_OF, Tag.MIXED, Tag.VAGUE, Tag.SHARE_UNIT)


def _back(instant: dt.datetime, parts: Duration, sign: int = -1) -> dt.datetime:
    """Go back by every part, in wall time; for hours pass an absolute instant."""
    for part in sorted(parts, key=lambda part: -part.unit):
        instant = shift(instant, part.unit, sign * part.count)
    return instant


def ago(reader: Reader, position: int) -> Found | None:
    """Read "two days ago", "vor zwei Tagen", "2 thursdays ago", "a few weeks back"."""
    opened = reader.has(position, Tag.AGO_OPENS)
    start = reader.skip(position, Tag.AGO_OPENS, Tag.ROUGHLY, limit=3) if opened else position
    read, written = duration(reader, start), _hours_and_minutes(reader, start, is_opened=opened)
    if written and (read is None or written[1] > read[1]):
        read = written
    if read is None and reader.has(start, Tag.UNIT):
        read = _uncounted(reader, start, is_opened=opened)
    if either := _either_ago(reader, start, is_opened=opened):
        return either
    if read is None:
        return None if opened else _weekdays_ago(reader, position)
    parts, after = read
    if reader.language.scriptless:
        after = reader.skip(after, Tag.ROUGHLY, limit=1)  # "2週間ほど前"
    elif opened:
        after = reader.skip(after, Tag.ROUGHLY_CLOSES, limit=1)  # "il y a dix jours environ"
    closed = reader.has(after, Tag.AGO)
    if not opened and not closed:
        return None
    if parts[0].count >= 1000 and parts[0].unit is Unit.YEAR:
        return None
    after = after + 1 if closed else after
    if closed and reader.has(after, Tag.OR_SO):  # "two weeks ago or so"
        parts, after = [replace(part, vague=True) for part in parts], after + 1
    word = reader.at(after)
    if word.has(Tag.DAY) and int(word.get(Tag.DAY)) <= 0 and min(part.unit for part in parts) >= Unit.DAY:
        base = unit_span(reader.now, Unit.DAY, int(word.get(Tag.DAY))).start
        assert base is not None
        return Found(unit_span(_back(base, parts), Unit.DAY), after + 1)
    if len(parts) == 1 and parts[0].unit is Unit.WEEK and not parts[0].vague:
        weekday = reader.skip(after, Tag.ON, limit=1)
        if reader.has(weekday, Tag.WEEKDAY):  # "two weeks ago on Thursday"
            return Found(
                weekday_of_week(reader.now, int(reader.at(weekday).get(Tag.WEEKDAY)), -parts[0].count), weekday + 1
            )
    span = ago_span(reader.now, reader.instant, parts)
    return Found(span, after) if span else None


def _hours_and_minutes(reader: Reader, position: int, *, is_opened: bool) -> tuple[Duration, int] | None:
    """Read the length in "1h30 ago", "il y a 1 h 30", "hace una hora y veinte"; without a word for ago it is a clock time."""
    count = reader.count(position)
    if count is None or count[2] or count[0] >= 100:
        return None
    hours, mark = count[0], reader.at(count[1])
    if mark.folded not in _HOUR_SIGNS and mark.get(Tag.UNIT) is not Unit.HOUR:
        return None
    minutes, after = _minutes(reader, count[1] + 1)
    if reader.has(after, Tag.UNIT) or (not reader.has(after, Tag.AGO) and (not is_opened or _goes_on(reader, after))):
        return None
    parts = [Part(hours, Unit.HOUR)] + ([Part(minutes, Unit.MINUTE)] if minutes else [])
    return (parts, after) if hours or minutes else None


def _minutes(reader: Reader, position: int) -> tuple[int, int]:
    """Read the minutes after hours: their count, and the position after them; zero if a number there counts something else."""
    behind, mark = reader.at(position), reader.at(position + 1)
    is_marked = mark.get(Tag.UNIT) is Unit.MINUTE or (mark.glued and mark.folded == "m")
    if behind.glued and behind.digits == 2 and (is_marked or not behind.mute) and int(behind.folded) < 60:
        return int(behind.folded), position + (2 if is_marked else 1)
    number = reader.number(reader.skip(position, Tag.AND, limit=1))
    if number is None or number.ordinal or number.digits == 1 or not 0 < number.value < 60:
        return 0, position
    mark = reader.at(number.after)
    if mark.get(Tag.UNIT) is Unit.MINUTE:
        return number.value, number.after + 1
    is_last = mark.has(Tag.AGO) or not mark.folded.isalnum()
    return (number.value, number.after) if is_last and not _goes_on(reader, number.after) else (0, position)


def _goes_on(reader: Reader, position: int) -> bool:
    """True if the number before *position* belongs to what follows: a clock, a month, a range."""
    sign = reader.at(position)
    return sign.has(Tag.MONTH, Tag.MERIDIEM) or (sign.glued and sign.folded in _GOES_ON)


def _either_ago(reader: Reader, position: int, *, is_opened: bool) -> Found | None:
    """Read "between 3 and 5 days ago", "two or three weeks ago"."""
    index = reader.skip(position, Tag.BETWEEN, Tag.FROM, limit=1)
    if either := approximate(reader, index):
        return _between_ago(reader, Fraction(either[0]), Amount(Fraction(either[1]), either[2]), is_opened=is_opened)
    first = amount(reader, index)
    behind = reader.at(first.after + 1) if first and reader.has(first.after, Tag.UNIT) else None
    if first and behind and behind.has(Tag.OR) and not behind.has(Tag.AND):
        return _or_more_ago(reader, first, is_opened=is_opened)
    if first is None or not (reader.has(first.after, Tag.AND, Tag.OR, Tag.TO) or reader.is_dash(first.after)):
        return None
    second = amount(reader, first.after + 1)
    if second is None or not reader.has(second.after, Tag.UNIT) or (first.value >= 1 and second.value < 1):
        return None  # "two and a half days"
    return _between_ago(reader, first.value, second, is_opened=is_opened)


def _or_more_ago(reader: Reader, first: Amount, *, is_opened: bool) -> Found | None:
    """Read "a week or two ago", "hace una semana o dos", with a single unit."""
    unit: Unit = reader.at(first.after).get(Tag.UNIT)
    second = reader.number(first.after + 2)
    if second is None or second.ordinal or second.digits > 2 or not first.value < second.value:
        return None
    closed = reader.has(second.after, Tag.AGO)
    if not closed and (not is_opened or reader.at(second.after).folded.isalnum()):
        return None  # "vor einer Woche oder zwei Tagen"
    early, late = (ago_span(reader.now, reader.instant, in_units(Fraction(many), unit) or [])
                   for many in (second.value, first.value))  # fmt: skip
    return Found(Span(early.start, late.end, unit), second.after + closed) if early and late else None


def _between_ago(reader: Reader, first: Fraction, second: Amount, *, is_opened: bool) -> Found | None:
    """Return the span between two amounts of the unit after the second of them, if there is a word for ago."""
    closed = reader.has(second.after + 1, Tag.AGO)
    if not (is_opened or closed) or max(first, second.value) > MAX_COUNT:
        return None
    unit: Unit = reader.at(second.after).get(Tag.UNIT)
    ends = [in_units(value, unit) for value in sorted((first, second.value), reverse=True)]
    early, late = (ago_span(reader.now, reader.instant, parts) if parts else None for parts in ends)
    after = second.after + 2 if closed else second.after + 1
    return Found(Span(early.start, late.end, unit), after) if early and late else None


def _uncounted(reader: Reader, position: int, *, is_opened: bool) -> tuple[Duration, int] | None:
    """Read "years ago", "hace hora y media", "半年前": a unit without a number, and not preceded by a quantity that was not parsed."""
    unit: Unit = reader.at(position).get(Tag.UNIT)
    behind = fraction_behind(reader, unit, position + 1)
    if not is_opened and not reader.has(behind[1] if behind else position + 1, Tag.AGO):
        return None
    if reader.language.scriptless:
        half = [Part(6, Unit.MONTH, step=(6, Unit.MONTH))]
        return (half, position + 1) if unit is Unit.HALF_YEAR else None
    before = reader.at(position - 1)
    if not is_opened and (before.has(Tag.OF) or reader.at(position).glued or _is_numbered(reader, position)):
        return None  # "dozens of weeks ago" says how many
    if behind and not reader.language.scriptless:
        return [Part(1, unit), behind[0]], behind[1]
    if reader.at(position).folded == reader.language.units[unit].split("|")[0]:
        return [Part(1, unit)], position + 1  # "week ago": one, without its article
    return [Part(_SOME, unit, vague=True)], position + 1


def _is_numbered(reader: Reader, position: int) -> bool:
    """True if a quantity precedes the unit, directly or with a word between: "3 business days ago", "ten-ish days ago"."""
    for distance in range(1, 4):
        word = reader.at(position - distance)
        if word.digits or word.has(*_QUANTITY):
            return True
        if word.meanings or not (word.folded.isalpha() or word.folded == "-"):
            return False
    return False


def ago_span(local_time: dt.datetime, instant: dt.datetime, parts: Duration) -> Span | None:
    """Return the span a duration ago; its width follows the rules in the module docstring."""
    unit = min(part.unit for part in parts)
    vague = any(part.vague for part in parts)
    if steps := [part.step for part in parts if part.step]:
        return _fraction_span(local_time, instant, parts, min(steps, key=lambda step: (step[1], step[0])))
    if unit <= Unit.HOUR:
        start = _back(instant, parts)
        margin = 2 if vague else 1
        return Span(shift(start, unit, -margin), shift(start, unit, margin), unit)
    if unit is Unit.WEEKEND:
        return unit_span(local_time, unit, -parts[-1].count)
    day = _back(unit_start(local_time, Unit.DAY), parts)
    if vague:
        return Span(shift(day, unit, -1), shift(day, unit, 1) + dt.timedelta(days=1), unit)
    return unit_span(day, Unit.WEEK if unit is Unit.FORTNIGHT else unit)


def _fraction_span(local_time: dt.datetime, instant: dt.datetime, parts: Duration, step: tuple[int, Unit]) -> Span:
    """Return a span one *step* wide around the moment; whole days if the step is days or longer."""
    if step[1] <= Unit.HOUR:
        moment = _back(instant, parts)
        half = half_width(*step)
        return Span(moment - half, moment + half, min(part.unit for part in parts))
    day = _back(unit_start(local_time, Unit.DAY), parts)
    if step[1] >= Unit.MONTH and (step[0] % 2 == 0 or step[1] > Unit.MONTH):
        months = step[0] * (shift(day, step[1], 1).year * 12 + shift(day, step[1], 1).month - day.year * 12 - day.month)
        first, last = shift(day, Unit.MONTH, -(months // 2)), shift(day, Unit.MONTH, months // 2)
    else:
        half = half_width(*step)
        first, last = unit_start(day - half, Unit.DAY), unit_start(day + half, Unit.DAY)
    return Span(first, last + dt.timedelta(days=1), Unit.DAY)


def _weekdays_ago(reader: Reader, position: int) -> Found | None:
    count = reader.count(position)
    if (
        count is None
        or count[0] > MAX_COUNT
        or not reader.has(count[1], Tag.WEEKDAY)
        or not reader.has(count[1] + 1, Tag.AGO)
    ):
        return None
    span = settle(Date(weekday=reader.at(count[1]).get(Tag.WEEKDAY), shift=-7 * (count[0] - 1)), reader.now)
    return Found(span, count[1] + 2) if span else None


def before_day(reader: Reader, position: int) -> Found | None:
    """Read "the day before yesterday", "two days before yesterday", "the week before last", "the day after Christmas"."""
    start = reader.skip(position, Tag.THE, limit=1)
    read = duration(reader, start)
    if read:
        parts, index = read
    elif reader.has(start, Tag.UNIT):
        parts, index = [Part(1, reader.at(start).get(Tag.UNIT))], reader.skip(start + 1, Tag.OR_SO, limit=1)
    elif (
        reader.has(start, Tag.WEEKDAY)
        and reader.has(start + 1, Tag.BEFORE)
        and reader.at(start + 2).get(Tag.RELATIVE) == -1
    ):
        span = settle(Date(weekday=reader.at(start).get(Tag.WEEKDAY), shift=-7), reader.now)
        return Found(span, start + 3) if span else None
    elif reader.language.before_day_is_day and reader.has(start, Tag.BEFORE):
        parts, index = [Part(1, Unit.DAY)], start
        behind = reader.skip(reader.skip_sign(start + 1, "-"), Tag.OF, limit=1)
        if not reader.has(behind, Tag.DAY) or reader.at(behind).get(Tag.DAY) != -1:
            return None
    else:
        return None
    ahead = reader.has(index, Tag.AFTER) and not reader.has(index, Tag.BEFORE)
    if not (ahead or reader.has(index, Tag.BEFORE)) or parts[0].unit < Unit.DAY:
        return None
    index = reader.skip(reader.skip_sign(index + 1, "-"), Tag.OF, limit=1)
    unit = parts[-1].unit
    if not read and not ahead and reader.at(index).get(Tag.RELATIVE) == -1 and not reader.has(index + 1, *_NAMED):
        return Found(unit_span(reader.now, unit, -2), index + 1)
    if reader.depth <= 2:
        reader.depth += 1
        try:
            result = reader.day(index)
        finally:
            reader.depth -= 1
        if result is not None:
            span = result.node if isinstance(result.node, Span) else settle(result.node, reader.now)
            if span is None or span.start is None or span.start.tzinfo is not None:
                return None
            if not read and unit in (Unit.WEEK, Unit.WEEKEND) and span.grain is Unit.DAY:
                beside = _week_beside if unit is Unit.WEEK else _weekend_beside
                return Found(beside(span.start, ahead=ahead), result.after)
            base = _back(span.start, parts, 1 if ahead else -1)
            if unit is Unit.DAY or len(parts) > 1 or (read and span.grain is Unit.DAY):
                return Found(unit_span(base, Unit.DAY), result.after)
            return Found(unit_span(base, unit), result.after)
    if reader.is_over(index) and not read and not ahead and not reader.has(start, Tag.PLURAL):  # "la semaine d'avant"
        return Found(unit_span(reader.now, unit, -1), index)
    return None


def _week_beside(day: dt.datetime, *, ahead: bool) -> Span:
    """Return the seven days next to *day* and the calendar week next to its own: "the week before Christmas" may mean either."""
    week = unit_span(day, Unit.WEEK, 1 if ahead else -1)
    return Span(shift(day, Unit.DAY, 1), week.end, Unit.WEEK) if ahead else Span(week.start, day, Unit.WEEK)


def _weekend_beside(day: dt.datetime, *, ahead: bool) -> Span:
    """Return the first weekend that begins after *day*, or the last one that ends before it."""
    day += dt.timedelta(days=1 if ahead else -2)
    to_saturday = (5 - day.weekday()) % 7 if ahead else -((day.weekday() - 5) % 7)
    return unit_span(day + dt.timedelta(days=to_saturday), Unit.WEEKEND)


def since(reader: Reader, parts: Duration) -> Span:
    """Return the span from a duration ago until now."""
    unit = min(part.unit for part in parts)
    if unit <= Unit.HOUR:
        now = reader.instant
        return Span(_back(now, parts), now, unit)
    now = reader.now
    return Span(_back(unit_start(now, Unit.DAY), parts), reader.instant, unit)


__all__ = ["MAX_COUNT", "Duration", "Part", "ago", "ago_span", "before_day", "duration", "since"]
