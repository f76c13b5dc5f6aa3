"""Rules for clock times: "3pm", "8 Uhr 30", "between 1PM and 4 PM"; `clock_days` uses them to narrow a day."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, replace

from infinite_memory.time_expressions.clock_zones import zone_behind
from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Reader
from infinite_memory.time_expressions.spans import Span, unit_span

_MINUTES_BEHIND = ("fr", "es", "pt")  # languages
_HOUR_FIRST = frozenset({"menos", "moins"})
LATE_PARTS = ("afternoon", "evening", "night")
_LAST_HOUR = 30  # Japanese counts the small hours on from 24


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock time. ``minute`` None: only the hour was given. ``half`` says whether am or pm (or 24 hours) is known.

    ``zone`` is the time zone given with it, None for the reader's wall time.
    """

    hour: int
    minute: int | None
    half: bool
    plain: bool
    after: int
    zone: dt.tzinfo | None = None

    @property
    def offset(self) -> dt.timedelta:
        """The time since midnight, in wall time."""
        return dt.timedelta(hours=self.hour, minutes=self.minute or 0)

    @property
    def width(self) -> dt.timedelta:
        """One hour if only the hour was given, one minute otherwise."""
        return dt.timedelta(hours=1) if self.minute is None else dt.timedelta(minutes=1)


def clock(reader: Reader, position: int, *, plain: bool = False) -> Clock | None:
    """Read a clock time at *position*; *plain* allows a bare number."""
    part, index = _part_before(reader, position)
    read = (
        _named(reader, index)
        or _digits(reader, index)
        or (_short_of(reader, index) if reader.language.scriptless else _past(reader, index))
        or _hour(reader, index, plain=plain or part is not None)
    )
    if read is None:
        return None
    read = _with_half(reader, _with_minutes(reader, read), part)
    zoned = None if read.plain else zone_behind(reader, read.after)
    return replace(read, zone=zoned[0], half=read.half or zoned[0] is dt.UTC, after=zoned[1]) if zoned else read


def _part_before(reader: Reader, position: int) -> tuple[str | int | None, int]:
    """Read a part of the day or a.m./p.m. before the hour ("午後8時", "晚上六点")."""
    if not reader.language.scriptless:
        return None, position
    index, part = position, None
    while reader.has(index, Tag.PART, Tag.MERIDIEM, Tag.DAY_PART) and index - position < 3:
        word = reader.at(index)
        if word.has(Tag.DAY_PART):
            break
        part = word.get(Tag.MERIDIEM) if word.has(Tag.MERIDIEM) else word.get(Tag.PART)
        index = reader.skip(reader.skip_sign(index + 1), Tag.OF, limit=1)
    return (part, index) if index > position else (None, position)


def _named(reader: Reader, position: int) -> Clock | None:
    word = reader.at(position)
    if not word.has(Tag.CLOCK):
        return None
    hour, minute = word.get(Tag.CLOCK)
    return Clock(hour, minute or None, True, False, position + 1)


def _digits(reader: Reader, position: int) -> Clock | None:
    """Read "15:30", "11.00am", "8h10"."""
    hour, sign, minute = reader.at(position), reader.at(position + 1), reader.at(position + 2)
    if hour.value is None or hour.digits > 2 or not sign.glued:
        return None
    if minute.value is None or minute.digits != 2 or not minute.glued or minute.value > 59:
        return None
    if hour.value > _last_hour(reader) or (hour.value == 24 and minute.value and not reader.language.scriptless):
        return None
    after = position + 3
    if sign.folded == ":":
        if reader.at(after).folded == ":" and reader.at(after + 1).digits == 2:
            after = _skip_fraction(reader, after + 2)
        after = reader.skip(after, Tag.HOUR_MARK, limit=1)  # "8:10 Uhr"
        return Clock(hour.value, minute.value, hour.value > 12 or hour.value == 0, False, after)
    if sign.folded == "." and reader.has(after, Tag.MERIDIEM, Tag.HOUR_MARK):
        after = after + 1 if reader.has(after, Tag.HOUR_MARK) else after
        return Clock(hour.value, minute.value, hour.value > 12, False, after)
    if sign.has(Tag.HOUR_MARK):
        marked = reader.at(after).get(Tag.UNIT) is Unit.MINUTE
        return _minutes_behind(reader, hour.value, minute.value, after + 1 if marked else after, half=True)
    return None


