"""Rules for numeric dates: "2018/08/05", "10.31.1974", "22/Jan/2019", "5/17", and for distinguishing them from versions and sums."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

from infinite_memory.time_expressions.lexicon import Tag
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.spans import FIRST_YEAR, Date

_LAST_DATED_YEAR = 2400  # "05/11/2569" is a date of the Buddhist era


def numeric_date(reader: Reader, position: int) -> Found | None:
    """Read "2018/08/05", "10.31.1974", "22/Jan/2019", "2014-10", "5/17"."""
    first = reader.at(position)
    if first.value is None or _continues_number(reader, position):
        return None
    sign, middle = reader.at(position + 1), reader.at(position + 2)
    separator = sign.folded
    if separator not in ("/", ".", "-"):
        return _spaced_date(reader, position) if reader.lone else None
    glued = sign.glued and middle.glued
    if not glued:
        return _month_and_year(reader, position, separator)
    if middle.value is None and not middle.has(Tag.MONTH):
        return None
    third_sign, third = reader.at(position + 3), reader.at(position + 4)
    if third_sign.glued and third.glued and third.digits and third.value is not None:
        lone_comma = reader.lone and third_sign.folded == "," and separator == "/"
        if third_sign.folded == separator or lone_comma:
            return _three_parts(reader, position, separator)
    if third_sign.folded == separator and third_sign.glued and third.digits and third.glued:
        return None
    if middle.has(Tag.MONTH):
        return _day_and_month_name(reader, position)
    return _two_parts(reader, position, separator)


def _continues_number(reader: Reader, position: int) -> bool:
    """True if digits and punctuation directly precede *position*, as in the "2.3" of "1.2.3"."""
    sign = reader.at(position - 1)
    return (
        reader.at(position).glued
        and sign.glued
        and sign.folded in (".", "/", ",", ":")
        and reader.at(position - 2).digits > 0
    )


def _three_parts(reader: Reader, position: int, separator: str) -> Found | None:
    first, middle, third = reader.at(position), reader.at(position + 2), reader.at(position + 4)
    assert first.value is not None and third.value is not None
    after = position + 5
    if reader.at(after).folded == "t" and reader.at(after).glued:
        after = after + 1 if reader.at(after + 1).digits == 2 else after
    if middle.has(Tag.MONTH):
        year, day = (first.value, third.value) if first.digits == 4 else (third.value, first.value)
        if max(first.digits, third.digits) < 4:
            year = reader.full_year(year)
        return checked(Date(year, middle.get(Tag.MONTH), day), after)
    assert middle.value is not None
    if first.digits == 4 and third.digits <= 2:
        if not FIRST_YEAR <= first.value <= _LAST_DATED_YEAR:
            return None
        return checked(Date(first.value, middle.value, third.value), after)
    if third.digits == 4 and not FIRST_YEAR <= third.value <= _LAST_DATED_YEAR:
        return None  # of another calendar
    if third.digits == 4 or (third.digits == 2 and first.digits <= 2 and _allows_short_year(reader, separator)):
        year = third.value if third.digits == 4 else reader.full_year(third.value)
        dated = _ordered(reader, first.value, middle.value, separator)
        return checked(replace(dated, year=year), after) if dated else None
    return None


def _allows_short_year(reader: Reader, separator: str) -> bool:
    return separator == "/" or reader.lone or (separator == "." and reader.language.dotted_dates)


def _ordered(reader: Reader, first: int, second: int, separator: str = "/") -> Date | None:
    """Order day and month: by size if only one order is possible, else by the language's convention; dotted dates are day first."""
    as_day_first = 1 <= first <= 31 and 1 <= second <= 12
    as_month_first = 1 <= second <= 31 and 1 <= first <= 12
    if not as_day_first and not as_month_first:
        return None
    day_first = as_day_first and not (as_month_first and reader.language.month_first and separator != ".")
    month, day = (second, first) if day_first else (first, second)
    swapped = (day, month) if as_day_first and as_month_first and first != second else None
    return Date(None, month, day, swapped=swapped, day_first=day_first)


