"""Rules for times relative to now: "yesterday", "last week", "the past 3 months", "Tuesday of last week".

"Last week" is a calendar week; "the last N" units are rolling: from the midnight N units ago until now.
"""

from __future__ import annotations

from dataclasses import replace

from infinite_memory.time_expressions.amounts import MAX_COUNT, Duration, Part, duration, fraction_behind
from infinite_memory.time_expressions.approximations import some_more_ago, with_more
from infinite_memory.time_expressions.cjk_dates import half_behind_year, marked_date
from infinite_memory.time_expressions.dates import day_and_month, longest, month_and_day
from infinite_memory.time_expressions.durations import ago, before_day, since
from infinite_memory.time_expressions.edges import edge_span
from infinite_memory.time_expressions.fiscal import fiscal_year
from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.periods import holiday_date, quarter, season
from infinite_memory.time_expressions.same_time import same_time
from infinite_memory.time_expressions.several import several, years_of
from infinite_memory.time_expressions.spans import Date, Span, latest_weekend, settle, shift, unit_span, weekday_of_week
from infinite_memory.time_expressions.vague import feeling, feeling_span


def named_day(reader: Reader, position: int) -> Found | None:
    """Read "today", "yesterday"."""
    word = reader.at(position)
    if not word.has(Tag.DAY) or (word.has(Tag.WEAK) and not word.get(Tag.DAY) and not reader.lone):
        return None  # "その日" and "当天" are today only if nothing else is said
    return Found(unit_span(reader.now, Unit.DAY, int(word.get(Tag.DAY))), position + 1, not word.has(Tag.WEAK))


def relative_unit(reader: Reader, position: int) -> Found | None:
    """Read "last week", "this month", "semana pasada", "the last 3 months", "10 previous weeks", "5 años pasados"."""
    start = reader.skip(position, Tag.THE, limit=2)
    offset, index = _relative(reader, start)
    if offset is None:
        return _unit_then_relative(reader, start)
    count = reader.count(index)
    backward = -1 if offset == 0 and reader.language.scriptless else offset  # "最近两个夏天"
    if count and (many := several(reader, count[0], backward, count[1])):
        return many
    if read := duration(reader, index):
        read = with_more(reader, read)
        if backward < 0 and (many := years_of(reader, read)):
            return many
        return _rolling(reader, read[0], read[1]) if offset <= 0 else None
    word = reader.at(index)
    if word.has(Tag.UNIT):
        unit: Unit = word.get(Tag.UNIT)
        if offset == -1 and (behind := fraction_behind(reader, unit, index + 1)):
            return _rolling(reader, [Part(1, unit), behind[0]], behind[1])  # "the past hour and a half"
        if result := _weekday_of_unit(reader, unit, offset, index + 1) or _uncounted(
            reader, index, index - 1, index + 1
        ):
            return result
        if reader.has(index - 1, Tag.ROLLING) and offset == -1 and unit >= Unit.DAY and unit is not Unit.WEEKEND:
            return Found(since(reader, [Part(1, unit)]), index + 1)  # "the past week"
        return _one_unit(reader, unit, offset, index + 1, weak=word.has(Tag.WEAK))
    if word.has(Tag.WEEKDAY):
        return _relative_weekday(reader, position, offset, index)
    if word.has(Tag.MONTH):
        return _relative_month(reader, int(word.get(Tag.MONTH)), offset, index + 1)
    return None


def _relative(reader: Reader, position: int) -> tuple[int | None, int]:
    """Read one or more relative words ("this past", "上上"): their offset, and the position after them."""
    index, offset = position, 0
    while reader.has(index, Tag.RELATIVE) and index - position < 3:
        offset += int(reader.at(index).get(Tag.RELATIVE))
        index = reader.skip(index + 1, Tag.OF, limit=1) if reader.language.scriptless else index + 1
    return (offset if index > position else None), index