def _skip_fraction(reader: Reader, position: int) -> int:
    """Skip the fraction of a second: the ".123" of "10:00:00.123"."""
    point, digits = reader.at(position), reader.at(position + 1)
    return position + 2 if point.folded in (".", ",") and point.glued and digits.digits and digits.glued else position


def _past(reader: Reader, position: int) -> Clock | None:
    """Read "20 min past eight", "half past three", "quarter to five", "zehn vor acht", "halb fünf", "fünf nach halb neun"."""
    index = reader.skip(position, Tag.THE, limit=1)
    german = reader.language.code == "de"
    minute, index, sure = _minutes_before_hour(reader, index)
    if minute is None:
        return None
    if german and reader.has(position, Tag.HALF):
        return _at_dial(reader, index, -30)
    sign = 1 if reader.has(index, Tag.PAST_HOUR) else -1 if reader.has(index, Tag.TO_HOUR) else 0
    if sign < 0 and reader.at(index).folded in _HOUR_FIRST:
        return None  # "las cinco menos diez" is ten to five
    if not sign or (not sure and (sign < 0 or german) and not _is_said_as_time(reader, position, minute)):
        return None
    if german and reader.has(index + 1, Tag.HALF):
        return _at_dial(reader, index + 2, sign * minute - 30)
    return _at_dial(reader, index + 1, sign * minute)


def _short_of(reader: Reader, position: int) -> Clock | None:
    """Read "差一刻五点", "差五分钟八点": minutes before the following hour."""
    minutes = _counted_minutes(reader, position + 1) if reader.has(position, Tag.TO_HOUR) else None
    hour = reader.number(minutes[1]) if minutes else None
    if minutes is None or hour is None or hour.ordinal or hour.value > 24 or not reader.has(hour.after, Tag.HOUR_MARK):
        return None
    return _moved(Clock(hour.value, 0, hour.value > 12, False, hour.after + 1), -minutes[0])


def _counted_minutes(reader: Reader, position: int) -> tuple[int, int] | None:
    """Read "一刻", "三刻钟", "五分", "10分钟": the minutes and the position after it."""
    number = reader.number(position)
    if number is None or number.ordinal or not 0 < number.value < 60:
        return None
    if reader.has(number.after, Tag.QUARTER_OF):
        return (number.value * 15, number.after + 1) if number.value < 4 else None
    return (number.value, number.after + 1) if reader.at(number.after).get(Tag.UNIT) is Unit.MINUTE else None


def _minutes_before_hour(reader: Reader, index: int) -> tuple[int | None, int, bool]:
    """Read "half", "quarter", "20 min", "ten": the minutes, the position after them, and whether they are unambiguous."""
    if reader.has(index, Tag.HALF):
        return 30, index + 1, True
    if reader.at(index).get(Tag.UNIT) is Unit.QUARTER or reader.has(index, Tag.QUARTER_OF):
        return 15, index + 1, True
    number = reader.number(index)
    if number is None or number.ordinal or number.value > 59:
        return None, index, False
    marked = reader.at(number.after).get(Tag.UNIT) is Unit.MINUTE
    return number.value, number.after + 1 if marked else number.after, marked


def _is_said_as_time(reader: Reader, position: int, minute: int) -> bool:
    """True for "at ten to eight", not for "five to nine people": minutes before or after an hour are multiples of five."""
    is_range = reader.has(position - 1, Tag.FROM, Tag.BETWEEN) and not reader.has(position - 1, Tag.AT)
    return minute % 5 == 0 and not is_range and (reader.lone or reader.has(position - 1, Tag.AT))


def _at_dial(reader: Reader, position: int, minutes: int) -> Clock | None:
    """Return the time *minutes* from the hour at *position*, on the 12-hour dial."""
    hour = reader.number(position)
    if hour is None or hour.ordinal or not 0 <= hour.value <= 24 or hour.digits > 2 or reader.has(hour.after, Tag.UNIT):
        return None
    after = reader.skip(hour.after, Tag.HOUR_MARK, limit=1)
    return _moved(Clock(hour.value, 0, hour.value > 12, False, after), minutes)


def _moved(clock: Clock, minutes: int) -> Clock:
    """Move a 12-hour time: a quarter to one is 12:45."""
    hour, minute = divmod(clock.hour * 60 + minutes, 60)
    hour = hour + 24 if hour < 0 else 12 if hour == 0 and clock.hour == 1 else hour
    return replace(clock, hour=hour, minute=minute)