def _two_parts(reader: Reader, position: int, separator: str) -> Found | None:
    first, second = reader.at(position), reader.at(position + 2)
    assert first.value is not None and second.value is not None
    after = position + 3
    if first.digits == 4 and second.digits <= 2 and 1 <= second.value <= 12 and 1900 <= first.value <= 2100:
        return Found(Date(first.value, second.value), after, False)
    if second.digits == 4 and first.digits <= 2 and 1 <= first.value <= 12 and 1900 <= second.value <= 2100:
        if separator != "." or reader.language.dotted_dates or reader.lone:
            return Found(Date(second.value, first.value), after, False)
    if first.digits > 2 or second.digits > 2 or separator == "-":
        return None
    if separator == ".":
        if reader.at(after).folded == "." and reader.at(after).glued and not _is_glued_number(reader, after + 1):
            dated = Date(None, second.value, first.value, day_first=True)
            year = reader.year(after + 1) if reader.at(after + 1).digits == 4 else None
            if year:
                return checked(replace(dated, year=year[0]), year[1])  # "27.11. 2015"
            doubtful = reader.is_over(after) and not reader.lone  # "on average 3.7."
            doubtful = doubtful or reader.at(after + 1).digits > 0  # "27.11. 18 Uhr", "of 3.7. 5 are new"
            return checked(dated, after + 1, strong=reader.language.dotted_dates and not doubtful)
        if not reader.language.dotted_dates or second.digits < 2:
            return None
    dated_or_none = _ordered(reader, first.value, second.value, separator)
    if dated_or_none and reader.lone and separator == "/" and reader.has(after, Tag.OF):
        if reader.at(after + 1).digits == 4 and (year := reader.year(after + 1)):
            return checked(replace(dated_or_none, year=year[0]), year[1])  # "08/12 de 2015"
    if dated_or_none is None or _is_share(reader, after):
        return None
    return checked(dated_or_none, after, strong=False)


def _is_glued_number(reader: Reader, position: int) -> bool:
    """True if digits go on at *position*, as in "1.2.3", and not behind a space, as in "27.11. 18:00"."""
    return reader.at(position).digits > 0 and reader.at(position).glued


def _is_share(reader: Reader, position: int) -> bool:
    """True if "3/4" is a share of something: recognises "3/4 of the cases", not "1/2 cup"."""
    return reader.at(position).folded in ("of", "von", "de", "der", "des") and not reader.has(
        position + 1, Tag.RELATIVE
    )


def _day_and_month_name(reader: Reader, position: int) -> Found | None:
    first, month = reader.at(position), reader.at(position + 2).get(Tag.MONTH)
    if first.digits == 4:
        return Found(Date(first.value, month), position + 3)
    return checked(Date(None, month, first.value), position + 3)


def _month_and_year(reader: Reader, position: int, separator: str) -> Found | None:
    """Read "11 - 2016" and "2016 /11", with spaces; only if the whole text is a time."""
    first, second = reader.at(position), reader.at(position + 2)
    if not reader.lone or second.value is None or separator == "." or first.value is None:
        return None
    for year, month in ((first, second), (second, first)):
        if year.digits == 4 and month.digits <= 2 and month.value is not None and 1 <= month.value <= 12:
            return Found(Date(year.value, month.value), position + 3)
    return None


def _spaced_date(reader: Reader, position: int) -> Found | None:
    """Read "20 2 2014" and "2010 01 29"; only if the whole text is a time."""
    first, second, third = (reader.at(position + step) for step in range(3))
    if first.value is None or second.value is None or third.value is None or second.digits > 2 or third.glued:
        return None
    if first.digits == 4 and third.digits <= 2:
        return checked(Date(first.value, second.value, third.value), position + 3)
    if third.digits in (2, 4) and first.digits <= 2:
        year = third.value if third.digits == 4 else reader.full_year(third.value)
        dated = _ordered(reader, first.value, second.value)
        return checked(replace(dated, year=year), position + 3) if dated else None
    return None


def checked(date: Date, after: int, *, strong: bool = True) -> Found | None:
    """Return *date* if the calendar can have such a day; there is no day 0 and no month 0."""
    year, month, day = (
        default if value is None else value for value, default in ((date.year, 2000), (date.month, 1), (date.day, 1))
    )
    try:
        dt.date(year, month, day)
    except ValueError:
        return None
    return Found(date, after, strong)
