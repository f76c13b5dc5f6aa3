"""Rules for dates in words: "March 3rd", "the 21st", "Friday the 22nd", "year 2008".

Each rule takes a reader and a place, and gives what it read or None; `longest` lets rules compete.
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


def longest(reader: Reader, place: int, rules: tuple[Rule, ...]) -> Found | None:
    """Try *rules* at *place*; the one that reads furthest wins, the earlier one if two do."""
    best: Found | None = None
    for rule in rules:
        found = rule(reader, place)
        if found and (best is None or found.after > best.after):
            best = found
    return best


def month_and_day(reader: Reader, place: int) -> Found | None:
    """Read a month, with its day or year; nothing where the day before it does not exist."""
    found = _month_and_day(reader, place)
    if found and isinstance(found.node, Date) and found.node.day is None and _misses_its_day(reader, place, found.node):
        return None
    return found


def _month_and_day(reader: Reader, place: int) -> Found | None:
    """Read "March 3rd", "May twenty-fourth, 2010", "2016 november", "June of nineteen ninety nine", "March"."""
    month = reader.at(place)
    if not month.has(Tag.MONTH):
        return None
    number: int = month.get(Tag.MONTH)
    strong = not month.has(Tag.WEAK)
    at = reader.skip_sign(place + 1, ".") if reader.at(place + 1).glued else place + 1
    at = reader.skip_sign(at)
    if year := reader.year(reader.skip(reader.skip(at, Tag.OF, limit=2), Tag.THE, limit=1)):
        return Found(Date(year[0], number), year[1])
    if reader.is_dash(at) and reader.at(at).glued and reader.at(at + 1).digits == 4 and (year := reader.year(at + 1)):
        return Found(Date(year[0], number), year[1])
    unit_year = reader.skip(at, Tag.OF, Tag.THE, limit=3)
    if reader.at(unit_year).get(Tag.UNIT) is Unit.YEAR and (year := reader.year(unit_year + 1)):
        return Found(Date(year[0], number), year[1])
    day_at = reader.skip(at, Tag.THE, limit=1)
    day = reader.number(day_at)
    if day and 1 <= day.value <= 31 and day.digits <= 2 and not _counts_something(reader, day.after):
        if not (day.ordinal is False and reader.has(day_at - 1, Tag.THE) and not reader.lone):
            return with_year(reader, Date(None, number, day.value), day.after)
    if day and day.digits == 2 and day.value > 31 and at == place + 1:
        return Found(Date(reader.full_year(day.value), number), day.after, strong or reader.lone)
    if reader.at(at).folded == "'" and (year := reader.year(at)):
        return Found(Date(year[0], number), year[1])
    of_year = reader.number(at + 1) if reader.at(at).folded in _OF_YEAR else None
    if of_year and of_year.digits == 2 and not of_year.ordinal and ends_phrase(reader, of_year.after):
        return Found(Date(reader.full_year(of_year.value), number), of_year.after)  # "April of 87"
    far = reader.number(at)
    if far and far.digits == 4 and 1000 <= far.value < 1900 and ends_phrase(reader, far.after):
        return Found(Date(far.value, number), far.after)
    return Found(Date(None, number), place + 1, strong)


def _misses_its_day(reader: Reader, place: int, date: Date) -> bool:
    """Tell whether a day stands before the month that is not read here, or that it does not have: "5de november" and "31 June" are not
    the whole month."""
    if _has_foreign_ordinal(reader, place):
        return True
    number, ending = reader.at(place + 1), reader.at(place + 2)
    if number.digits and number.mute and ending.glued and ending.folded.isalpha():
        return True  # "April 31st", read in a language that has no "st"
    for back in range(1, 5):
        day = _foreign_ordinal(reader, place - back) or reader.number(place - back)
        if day is None or day.digits > 2:
            continue
        at, is_day = _behind_day(reader, day)
        is_day = is_day or (place == back and reader.is_over(place + 1))  # "32 January", and nothing else
        if at != place or (not 1 <= day.value <= 31 and not is_day):
            continue  # "issue 45 May 2020"
        if checked(replace(date, day=day.value), place) is None:
            return True
    return False


def _behind_day(reader: Reader, day: Number) -> tuple[int, bool]:
    """Return the place behind a number and what may stand between it and its month; and whether it can only be a day."""
    at, is_day = day.after, bool(day.ordinal) or reader.lone
    if reader.at(at).folded in _OF_DAY:
        at = at + 1
    at = reader.skip(at, Tag.OF, Tag.THE, limit=2)
    return at + 1 if reader.at(at).glued and reader.at(at).folded in ("-", "/", ".") else at, is_day


def _foreign_ordinal(reader: Reader, place: int) -> Number | None:
    """Read the "31st" of "31st of September" in a language that has no "st"."""
    digits, ending = reader.at(place), reader.at(place + 1)
    if not digits.folded.isdecimal() or not ending.glued or ending.folded not in _ENDINGS:
        return None
    return Number(int(digits.folded), place + 2, ordinal=True, digits=len(digits.folded))


def _has_foreign_ordinal(reader: Reader, place: int) -> bool:
    """True if an ordinal of another language stands before *place*, as digits and an ending glued to them: "5de", "5:e"."""
    for size in (1, 2):
        digits, ending = reader.at(place - size - 1), [reader.at(place - back) for back in range(size, 0, -1)]
        if place > size and digits.folded.isdecimal() and len(digits.folded) <= 2:
            if all(part.glued for part in ending) and "".join(part.folded for part in ending) in ANY_ENDING:
                return True
    return False


def _counts_something(reader: Reader, after: int) -> bool:
    """Tell whether the number before *after* counts units ("march 10 miles" cannot be told, "may 10 minutes" can)."""
    following = reader.at(after)
    return following.has(Tag.UNIT) and not following.has(Tag.WEAK) and following.get(Tag.UNIT) is not Unit.DAY


def with_year(reader: Reader, date: Date, after: int) -> Found | None:
    """Add the year, or the "of this year", that may follow a month and day."""
    at = reader.skip_sign(after)
    at = reader.skip(at, Tag.OF, Tag.THE, limit=2)
    if reader.at(at).get(Tag.UNIT) is Unit.YEAR and reader.year(at + 1):
        at += 1
    comma = at > after and not reader.has(after, Tag.OF)
    if (year := reader.year(at, short=not comma)) and not _is_clock(reader, at, year[1]):
        return checked(replace(date, year=year[0]), year[1])
    if found := relative_year(reader, at):
        return checked(replace(date, year=found[0]), found[1])
    far = reader.number(at)
    if far and far.digits == 4 and not far.ordinal and (comma or ends_phrase(reader, far.after)):
        if not FIRST_YEAR <= far.value <= LAST_YEAR:
            return None
        return checked(replace(date, year=far.value), far.after)  # "October 10, 1582"
    return checked(date, after)


def _is_clock(reader: Reader, at: int, after: int) -> bool:
    """Tell whether the two digits that might be a year start a clock time, a range or a count."""
    if reader.at(at).digits != 2:
        return False
    following = reader.at(after)
    return following.folded in (":", "-", "/", "%") or following.has(
        Tag.MERIDIEM, Tag.HOUR_MARK, Tag.UNIT, Tag.TO, Tag.MONTH
    )


def relative_year(reader: Reader, place: int) -> tuple[int, int] | None:
    """Read "last year", "this year" or "the year": its number and the place behind."""
    at = reader.skip(place, Tag.THE, limit=1)
    for relative, unit in ((at, at + 1), (at + 1, at)):
        if reader.has(relative, Tag.RELATIVE) and reader.at(unit).get(Tag.UNIT) is Unit.YEAR:
            return reader.now.year + int(reader.at(relative).get(Tag.RELATIVE)), at + 2
    if reader.has(at, Tag.YEAR_WORD):
        return reader.now.year + int(reader.at(at).get(Tag.YEAR_WORD)), at + 1
    return None


def day_and_month(reader: Reader, place: int) -> Found | None:
    """Read "3 Feb 2020", "the third of march", "twenty third day of September", "4 of this month"."""
    start = reader.skip(place, Tag.THE, limit=1)
    if reader.at(start).get(Tag.UNIT) is Unit.DAY and not reader.language.scriptless:
        start += 1
    day = reader.number(start)
    if day is None or not 1 <= day.value <= 31 or day.digits > 2:
        return None
    at = day.after
    if reader.at(at).get(Tag.UNIT) is Unit.DAY and (day.ordinal or reader.language.scriptless):
        at += 1
    at = reader.skip(at, Tag.OF, Tag.THE, limit=2)
    if reader.at(at).glued and reader.at(at).folded in ("-", "/"):
        at += 1
    if reader.has(at, Tag.MONTH) and (at > day.after or not reader.has(at, Tag.UNIT) or reader.has(at, Tag.WEAK)):
        month: int = reader.at(at).get(Tag.MONTH)
        if reader.at(at).has(Tag.WEAK) and not day.ordinal and reader.at(place - 1).has(Tag.LABEL):
            return None
        after = at + 1
        if reader.at(after).folded == "." and reader.at(after).glued and not reader.is_over(after):
            after += 1
        found = with_year(reader, Date(None, month, day.value), after)
        if found and reader.at(at).has(Tag.WEAK) and not day.ordinal and found.after == after:
            found = replace(found, strong=reader.at(at).capital and day.digits > 0)  # "12 may suffice", "one may ask"
        return found
    month_number = reader.number(at) if reader.lone and at > day.after else None
    if (
        month_number
        and reader.has(day.after, Tag.OF)
        and day.digits
        and month_number.digits
        and month_number.value <= 12
        and reader.is_over(month_number.after)
    ):
        return checked(Date(None, month_number.value, day.value), month_number.after)  # "17 del 11"
    for relative, unit in ((at, at + 1), (at + 1, at)):
        if reader.has(relative, Tag.RELATIVE) and reader.at(unit).get(Tag.UNIT) is Unit.MONTH:
            if at == day.after and reader.at(relative).get(Tag.RELATIVE) != 0:
                return None  # "2 derniers mois" are months, not a day
            span = unit_span(reader.now, Unit.MONTH, int(reader.at(relative).get(Tag.RELATIVE)))
            assert span.start is not None
            return checked(Date(span.start.year, span.start.month, day.value), at + 2)
    return None


def bare_year(reader: Reader, place: int) -> Found | None:
    """Read "2008", "year 2008", "the year of 2008", "nineteen ninety six"; bare ones need support."""
    at = reader.skip(place, Tag.THE, limit=1)
    if reader.at(at).get(Tag.UNIT) is Unit.YEAR:
        named = reader.skip(at + 1, Tag.OF, limit=1)
        number = reader.number(named)
        if year := reader.year(named):
            return Found(Date(year[0]), year[1])
        return Found(Date(number.value), number.after) if number and number.digits == 4 and number.value > 999 else None
    year = reader.year(place)
    if year is None:
        return None
    following = reader.at(year[1])
    if following.has(Tag.UNIT) and not following.has(Tag.RELATIVE) and not reader.lone:
        return None
    return Found(Date(year[0]), year[1], reader.at(place).value is None and reader.at(place + 1).has(Tag.NUMBER))


def day_of_month(reader: Reader, place: int) -> Found | None:
    """Read "the 21st" and, where the whole text is a time, "the second" or a bare "15"."""
    start = reader.skip(place, Tag.THE, limit=1)
    if reader.at(start).get(Tag.UNIT) is Unit.DAY and reader.language.code in ("es", "pt"):
        day = reader.number(start + 1)  # "el día 15"
        if day and not day.ordinal and 1 <= day.value <= 31 and day.digits <= 2:
            return Found(Date(day=day.value), day.after)
    day = reader.number(start)
    if day is None or not 1 <= day.value <= 31 or day.digits > 2:
        return None
    if reader.has(reader.skip(day.after, Tag.OF, Tag.THE, limit=2), Tag.MONTH):
        return None  # "the 31st of April" is no date, and not the 31st
    if day.ordinal and not day.digits and day.value > 1 and reader.language.code in ("fr", "es", "pt"):
        return None  # only the first of the month is said as an ordinal
    if day.ordinal and (start > place or reader.lone or reader.language.dotted_dates):
        if reader.lone or ends_phrase(reader, day.after):
            return Found(Date(day=day.value), day.after, False)
        return None
    return Found(Date(day=day.value), day.after, False) if reader.lone else None


def ends_phrase(reader: Reader, place: int) -> bool:
    """Tell whether no noun follows that an ordinal could belong to ("the second round")."""
    following = reader.at(place)
    return reader.is_over(place) or not following.folded.isalnum() or following.has(Tag.COMMON, Tag.OF, Tag.TO, Tag.AND)


def weekday_date(reader: Reader, place: int) -> Found | None:
    """Read "Monday", "Friday the 22nd", "Mon 13th", "thursday 29/03", "Friday 2018-7-6", "Sunday, Feb 10"."""
    name = reader.at(place)
    if not name.has(Tag.WEEKDAY):
        return None
    weekday: int = name.get(Tag.WEEKDAY)
    at = reader.skip_sign(place + 1, ".") if reader.at(place + 1).glued and not reader.is_over(place + 2) else place + 1
    at = reader.skip(reader.skip_sign(at), Tag.THE, limit=1)
    found = longest(reader, at, (numeric_date, month_and_day, day_and_month))
    if found and isinstance(found.node, Date) and found.node.day is not None:
        return replace(found, strong=True)
    day = reader.number(at)
    if day and 1 <= day.value <= 31 and day.digits <= 2 and not _is_clock_number(reader, day.after):
        if day.ordinal or (day.digits and reader.at(at - 1).has(Tag.WEEKDAY)) or reader.lone:
            after = day.after + 1 if reader.at(day.after).get(Tag.UNIT) is Unit.DAY else day.after
            return Found(Date(day=day.value, weekday=weekday), after)
    return Found(Date(weekday=weekday), place + 1, not name.has(Tag.WEAK))


def _is_clock_number(reader: Reader, after: int) -> bool:
    following = reader.at(after)
    if following.has(Tag.MERIDIEM, Tag.HOUR_MARK, Tag.UNIT, Tag.AGO) and following.get(Tag.UNIT) is not Unit.DAY:
        return True
    return following.folded in ("-", ":") and reader.at(after + 1).digits > 0


def month_of(reader: Reader, place: int) -> Found | None:
    """Read "the month of May"."""
    at = reader.skip(place, Tag.THE, limit=1)
    if reader.at(at).get(Tag.UNIT) is not Unit.MONTH or not reader.has(at + 1, Tag.OF):
        return None
    found = month_and_day(reader, at + 2)
    return replace(found, strong=True) if found else None