def _unit_then_relative(reader: Reader, position: int) -> Found | None:
    read = duration(reader, position)
    if read and reader.has(read[1], Tag.RELATIVE):
        return _rolling(reader, read[0], read[1] + 1) if int(reader.at(read[1]).get(Tag.RELATIVE)) < 0 else None
    count = reader.count(position)
    if (
        count
        and count[0] <= MAX_COUNT
        and reader.at(count[1]).get(Tag.RELATIVE) == -1
        and reader.has(count[1] + 1, Tag.UNIT)
    ):
        return _rolling(reader, [Part(count[0], reader.at(count[1] + 1).get(Tag.UNIT), count[2])], count[1] + 2)
    if count and reader.at(count[1]).get(Tag.RELATIVE) == -1 and (many := several(reader, count[0], -1, count[1] + 1)):
        return many
    word = reader.at(position)
    if reader.has(position + 1, Tag.RELATIVE) and not reader.has(position + 2, Tag.UNIT):
        offset = int(reader.at(position + 1).get(Tag.RELATIVE))
        if word.has(Tag.UNIT) and not _opens_next(reader, position + 1):
            if result := _weekday_of_unit(reader, word.get(Tag.UNIT), offset, position + 2) or _uncounted(
                reader, position, position + 1, position + 2
            ):
                return result
            return _one_unit(reader, word.get(Tag.UNIT), offset, position + 2, weak=word.has(Tag.WEAK))
        if word.has(Tag.WEEKDAY) and not _opens_next(reader, position + 1):
            return _relative_weekday(reader, position, offset, position, position + 2)
        if word.has(Tag.MONTH) and not _opens_next(reader, position + 1):
            return _relative_month(reader, int(word.get(Tag.MONTH)), offset, position + 2)
    return None


def _opens_next(reader: Reader, position: int) -> bool:
    """True if the relative word at *position* belongs to what follows it."""
    return reader.language.code in ("en", "de", "zh", "ja")


_LATELY = {Unit.DAY: "recently", Unit.WEEK: "lately", Unit.MONTH: "recent_months", Unit.YEAR: "recent_years"}
_SOME_HOURS = 4


def _uncounted(reader: Reader, unit_at: int, relative_at: int, after: int) -> Found | None:
    """Read "in den letzten Wochen", "ces derniers mois", "en estos días": a plural without a number."""
    word, unit = reader.at(unit_at), reader.at(unit_at).get(Tag.UNIT)
    relative = reader.at(relative_at)
    is_plural = word.get(Tag.PLURAL) == (Tag.UNIT, unit) or relative.get(Tag.PLURAL) == (Tag.RELATIVE, -1)
    if not is_plural or relative.get(Tag.RELATIVE) not in (-1, 0):
        return None
    if reader.language.code == "en" and not relative.has(Tag.ROLLING):
        if not reader.has(relative_at - 1, Tag.THE, Tag.RELATIVE):
            return None  # "last weeks meeting" lacks its apostrophe
    if unit is Unit.HOUR:
        return Found(since(reader, [Part(_SOME_HOURS, unit)]), after)
    span = feeling_span(_LATELY[unit], reader.now, reader.instant) if unit in _LATELY else None
    return Found(span, after) if span else None


def _one_unit(reader: Reader, unit: Unit, back: int, after: int, *, weak: bool) -> Found | None:
    if unit <= Unit.HOUR:
        if back != -1:
            return None
        now = reader.instant
        strong = unit is Unit.HOUR or reader.lone
        return Found(Span(shift(now, unit, -1), now, unit), after, strong)
    if unit is Unit.FORTNIGHT and back < 0:
        return Found(since(reader, [Part(1, unit)]), after)
    if unit is Unit.WEEKEND and back == 0:
        return Found(latest_weekend(reader.now), after)
    return Found(unit_span(reader.now, unit, back), after, not weak or back <= 0)


def bare_weekend(reader: Reader, position: int) -> Found | None:
    """Read "the weekend"."""
    index = reader.skip(position, Tag.THE, limit=1)
    if reader.at(index).get(Tag.UNIT) is not Unit.WEEKEND:
        return None
    return Found(latest_weekend(reader.now), index + 1, index > position)


def _rolling(reader: Reader, parts: Duration, after: int) -> Found | None:
    if any(part.unit is Unit.WEEKEND for part in parts):
        count = parts[0].count
        first = unit_span(reader.now, Unit.WEEKEND, -count)
        return Found(Span(first.start, reader.instant, Unit.WEEKEND), after)
    return Found(since(reader, parts), after)


