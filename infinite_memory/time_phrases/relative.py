"""Rules for time counted from now: "yesterday", "three days ago", "last week", "the past 3 months", "lately".

N days ago is that day. N weeks, months or years ago is the calendar unit that holds that day: nobody who says "two months ago"
means the one day. Last N units are rolling: from the midnight N units back until now.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from infinite_memory.time_phrases.dates import holiday_date, longest, month_and_day, quarter, season
from infinite_memory.time_phrases.reader import Found, Reader
from infinite_memory.time_phrases.spans import Date, Span, add_months, settle, shift, unit_span, unit_start
from infinite_memory.time_phrases.table import Tag, Unit
from infinite_memory.time_phrases.unspaced import marked_date

_MOST_PARTS = 6  # of a duration: years, months, weeks, days, hours, minutes
_MOST_COUNT = 100_000
_SOME = 4  # how many a plural without a number is taken to be, give or take one

Duration = list[tuple[int, Unit, bool]]


def named_day(reader: Reader, place: int) -> Found | None:
    """Read "today", "yesterday"."""
    word = reader.at(place)
    if not word.has(Tag.DAY):
        return None
    return Found(unit_span(reader.now, Unit.DAY, int(word.get(Tag.DAY))), place + 1, not word.has(Tag.WEAK))


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
        if count is None or count[0] > _MOST_COUNT or not reader.has(count[1], Tag.UNIT):
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
        or count[0] > _MOST_COUNT
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


def relative_unit(reader: Reader, place: int) -> Found | None:
    """Read "last week", "this month", "semana pasada", "the last 3 months", "10 previous weeks", "5 años pasados"."""
    start = reader.skip(place, Tag.THE, limit=2)
    back, at = _relative(reader, start)
    if back is None:
        return _unit_then_relative(reader, start)
    if read := duration(reader, at):
        return _rolling(reader, read[0], read[1]) if back <= 0 else None
    what = reader.at(at)
    if what.has(Tag.UNIT):
        unit: Unit = what.get(Tag.UNIT)
        if reader.has(at - 1, Tag.ROLLING) and back == -1 and unit >= Unit.DAY and unit is not Unit.WEEKEND:
            return Found(since(reader, [(1, unit, False)]), at + 1)  # "the past week"
        if found := _weekday_of_unit(reader, unit, back, at + 1):
            return found
        return _one_unit(reader, unit, back, at + 1, weak=what.has(Tag.WEAK))
    if what.has(Tag.WEEKDAY):
        return _relative_weekday(reader, place, back, at)
    if what.has(Tag.MONTH):
        return _relative_month(reader, int(what.get(Tag.MONTH)), back, at + 1)
    return None


def _relative(reader: Reader, place: int) -> tuple[int | None, int]:
    """Read one or more relative words ("this past", "上上"): how far they lead, and the place behind."""
    at, back = place, 0
    while reader.has(at, Tag.RELATIVE) and at - place < 3:
        back += int(reader.at(at).get(Tag.RELATIVE))
        at = reader.skip(at + 1, Tag.OF, limit=1) if reader.language.scriptless else at + 1
    return (back if at > place else None), at


def _unit_then_relative(reader: Reader, place: int) -> Found | None:
    read = duration(reader, place)
    if read and reader.has(read[1], Tag.RELATIVE):
        return _rolling(reader, read[0], read[1] + 1) if int(reader.at(read[1]).get(Tag.RELATIVE)) < 0 else None
    count = reader.count(place)
    if (
        count
        and count[0] <= _MOST_COUNT
        and reader.at(count[1]).get(Tag.RELATIVE) == -1
        and reader.has(count[1] + 1, Tag.UNIT)
    ):
        return _rolling(reader, [(count[0], reader.at(count[1] + 1).get(Tag.UNIT), count[2])], count[1] + 2)
    what = reader.at(place)
    if reader.has(place + 1, Tag.RELATIVE) and not reader.has(place + 2, Tag.UNIT):
        back = int(reader.at(place + 1).get(Tag.RELATIVE))
        if what.has(Tag.UNIT) and not _opens_next(reader, place + 1):
            if found := _weekday_of_unit(reader, what.get(Tag.UNIT), back, place + 2):
                return found
            return _one_unit(reader, what.get(Tag.UNIT), back, place + 2, weak=what.has(Tag.WEAK))
        if what.has(Tag.WEEKDAY) and not _opens_next(reader, place + 1):
            return _relative_weekday(reader, place, back, place, place + 2)
        if what.has(Tag.MONTH) and not _opens_next(reader, place + 1):
            return _relative_month(reader, int(what.get(Tag.MONTH)), back, place + 2)
    return None


def _opens_next(reader: Reader, place: int) -> bool:
    """Tell whether the relative word at *place* belongs to what follows it."""
    return reader.language.code in ("en", "de", "zh", "ja")


def _one_unit(reader: Reader, unit: Unit, back: int, after: int, *, weak: bool) -> Found | None:
    if unit <= Unit.HOUR:
        if back != -1:
            return None
        now = reader.instant
        strong = unit is Unit.HOUR or reader.lone
        return Found(Span(shift(now, unit, -1), now, unit), after, strong)
    if unit is Unit.FORTNIGHT and back < 0:
        return Found(since(reader, [(1, unit, False)]), after)
    if unit is Unit.WEEKEND and back == 0:
        return Found(latest_weekend(reader.now), after)
    return Found(unit_span(reader.now, unit, back), after, not weak or back <= 0)


def latest_weekend(wall: dt.datetime) -> Span:
    """Give the weekend that is, or else the last one: past first."""
    return unit_span(wall, Unit.WEEKEND, 0 if wall.weekday() >= 5 else -1)


def bare_weekend(reader: Reader, place: int) -> Found | None:
    """Read "the weekend"."""
    at = reader.skip(place, Tag.THE, limit=1)
    if reader.at(at).get(Tag.UNIT) is not Unit.WEEKEND:
        return None
    return Found(latest_weekend(reader.now), at + 1, at > place)


def since(reader: Reader, parts: Duration) -> Span:
    """Give the stretch from a duration back until now."""
    unit = min(part[1] for part in parts)
    if unit <= Unit.HOUR:
        now = reader.instant
        return Span(_back(now, parts), now, unit)
    now = reader.now
    return Span(_back(unit_start(now, Unit.DAY), parts), reader.instant, unit)


def _rolling(reader: Reader, parts: Duration, after: int) -> Found | None:
    if any(unit is Unit.WEEKEND for _, unit, _ in parts):
        count = parts[0][0]
        first = unit_span(reader.now, Unit.WEEKEND, -count)
        return Found(Span(first.start, reader.instant, Unit.WEEKEND), after)
    return Found(since(reader, parts), after)


def _weekday_of_unit(reader: Reader, unit: Unit, back: int, after: int) -> Found | None:
    """Read the rest of "last week's Sunday", "previous week - Monday"."""
    if unit is not Unit.WEEK:
        return None
    at = after + 1 if reader.is_dash(after) or reader.has(after, Tag.OF) or reader.at(after).folded == "," else after
    at = reader.skip(at, Tag.ON, limit=1)
    if not reader.has(at, Tag.WEEKDAY) or (at == after and reader.at(at).has(Tag.WEAK)):
        return None
    return Found(weekday_of_week(reader.now, int(reader.at(at).get(Tag.WEEKDAY)), back), at + 1)


def weekday_of_week(now: dt.datetime, weekday: int, back: int) -> Span:
    """Give a weekday of the calendar week that is *back* weeks from this one."""
    day = unit_start(now, Unit.WEEK) + dt.timedelta(days=7 * back + weekday)
    return unit_span(day, Unit.DAY)


def _relative_weekday(reader: Reader, place: int, back: int, at: int, after: int | None = None) -> Found | None:
    del place
    weekday: int = reader.at(at).get(Tag.WEEKDAY)
    after = at + 1 if after is None else after
    day = reader.number(reader.skip(after, Tag.THE, limit=1))
    if day and 1 <= day.value <= 31 and day.digits <= 2 and (day.ordinal or reader.has(after, Tag.WEEKDAY) is False):
        behind = reader.skip(day.after, Tag.OF, limit=1)
        if reader.has(behind, Tag.MONTH):
            return Found(Date(month=reader.at(behind).get(Tag.MONTH), day=day.value), behind + 1)
        if day.ordinal:
            return Found(Date(day=day.value, weekday=weekday), day.after)
    if reader.language.last_weekday_of_last_week and back < 0:
        return Found(weekday_of_week(reader.now, weekday, back), after)
    if back == 0:
        this = weekday_of_week(reader.now, weekday, 0)
        wall = reader.now
        if this.start is not None and this.start <= wall:
            return Found(this, after)
        return Found(Date(weekday=weekday), after)
    if back > 0:
        return Found(weekday_of_week(reader.now, weekday, back), after)
    span = settle(Date(weekday=weekday, shift=7 * (back + 1)), reader.now)
    return Found(span, after) if span else None


def _relative_month(reader: Reader, month: int, back: int, after: int) -> Found | None:
    """ "Last September" is that of the year before, as the suites have it; "this August" the latest that has begun."""
    day = reader.number(after)
    if day and 1 <= day.value <= 31 and day.digits <= 2:
        date = Date(reader.now.year + back if back else None, month, day.value)
        return Found(date, day.after)
    if back == 0:
        return Found(Date(month=month), after)
    return Found(Date(reader.now.year + back, month), after)


def weekday_of_relative_week(reader: Reader, place: int) -> Found | None:
    """Read "Tuesday of last week", "sunday from last week", "lundi cette semaine"."""
    if not reader.has(place, Tag.WEEKDAY):
        return None
    at = reader.skip(reader.skip_sign(place + 1), Tag.OF, Tag.THE, limit=3)
    weekday: int = reader.at(place).get(Tag.WEEKDAY)
    read = duration(reader, at)
    if read and len(read[0]) == 1 and read[0][0][1] is Unit.WEEK and reader.has(read[1], Tag.AGO):
        return Found(weekday_of_week(reader.now, weekday, -read[0][0][0]), read[1] + 1)  # "Thursday two weeks ago"
    back, unit_at = _relative(reader, at)
    if back is not None and reader.at(unit_at).get(Tag.UNIT) is Unit.WEEK:
        return Found(weekday_of_week(reader.now, weekday, back), unit_at + 1)
    if reader.at(at).get(Tag.UNIT) is Unit.WEEK:
        back, after = _relative(reader, at + 1)
        if back is not None:
            return Found(weekday_of_week(reader.now, weekday, back), after)
        if reader.has(at + 1, Tag.BEFORE) and reader.at(at + 2).get(Tag.RELATIVE) == -1:
            return Found(weekday_of_week(reader.now, weekday, -2), at + 3)
    return None


def in_relative_year(reader: Reader, place: int) -> Found | None:
    """Read "last year's May", "去年5月", "今年第一季度": a year word, then a date that lacks its year."""
    back, at = _relative(reader, place)
    if back is not None and reader.at(at).get(Tag.UNIT) is Unit.YEAR:
        at += 1
    elif reader.has(place, Tag.YEAR_WORD):
        back, at = int(reader.at(place).get(Tag.YEAR_WORD)), place + 1
    elif back is not None and reader.at(at).get(Tag.UNIT) is Unit.MONTH:
        return _day_of_relative_month(reader, back, at + 1)
    else:
        return None
    at = reader.skip(reader.skip_sign(at), Tag.OF, Tag.THE, limit=2)
    found = longest(reader, at, (marked_date, month_and_day, quarter, season, holiday_date))
    if found is None or not isinstance(found.node, Date) or found.node.year is not None:
        return None
    return Found(replace(found.node, year=reader.now.year + back), found.after)


def _day_of_relative_month(reader: Reader, back: int, place: int) -> Found | None:
    """Read the rest of "上个月5号"."""
    day = reader.number(reader.skip(place, Tag.OF, limit=1))
    if day is None or day.ordinal or not 1 <= day.value <= 31 or not reader.has(day.after, Tag.DAY_MARK):
        return None
    month = unit_span(reader.now, Unit.MONTH, back).start
    return Found(Date(month.year, month.month, day.value), day.after + 1) if month else None


def year_word(reader: Reader, place: int) -> Found | None:
    """Read "一昨年", "前年"."""
    word = reader.at(place)
    if not word.has(Tag.YEAR_WORD):
        return None
    return Found(unit_span(reader.now, Unit.YEAR, int(word.get(Tag.YEAR_WORD))), place + 1)


def earlier(reader: Reader, place: int) -> Found | None:
    """Read "earlier today", "earlier this week": from the start of the unit until now."""
    if not reader.has(place, Tag.EARLIER):
        return None
    found = named_day(reader, place + 1) or relative_unit(reader, place + 1)
    if (
        found is None
        or not isinstance(found.node, Span)
        or found.node.start is None
        or found.node.start.tzinfo is not None
    ):
        return None
    wall = reader.now
    end = reader.instant if found.node.end is not None and found.node.end > wall else found.node.end
    return Found(Span(found.node.start, end, found.node.grain), found.after)


def feeling(reader: Reader, place: int) -> Found | None:
    """Read words without edges: "recently", "the other day". What each means is in `feeling_span`."""
    opened = reader.has(place, Tag.AGO_OPENS) and reader.has(place + 1, Tag.FEELING)
    place = place + 1 if opened else place
    word = reader.at(place)
    if not word.has(Tag.FEELING) or (word.has(Tag.WEAK) and not opened):
        return None  # "un moment" is a time only in "il y a un moment"
    span = feeling_span(word.get(Tag.FEELING), reader.now, reader.instant)
    return Found(span, place + 1) if span else None


def feeling_span(key: str, wall: dt.datetime, instant: dt.datetime) -> Span | None:
    """Give the stretch that a vague word is taken to mean: rather too wide than too narrow, for ranking follows."""
    today = unit_start(wall, Unit.DAY)
    week = dt.timedelta(days=7)
    if key == "just_now":
        return Span(instant - dt.timedelta(hours=1), instant, Unit.HOUR)
    if key == "so_far_today":
        return Span(today, instant, Unit.DAY)
    if key == "holidays":
        return _holidays(today)
    ends: dict[str, tuple[dt.datetime, dt.datetime]] = {
        "recently": (today - 2 * week, instant),
        "lately": (add_months(today, -1), instant),
        "recent_months": (add_months(today, -6), instant),
        "recent_years": (add_months(today, -60), instant),
        "other_day": (today - week, today),
        "other_week": (unit_start(today, Unit.WEEK) - 4 * week, unit_start(today, Unit.WEEK)),
        "other_night": (today - week, today + dt.timedelta(hours=6)),
        "while_ago": (add_months(today, -12), today - 2 * week),
        "long_ago": (add_months(today, -120), add_months(today, -12)),
    }
    return Span(*ends[key], Unit.DAY) if key in ends else None


def _holidays(today: dt.datetime) -> Span:
    """Give the days around the turn of the year, 20 December to 6 January inclusive, the latest that have begun."""
    year = today.year if (today.month, today.day) >= (12, 20) else today.year - 1
    return Span(dt.datetime(year, 12, 20), dt.datetime(year + 1, 1, 7), Unit.DAY)


def unit_to_date(reader: Reader, place: int) -> Found | None:
    """Read "year to date"."""
    unit = reader.at(place).get(Tag.UNIT)
    if unit not in (Unit.WEEK, Unit.MONTH, Unit.QUARTER, Unit.YEAR) or not reader.has(place + 1, Tag.TO):
        return None
    if not reader.has(place + 2, Tag.NOW) or reader.has(place + 2, Tag.DAY):
        return None
    return Found(Span(unit_span(reader.now, unit).start, reader.instant, unit), place + 3)


RELATIVE_RULES = (
    year_word,
    unit_to_date,
    named_day,
    ago,
    before_day,
    relative_unit,
    bare_weekend,
    weekday_of_relative_week,
    in_relative_year,
    earlier,
    feeling,
)
