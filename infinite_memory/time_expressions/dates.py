"""Rules for dates in words: "March 3rd", "the 21st", "Friday the 22nd", "year 2008".

Each rule takes a reader and a position, and returns what it read or None; `longest` picks the best.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.numeric import checked, numeric_date
from infinite_memory.time_expressions.ordinal_endings import ANY_ENDING
from infinite_memory.time_expressions.parser import Found, Number, Reader
from infinite_memory.time_expressions.spans import FIRST_YEAR, LAST_YEAR, Date, unit_span

_OF_YEAR = ("of", "de", "del", "do")  # between a month and its year in two digits
_OF_DAY = ("of", "de", "do", "von", "du")  # between a day and its month, whatever the language of the reader
_ENDINGS = ("st", "nd", "rd", "th")
Rule = Callable[[Reader, int], Found | None]


def longest(reader: Reader, position: int, rules: tuple[Rule, ...]) -> Found | None:
    """Try *rules* at *position*; the longest match wins, the earlier rule on a tie."""
    best: Found | None = None
    for rule in rules:
        result = rule(reader, position)
        if result and (best is None or result.after > best.after):
            best = result
    return best


def month_and_day(reader: Reader, position: int) -> Found | None:
    """Read a month, with its day or year; nothing if it has no such day."""
    result = _month_and_day(reader, position)
    if (
        result
        and isinstance(result.node, Date)
        and result.node.day is None
        and _misses_its_day(reader, position, result.node)
    ):
        return None
    return result


def _month_and_day(reader: Reader, position: int) -> Found | None:
    """Read "March 3rd", "May twenty-fourth, 2010", "2016 november", "June of nineteen ninety nine", "March"."""
    month = reader.at(position)
    if not month.has(Tag.MONTH):
        return None
    number: int = month.get(Tag.MONTH)
    strong = not month.has(Tag.WEAK)
    index = reader.skip_sign(position + 1, ".") if reader.at(position + 1).glued else position + 1
    index = reader.skip_sign(index)
    if year := reader.year(reader.skip(reader.skip(index, Tag.OF, limit=2), Tag.THE, limit=1)):
        return Found(Date(year[0], number), year[1])
    if (
        reader.is_dash(index)
        and reader.at(index).glued
        and reader.at(index + 1).digits == 4
        and (year := reader.year(index + 1))
    ):
        return Found(Date(year[0], number), year[1])
    unit_year = reader.skip(index, Tag.OF, Tag.THE, limit=3)
    if reader.at(unit_year).get(Tag.UNIT) is Unit.YEAR and (year := reader.year(unit_year + 1)):
        return Found(Date(year[0], number), year[1])
    day_at = reader.skip(index, Tag.THE, limit=1)
    day = reader.number(day_at)
    if day and 1 <= day.value <= 31 and day.digits <= 2 and not _counts_something(reader, day.after):
        if not (day.ordinal is False and reader.has(day_at - 1, Tag.THE) and not reader.lone):
            return with_year(reader, Date(None, number, day.value), day.after)
    if day and day.digits == 2 and day.value > 31 and index == position + 1:
        return Found(Date(reader.full_year(day.value), number), day.after, strong or reader.lone)
    if reader.at(index).folded == "'" and (year := reader.year(index)):
        return Found(Date(year[0], number), year[1])
    of_year = reader.number(index + 1) if reader.at(index).folded in _OF_YEAR else None
    if of_year and of_year.digits == 2 and not of_year.ordinal and ends_phrase(reader, of_year.after):
        return Found(Date(reader.full_year(of_year.value), number), of_year.after)  # "April of 87"
    far = reader.number(index)
    if far and far.digits == 4 and 1000 <= far.value < 1900 and ends_phrase(reader, far.after):
        return Found(Date(far.value, number), far.after)
    return Found(Date(None, number), position + 1, strong)


def _misses_its_day(reader: Reader, position: int, date: Date) -> bool:
    """True if the month is preceded by a day that is not parsed here, or that it does not have.

    "5de november" and "31 June" are not the whole month.
    """
    if _has_foreign_ordinal(reader, position):
        return True
    number, ending = reader.at(position + 1), reader.at(position + 2)
    if number.digits and number.mute and ending.glued and ending.folded.isalpha():
        return True  # "April 31st", read in a language that has no "st"
    for distance in range(1, 5):
        day = _foreign_ordinal(reader, position - distance) or reader.number(position - distance)
        if day is None or day.digits > 2:
            continue
        index, is_day = _behind_day(reader, day)
        is_day = is_day or (position == distance and reader.is_over(position + 1))  # "32 January", and nothing else
        if index != position or (not 1 <= day.value <= 31 and not is_day):
            continue  # "issue 45 May 2020"
        if checked(replace(date, day=day.value), position) is None:
            return True
    return False


def _behind_day(reader: Reader, day: Number) -> tuple[int, bool]:
    """Return the position after a number and after optional words before its month; and whether it can only be a day."""
    index, is_day = day.after, bool(day.ordinal) or reader.lone
    if reader.at(index).folded in _OF_DAY:
        index = index + 1
    index = reader.skip(index, Tag.OF, Tag.THE, limit=2)
    return index + 1 if reader.at(index).glued and reader.at(index).folded in ("-", "/", ".") else index, is_day


def _foreign_ordinal(reader: Reader, position: int) -> Number | None:
    """Read the "31st" of "31st of September" in a language that has no "st"."""
    digits, ending = reader.at(position), reader.at(position + 1)
    if not digits.folded.isdecimal() or not ending.glued or ending.folded not in _ENDINGS:
        return None
    return Number(int(digits.folded), position + 2, ordinal=True, digits=len(digits.folded))


def _has_foreign_ordinal(reader: Reader, position: int) -> bool:
    """True if *position* is preceded by an ordinal of another language, as digits with an attached ending: "5de", "5:e"."""
    for size in (1, 2):
        digits, ending = (
            reader.at(position - size - 1),
            [reader.at(position - distance) for distance in range(size, 0, -1)],
        )
        if position > size and digits.folded.isdecimal() and len(digits.folded) <= 2:
            if all(word.glued for word in ending) and "".join(word.folded for word in ending) in ANY_ENDING:
                return True
    return False


def _counts_something(reader: Reader, after: int) -> bool:
    """True if the number before *after* counts units ("may 10 minutes" does; "march 10 miles" is not recognised)."""
    following = reader.at(after)
    return following.has(Tag.UNIT) and not following.has(Tag.WEAK) and following.get(Tag.UNIT) is not Unit.DAY


def with_year(reader: Reader, date: Date, after: int) -> Found | None:
    """Add the year, or the "of this year", that may follow a month and day."""
    index = reader.skip_sign(after)
    index = reader.skip(index, Tag.OF, Tag.THE, limit=2)
    if reader.at(index).get(Tag.UNIT) is Unit.YEAR and reader.year(index + 1):
        index += 1
    comma = index > after and not reader.has(after, Tag.OF)
    if (year := reader.year(index, short=not comma)) and not _is_clock(reader, index, year[1]):
        return checked(replace(date, year=year[0]), year[1])
    if results := relative_year(reader, index):
        return checked(replace(date, year=results[0]), results[1])
    far = reader.number(index)
    if far and far.digits == 4 and not far.ordinal and (comma or ends_phrase(reader, far.after)):
        if not FIRST_YEAR <= far.value <= LAST_YEAR:
            return None
        return checked(replace(date, year=far.value), far.after)  # "October 10, 1582"
    return checked(date, after)


def _is_clock(reader: Reader, index: int, after: int) -> bool:
    """True if the two digits of a possible year start a clock time, a range or a count."""
    if reader.at(index).digits != 2:
        return False
    following = reader.at(after)
    return following.folded in (":", "-", "/", "%") or following.has(
        Tag.MERIDIEM, Tag.HOUR_MARK, Tag.UNIT, Tag.TO, Tag.MONTH
    )


def relative_year(reader: Reader, position: int) -> tuple[int, int] | None:
    """Read "last year", "this year" or "the year": its number and the position after it."""
    index = reader.skip(position, Tag.THE, limit=1)
    for relative, unit in ((index, index + 1), (index + 1, index)):
        if reader.has(relative, Tag.RELATIVE) and reader.at(unit).get(Tag.UNIT) is Unit.YEAR:
            return reader.now.year + int(reader.at(relative).get(Tag.RELATIVE)), index + 2
    if reader.has(index, Tag.YEAR_WORD):
        return reader.now.year + int(reader.at(index).get(Tag.YEAR_WORD)), index + 1
    return None


def day_and_month(reader: Reader, position: int) -> Found | None:
    """Read "3 Feb 2020", "the third of march", "twenty third day of September", "4 of this month"."""
    start = reader.skip(position, Tag.THE, limit=1)
    if reader.at(start).get(Tag.UNIT) is Unit.DAY and not reader.language.scriptless:
        start += 1
    day = reader.number(start)
    if day is None or not 1 <= day.value <= 31 or day.digits > 2:
        return None
    index = day.after
    if reader.at(index).get(Tag.UNIT) is Unit.DAY and (day.ordinal or reader.language.scriptless):
        if reader.has(index, Tag.PLURAL):
            return None  # "the first days of May"
        index += 1
    index = reader.skip(index, Tag.OF, Tag.THE, limit=2)
    if reader.at(index).glued and reader.at(index).folded in ("-", "/"):
        index += 1
    if reader.has(index, Tag.MONTH) and (
        index > day.after or not reader.has(index, Tag.UNIT) or reader.has(index, Tag.WEAK)
    ):
        month: int = reader.at(index).get(Tag.MONTH)
        if reader.at(index).has(Tag.WEAK) and not day.ordinal and reader.at(position - 1).has(Tag.LABEL):
            return None
        after = index + 1
        if reader.at(after).folded == "." and reader.at(after).glued and not reader.is_over(after):
            after += 1
        result = with_year(reader, Date(None, month, day.value), after)
        if result and reader.at(index).has(Tag.WEAK) and not day.ordinal and result.after == after:
            # Not "12 may suffice" or "one may ask".
            result = replace(result, strong=reader.at(index).capital and day.digits > 0)
        return result
    month_number = reader.number(index) if reader.lone and index > day.after else None
    if (
        month_number
        and reader.has(day.after, Tag.OF)
        and day.digits
        and month_number.digits
        and month_number.value <= 12
    ):
        year = reader.year(reader.skip(month_number.after, Tag.OF, limit=1))
        after = year[1] if year else month_number.after
        if reader.is_over(after):  # "17 del 11", "17 de 11 de 2015"
            return checked(Date(year[0] if year else None, month_number.value, day.value), after)
    for relative, unit in ((index, index + 1), (index + 1, index)):
        if reader.has(relative, Tag.RELATIVE) and reader.at(unit).get(Tag.UNIT) is Unit.MONTH:
            if index == day.after and reader.at(relative).get(Tag.RELATIVE) != 0:
                return None  # "2 derniers mois" are months, not a day
            span = unit_span(reader.now, Unit.MONTH, int(reader.at(relative).get(Tag.RELATIVE)))
            assert span.start is not None
            return checked(Date(span.start.year, span.start.month, day.value), index + 2)
    return None


def bare_year(reader: Reader, position: int) -> Found | None:
    """Read "2008", "year 2008", "the year of 2008", "nineteen ninety six"; bare years need support."""
    index = reader.skip(position, Tag.THE, limit=1)
    if reader.at(index).get(Tag.UNIT) is Unit.YEAR:
        named = reader.skip(index + 1, Tag.OF, limit=1)
        number = reader.number(named)
        if year := reader.year(named):
            return Found(Date(year[0]), year[1])
        return Found(Date(number.value), number.after) if number and number.digits == 4 and number.value > 999 else None
    year = reader.year(position)
    if year is None:
        return None
    following = reader.at(year[1])
    if following.has(Tag.UNIT) and not following.has(Tag.RELATIVE) and not reader.lone:
        return None
    return Found(Date(year[0]), year[1], reader.at(position).value is None and reader.at(position + 1).has(Tag.NUMBER))


def day_of_month(reader: Reader, position: int) -> Found | None:
    """Read "the 21st" and, if the whole text is a time, "the second" or a bare "15"."""
    start = reader.skip(position, Tag.THE, limit=1)
    if reader.at(start).get(Tag.UNIT) is Unit.DAY and reader.language.code in ("es", "pt"):
        day = reader.number(start + 1)  # "el día 15"
        named = start > position or (day is not None and (day.digits > 0 or ends_phrase(reader, day.after)))
        if day and named and not day.ordinal and 1 <= day.value <= 31 and day.digits <= 2:  # not "dia dos professores"
            return Found(Date(day=day.value), day.after)
    day = reader.number(start)
    if day is None or not 1 <= day.value <= 31 or day.digits > 2:
        return None
    if reader.has(reader.skip(day.after, Tag.OF, Tag.THE, limit=2), Tag.MONTH):
        return None  # "the 31st of April" is not a date, and not the 31st
    if day.ordinal and not day.digits and day.value > 1 and reader.language.code in ("fr", "es", "pt"):
        return None  # only the first of the month is an ordinal
    if day.ordinal and (start > position or reader.lone or reader.language.dotted_dates):
        if reader.lone or ends_phrase(reader, day.after):
            return Found(Date(day=day.value), day.after, False)
        return None
    return Found(Date(day=day.value), day.after, False) if reader.lone else None


def ends_phrase(reader: Reader, position: int) -> bool:
    """True if no noun follows that an ordinal could belong to ("the second round")."""
    following = reader.at(position)
    return (
        reader.is_over(position) or not following.folded.isalnum() or following.has(Tag.COMMON, Tag.OF, Tag.TO, Tag.AND)
    )


def weekday_date(reader: Reader, position: int) -> Found | None:
    """Read "Monday", "Friday the 22nd", "Mon 13th", "thursday 29/03", "Friday 2018-7-6", "Sunday, Feb 10"."""
    name = reader.at(position)
    if not name.has(Tag.WEEKDAY):
        return None
    weekday: int = name.get(Tag.WEEKDAY)
    index = (
        reader.skip_sign(position + 1, ".")
        if reader.at(position + 1).glued and not reader.is_over(position + 2)
        else position + 1
    )
    index = reader.skip(reader.skip_sign(index), Tag.THE, limit=1)
    result = longest(reader, index, (numeric_date, month_and_day, day_and_month))
    if result and isinstance(result.node, Date) and result.node.day is not None:
        return replace(result, strong=True)
    day = None if reader.has(index, Tag.WEEKDAY) else reader.number(index)  # "de segunda a quarta" has no fourth
    if day and 1 <= day.value <= 31 and day.digits <= 2 and not _is_clock_number(reader, day.after):
        if day.ordinal or (day.digits and reader.at(index - 1).has(Tag.WEEKDAY)) or reader.lone:
            after = day.after + 1 if reader.at(day.after).get(Tag.UNIT) is Unit.DAY else day.after
            return Found(Date(day=day.value, weekday=weekday), after)
    return Found(Date(weekday=weekday), position + 1, not name.has(Tag.WEAK))


def _is_clock_number(reader: Reader, after: int) -> bool:
    following = reader.at(after)
    if following.has(Tag.MERIDIEM, Tag.HOUR_MARK, Tag.UNIT, Tag.AGO) and following.get(Tag.UNIT) is not Unit.DAY:
        return True
    return following.folded in ("-", ":") and reader.at(after + 1).digits > 0


def month_of(reader: Reader, position: int) -> Found | None:
    """Read "the month of May"."""
    index = reader.skip(position, Tag.THE, limit=1)
    if reader.at(index).get(Tag.UNIT) is not Unit.MONTH or not reader.has(index + 1, Tag.OF):
        return None
    result = month_and_day(reader, index + 2)
    return replace(result, strong=True) if result else None