def _with_minutes(reader: Reader, clock: Clock) -> Clock:
    """Add the minutes after the hour in Romance languages: "cinq heures moins le quart", "las tres y media", "três e meia"."""
    sign = -1 if reader.has(clock.after, Tag.TO_HOUR) else 1 if reader.has(clock.after, Tag.AND) else 0
    if not sign or clock.minute or reader.language.code not in _MINUTES_BEHIND:
        return clock
    index = reader.skip(clock.after + 1, Tag.THE, limit=1)
    minute, after, _ = _minutes_before_hour(reader, index)
    if minute is None or (sign > 0 and not reader.has(index, Tag.HALF, Tag.QUARTER_OF)):
        return clock
    if reader.has(after, Tag.UNIT):
        return clock  # "menos dos horas"
    return replace(_moved(clock, sign * minute), after=after, plain=False)


def _last_hour(reader: Reader) -> int:
    return _LAST_HOUR if reader.language.scriptless else 24


def _hour(reader: Reader, position: int, *, plain: bool) -> Clock | None:
    """Read "3pm", "one thirty p m", "8 Uhr 30", "8点十五分", and a plain "5" if allowed."""
    number = reader.number(position)
    if number is None or number.ordinal or number.value > _last_hour(reader) or number.digits > 2:
        return None
    index = number.after
    if reader.has(index, Tag.HOUR_MARK):
        return _after_hour_mark(reader, number.value, index + 1)
    minute = reader.number(index)
    if minute and not minute.ordinal and minute.digits in (0, 2) and 0 <= minute.value <= 59:
        if reader.has(minute.after, Tag.MERIDIEM) and (minute.value > 9 or minute.digits == 2):
            return Clock(number.value, minute.value, False, False, minute.after)
    if reader.has(index, Tag.MERIDIEM) and 1 <= number.value <= 12:
        return Clock(number.value, None, False, False, index)
    if plain and not reader.has(index, Tag.UNIT, Tag.MONTH) and number.value <= 24:
        return Clock(number.value, None, number.value > 12, True, index)
    return None


def _after_hour_mark(reader: Reader, hour: int, position: int) -> Clock:
    if reader.has(position, Tag.HALF) and reader.language.scriptless:
        return Clock(hour, 30, hour > 12, False, position + 1)
    if reader.language.scriptless and reader.has(position, Tag.TO_HOUR, Tag.PAST_HOUR):
        if counted := _counted_minutes(reader, position + 1):  # "八点差五分", "三点过一刻"
            sign = -1 if reader.has(position, Tag.TO_HOUR) else 1
            return _moved(Clock(hour, 0, hour > 12, False, counted[1]), sign * counted[0])
    minute = reader.number(position)
    if minute and reader.language.scriptless and reader.has(minute.after, Tag.QUARTER_OF):
        if counted := _counted_minutes(reader, position):  # "五点三刻"
            return Clock(hour, counted[0], hour > 12, False, counted[1])
    if minute and not minute.ordinal and 0 <= minute.value <= 59 and minute.digits <= 2:
        marked = reader.at(minute.after).get(Tag.UNIT) is Unit.MINUTE
        if marked or minute.digits == 2:
            after = minute.after + 1 if marked else minute.after
            return _minutes_behind(reader, hour, minute.value, after, half=hour > 12)
    return Clock(hour, None, hour > 12, False, position)


def _minutes_behind(reader: Reader, hour: int, minute: int, after: int, *, half: bool) -> Clock:
    """Return the hour with the minutes after it: "5時10分", and "5時10分前", which is ten to five."""
    is_before = reader.language.code == "ja" and reader.at(after - 1).get(Tag.UNIT) is Unit.MINUTE
    if is_before and reader.has(after, Tag.AGO):
        return _moved(Clock(hour, 0, half, False, after + 1), -minute)
    return Clock(hour, minute, half, False, after)