def _weekday_of_unit(reader: Reader, unit: Unit, back: int, after: int) -> Found | None:
    """Read the rest of "last week's Sunday", "previous week - Monday"."""
    if unit is not Unit.WEEK:
        return None
    index = after + 1 if reader.is_dash(after) or reader.has(after, Tag.OF) or reader.at(after).folded == "," else after
    index = reader.skip(index, Tag.ON, limit=1)
    if not reader.has(index, Tag.WEEKDAY) or (index == after and reader.at(index).has(Tag.WEAK)):
        return None
    return Found(weekday_of_week(reader.now, int(reader.at(index).get(Tag.WEEKDAY)), back), index + 1)


def _relative_weekday(reader: Reader, position: int, back: int, index: int, after: int | None = None) -> Found | None:
    del position
    weekday: int = reader.at(index).get(Tag.WEEKDAY)
    after = index + 1 if after is None else after
    numbered = reader.skip(after, Tag.THE, limit=1)
    day = None if reader.has(numbered, Tag.WEEKDAY) else reader.number(numbered)
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
    """Return a relative month: "last September" is in the previous year, as in the suites; "this August" is the latest that has begun."""
    day = reader.number(after)
    if day and 1 <= day.value <= 31 and day.digits <= 2:
        date = Date(reader.now.year + back if back else None, month, day.value)
        return Found(date, day.after)
    if back == 0:
        return Found(Date(month=month), after)
    return Found(Date(reader.now.year + back, month), after)


def weekday_of_relative_week(reader: Reader, position: int) -> Found | None:
    """Read "Tuesday of last week", "sunday from last week", "lundi cette semaine"."""
    if not reader.has(position, Tag.WEEKDAY):
        return None
    index = reader.skip(reader.skip_sign(position + 1), Tag.OF, Tag.THE, limit=3)
    weekday: int = reader.at(position).get(Tag.WEEKDAY)
    read = duration(reader, index)
    if read and len(read[0]) == 1 and read[0][0].unit is Unit.WEEK and reader.has(read[1], Tag.AGO):
        return Found(weekday_of_week(reader.now, weekday, -read[0][0].count), read[1] + 1)  # "Thursday two weeks ago"
    offset, unit_at = _relative(reader, index)
    if offset is not None and reader.at(unit_at).get(Tag.UNIT) is Unit.WEEK:
        return Found(weekday_of_week(reader.now, weekday, offset), unit_at + 1)
    if reader.at(index).get(Tag.UNIT) is Unit.WEEK:
        offset, after = _relative(reader, index + 1)
        if offset is not None:
            return Found(weekday_of_week(reader.now, weekday, offset), after)
        if reader.has(index + 1, Tag.BEFORE) and reader.at(index + 2).get(Tag.RELATIVE) == -1:
            return Found(weekday_of_week(reader.now, weekday, -2), index + 3)
    return None


def in_relative_year(reader: Reader, position: int) -> Found | None:
    """Read "last year's May", "去年5月", "今年第一季度": a word for a year, then a date without a year."""
    offset, index = _relative(reader, position)
    if offset is not None and reader.at(index).get(Tag.UNIT) is Unit.YEAR:
        index += 1
    elif reader.has(position, Tag.YEAR_WORD):
        offset, index = int(reader.at(position).get(Tag.YEAR_WORD)), position + 1
    elif offset is not None and reader.at(index).get(Tag.UNIT) is Unit.MONTH:
        return _day_of_relative_month(reader, offset, index + 1)
    else:
        return None
    index = reader.skip(reader.skip_sign(index), Tag.OF, Tag.THE, limit=2)
    result = longest(reader, index, (half_behind_year, marked_date, month_and_day, quarter, season, holiday_date))
    if result is None or not isinstance(result.node, Date) or result.node.year is not None:
        return None
    return Found(replace(result.node, year=reader.now.year + offset), result.after)


_DATED = (marked_date, day_and_month, month_and_day, quarter, season, holiday_date)


