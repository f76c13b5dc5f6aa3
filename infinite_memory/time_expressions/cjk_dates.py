"""Dates in scripts without spaces, with a unit character after each number: "2018年10月1日", "31日の日曜日"."""

from __future__ import annotations

from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Number, Reader
from infinite_memory.time_expressions.spans import FIRST_YEAR, LAST_YEAR, Date

_HALVES = {"上": 1, "下": 7}  # their first months
_HALVES_OF = {**_HALVES, "前": 1, "后": 7, "後": 7}
_LUNAR = ("农历", "農曆", "农曆", "阴历", "陰曆", "旧历", "舊曆", "旧暦", "陰暦")
_SHORT_YEAR = 2  # digits: "07年" and "零八年" are years, "3年" is a duration


def marked_date(reader: Reader, position: int) -> Found | None:
    """Read a year, month, day and weekday, each with its character; a day alone needs support."""
    if not reader.language.scriptless or _is_lunar(reader, position):
        return None
    index, year = _year(reader, position)
    month = day = None
    if pair := _two_months(reader, index):
        return Found(Date(year, pair[0], months=2), pair[1])
    if (number := _marked(reader, index, Tag.MONTH_MARK)) and 1 <= number.value <= 12:
        month, index = number.value, reader.skip(number.after + 1, Tag.OF, limit=1)
    elif reader.has(index, Tag.MONTH) and not reader.has(index, Tag.WEEKDAY):
        month, index = int(reader.at(index).get(Tag.MONTH)), index + 1
    if year is None or month is not None:
        if (number := _marked(reader, index, Tag.DAY_MARK)) and 1 <= number.value <= 31:
            day, index = number.value, number.after + 1
        elif (
            month is not None
            and (number := reader.number(index))
            and not number.ordinal
            and 1 <= number.value <= 31
            and number.digits <= 2
        ):
            if (
                not reader.has(number.after, Tag.UNIT, Tag.HOUR_MARK, Tag.MONTH_MARK, Tag.YEAR_MARK)
                and reader.at(index).glued
            ):
                day, index = number.value, number.after
    if year is None and month is None and day is None:
        return None
    weekday = None
    behind = reader.skip(reader.skip_sign(index), Tag.OF, limit=1)
    if day is not None and reader.has(behind, Tag.WEEKDAY):
        weekday, index = int(reader.at(behind).get(Tag.WEEKDAY)), behind + 1
    if month is not None and day is None and reader.has(index - 1, Tag.OF):
        index -= 1
    if month is not None:
        weekday = None
    strong = year is not None or month is not None or weekday is not None
    return Found(Date(year, month, day, weekday), index, strong)


def _is_lunar(reader: Reader, position: int) -> bool:
    """True if the words before a date say that it is one of the lunar calendar: "农历八月十六"."""
    before = reader.at(position - 2).folded + reader.at(position - 1).folded
    return before.endswith(_LUNAR)


def _two_months(reader: Reader, position: int) -> tuple[int, int] | None:
    """Read "七八月", "7、8月", "十一二月": the first of two consecutive months, and the position after them."""
    tens = reader.at(position).get(Tag.SCALE) == 10 and reader.language.code == "zh"
    start = position + 1 if tens else position
    comma = reader.at(start + 1).folded == ","
    if not comma and reader.language.code != "zh":
        return None  # "一二月" is December in Japanese
    end = start + 2 if comma else start + 1
    first, last = (_small_number(reader, index) for index in (start, end))
    if first is None or last != first + 1 or not reader.has(end + 1, Tag.MONTH_MARK):
        return None
    day = reader.number(end + 2)
    if not comma and day and reader.has(day.after, Tag.DAY_MARK):
        return None  # "一二月八日" names one day
    first += 10 if tens else 0
    return (first, end + 2) if first < 12 else None


def _small_number(reader: Reader, position: int) -> int | None:
    """Return one digit or numeral; with a comma beside it also "11"."""
    lexeme = reader.at(position)
    value = lexeme.value if lexeme.digits else lexeme.get(Tag.NUMBER)
    return int(value) if value is not None and 1 <= value <= 12 else None


def half_of_year(reader: Reader, position: int) -> Found | None:
    """Read "上半年", "下半年", "上半期": a half of the year, not half a year relative to now."""
    month = _HALVES.get(reader.at(position).folded) if reader.language.scriptless else None
    if month is None or reader.at(position + 1).get(Tag.UNIT) is not Unit.HALF_YEAR:
        return None
    return Found(Date(month=month, months=6), position + 2)


def half_behind_year(reader: Reader, position: int) -> Found | None:
    """Read the half after a year, where "前半年" and "后半年" are also halves of it."""
    month = _HALVES_OF.get(reader.at(position).folded) if reader.language.scriptless else None
    if month is None or reader.at(position + 1).get(Tag.UNIT) is not Unit.HALF_YEAR:
        return None
    return Found(Date(month=month, months=6), position + 2)


def _year(reader: Reader, position: int) -> tuple[int, int | None]:
    """Read the year and its character, if any: the position after it and the year."""
    era = reader.at(position).get(Tag.ERA)
    start = position + 1 if era is not None else position
    if era is not None and reader.at(start).folded == "元" and reader.has(start + 1, Tag.YEAR_MARK):
        after = reader.skip(start + 2, Tag.OF, limit=1)  # "令和元年" is the first
        return after if _goes_on(reader, after) else start + 2, int(era) + 1
    number = reader.number(start)
    if number is None or number.ordinal or not reader.has(number.after, Tag.YEAR_MARK):
        return position, None
    after = reader.skip(number.after + 1, Tag.OF, limit=1)
    if not _goes_on(reader, after):
        after = number.after + 1
    if era is not None:
        return after, int(era) + number.value
    if number.digits == 4 or (number.digits == 0 and number.value >= 1000):
        return (after, number.value) if FIRST_YEAR <= number.value <= LAST_YEAR else (position, None)
    return (after, reader.full_year(number.value)) if number.digits == _SHORT_YEAR else (position, None)


def _goes_on(reader: Reader, position: int) -> bool:
    number = reader.number(position)
    return reader.has(position, Tag.MONTH) or (number is not None and reader.has(number.after, Tag.MONTH_MARK))


def _marked(reader: Reader, position: int, mark: Tag) -> Number | None:
    number = reader.number(position)
    if number is None or number.ordinal or number.digits > 2 or not reader.has(number.after, mark):
        return None
    return number