def _with_half(reader: Reader, clock: Clock, part: str | int | None) -> Clock:
    """Apply "pm" or "in the evening", before or after it, to the hour."""
    after = clock.after
    if part is None:
        if reader.has(after, Tag.MERIDIEM):
            part, after = int(reader.at(after).get(Tag.MERIDIEM)), after + 1
            if reader.at(after).folded == "." and reader.at(after).glued and not reader.is_over(after):
                after += 1
            index = reader.skip(reader.skip(after, Tag.IN, Tag.OF, limit=1), Tag.THE, limit=1)
            if (reader.has(index, Tag.PART) and not reader.has(index, Tag.WEAK)) or (
                index > after and reader.has(index, Tag.PART)
            ):
                after = index + 1
        else:
            index = reader.skip(reader.skip(after, Tag.IN, Tag.OF, limit=2), Tag.THE, limit=1)
            if reader.has(index, Tag.PART):
                part, after = str(reader.at(index).get(Tag.PART)), index + 1
    if part is None:
        return replace(clock, after=after)
    late = part in LATE_PARTS or part == 12 or (part == "noon" and clock.hour < 6)
    hour = clock.hour
    if late and hour < 12:
        hour += 12
    elif hour == 12 and part in (0, "night", "evening"):
        hour = 0 if part == 0 else 24
    return Clock(hour, clock.minute, True, False, after)


def clock_range(reader: Reader, position: int, *, plain: bool = False) -> tuple[Clock, Clock, int] | None:
    """Read "between 1PM and 4 PM", "from 2:00 to 2:30 pm", "19:00 - 21:00"; *plain*: both may be bare numbers."""
    index = reader.skip(position, Tag.ON, Tag.AT, limit=1)
    opened = reader.has(index, Tag.FROM, Tag.BETWEEN)
    index = reader.skip(index, Tag.FROM, Tag.BETWEEN, limit=2)
    index = reader.skip(index, Tag.THE, Tag.ON, Tag.AT, limit=2)
    first = clock(reader, index, plain=True)
    if first is None:
        return None
    joined = reader.skip(first.after, Tag.UNTIL, Tag.TO, Tag.AND, limit=2)
    joined = first.after + 1 if reader.is_dash(first.after) else joined
    if joined == first.after:
        return None
    last = clock(reader, reader.skip(joined, Tag.THE, Tag.ON, Tag.AT, limit=2), plain=True)
    if last is None or (first.plain and last.plain and not (plain and opened)):
        return None
    if last.plain and last.minute is None and not first.half and not opened:
        return None
    if first.plain and not opened and not reader.lone and not last.half and last.minute is None:
        return None
    return (*_settle_halves(first, last), reader.skip(last.after, Tag.BETWEEN_CLOSES, limit=1))


def _settle_halves(first: Clock, last: Clock) -> tuple[Clock, Clock]:
    """Apply the end's "pm" to the start if that keeps the order: 4 - 6:30 pm is 16:00 to 18:30."""
    if last.half and not first.half and 12 <= last.hour < 24 and first.hour < 12:
        moved = replace(first, hour=first.hour + 12)
        if moved.offset < last.offset:
            first = moved
    elif first.half and not last.half and last.offset <= first.offset:
        last = replace(last, hour=last.hour + 12)
    if last.offset <= first.offset and last.hour < 12:
        last = replace(last, hour=last.hour + (12 if first.hour < 12 and not last.half else 24))
    return first, last


def at_clock(reader: Reader, start: dt.datetime, clock: Clock) -> Span:
    """Return the hour or minute of *clock* on the day that starts at *start*."""
    begin = start + clock.offset
    unit = Unit.HOUR if clock.minute is None else Unit.MINUTE
    return Span(reader.wall(begin, clock.zone), reader.wall(begin + clock.width, clock.zone), unit)


def between_clocks(reader: Reader, start: dt.datetime, first: Clock, last: Clock) -> Span:
    """Return the span from *first* to *last* on the day that starts at *start*; a zone after the last applies to both."""
    begin = reader.wall(start + first.offset, first.zone or last.zone)
    return Span(begin, reader.wall(start + last.offset, last.zone), Unit.HOUR)


def clock_today(reader: Reader, clock: Clock) -> Span:
    """Return a time without a day: today's, or yesterday's if today's is in the future."""
    now = reader.instant.astimezone(clock.zone).replace(tzinfo=None) if clock.zone else reader.now
    today = unit_span(now, Unit.DAY).start
    assert today is not None
    span = at_clock(reader, today, clock)
    assert span.start is not None
    return span if span.start <= reader.now else at_clock(reader, today - dt.timedelta(days=1), clock)