def in_year_ago(reader: Reader, position: int) -> Found | None:
    """Read "March two years ago", "vor zwei Jahren im März", "两年前的三月": a date without a year, and years ago."""
    years = _years_ago(reader, position)
    if years is None:
        result = longest(reader, position, _DATED)
        years = _years_ago(reader, reader.skip(reader.skip_sign(result.after), Tag.OF, limit=1)) if result else None
        after = years[1] if years else position
    else:
        index = reader.skip(reader.skip_sign(years[1]), Tag.IN, Tag.ON, Tag.OF, Tag.THE, limit=2)
        result = longest(reader, index, _DATED)
        after = result.after if result else position
    if years is None or result is None or not isinstance(result.node, Date) or result.node.year is not None:
        return None
    named = result.node.month is not None or result.node.holiday is not None
    return Found(replace(result.node, year=years[0]), after) if named else None


def _years_ago(reader: Reader, position: int) -> tuple[int, int] | None:
    """Read "two years ago": the calendar year and the position after it."""
    read = ago(reader, position)
    span = read.node if read else None
    if read is None or not isinstance(span, Span) or span.start is None or span.grain is not Unit.YEAR:
        return None
    is_year = (span.start.month, span.start.day) == (1, 1) and span.end == shift(span.start, Unit.YEAR, 1)
    return (span.start.year, read.after) if is_year else None


_UNITS_OF_EDGES = {"月": Unit.MONTH, "年": Unit.YEAR}


def edge_of_unit(reader: Reader, position: int) -> Found | None:
    """Read "上个月底", "先月末", "本月初": the unit is the first character of the word for the edge."""
    offset, index = _relative(reader, position)
    word = reader.at(index)
    unit = _UNITS_OF_EDGES.get(word.folded[:1]) if reader.language.scriptless and len(word.folded) > 1 else None
    if unit is None or not word.has(Tag.EDGE):
        return None
    cut = edge_span(unit_span(reader.now, unit, offset or 0), word.get(Tag.EDGE))
    return Found(cut, index + 1, offset is not None) if cut else None


def _day_of_relative_month(reader: Reader, back: int, position: int) -> Found | None:
    """Read the rest of "上个月5号"."""
    day = reader.number(reader.skip(position, Tag.OF, limit=1))
    if day is None or day.ordinal or not 1 <= day.value <= 31 or not reader.has(day.after, Tag.DAY_MARK):
        return None
    month = unit_span(reader.now, Unit.MONTH, back).start
    return Found(Date(month.year, month.month, day.value), day.after + 1) if month else None


def year_word(reader: Reader, position: int) -> Found | None:
    """Read "一昨年", "前年"."""
    word = reader.at(position)
    if not word.has(Tag.YEAR_WORD):
        return None
    return Found(unit_span(reader.now, Unit.YEAR, int(word.get(Tag.YEAR_WORD))), position + 1)


def earlier(reader: Reader, position: int) -> Found | None:
    """Read "earlier today", "earlier this week": from the start of the unit until now."""
    if not reader.has(position, Tag.EARLIER):
        return None
    result = named_day(reader, position + 1) or relative_unit(reader, position + 1)
    if (
        result is None
        or not isinstance(result.node, Span)
        or result.node.start is None
        or result.node.start.tzinfo is not None
    ):
        return None
    wall = reader.now
    end = reader.instant if result.node.end is not None and result.node.end > wall else result.node.end
    return Found(Span(result.node.start, end, result.node.grain), result.after)


def unit_to_date(reader: Reader, position: int) -> Found | None:
    """Read "year to date"."""
    unit = reader.at(position).get(Tag.UNIT)
    if unit not in (Unit.WEEK, Unit.MONTH, Unit.QUARTER, Unit.YEAR) or not reader.has(position + 1, Tag.TO):
        return None
    if not reader.has(position + 2, Tag.NOW) or reader.has(position + 2, Tag.DAY):
        return None
    return Found(Span(unit_span(reader.now, unit).start, reader.instant, unit), position + 3)


RELATIVE_RULES = (
    fiscal_year,
    same_time,
    in_relative_year,
    in_year_ago,
    edge_of_unit,
    year_word,
    unit_to_date,
    named_day,
    some_more_ago,
    ago,
    before_day,
    relative_unit,
    bare_weekend,
    weekday_of_relative_week,
    earlier,
    feeling,
)
