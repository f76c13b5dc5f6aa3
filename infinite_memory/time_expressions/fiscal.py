"""The Japanese fiscal year, from April to March: "2024年度", "昨年度", "令和6年度第1四半期", "今年度の上半期", "2024年度の3月".

In Chinese 年度 is the calendar year; the tables distinguish the two.
"""

from __future__ import annotations

import datetime as dt

from infinite_memory.time_expressions.cjk_dates import half_of_year, marked_date
from infinite_memory.time_expressions.dates import longest
from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Found, Reader
from infinite_memory.time_expressions.periods import holiday_date, quarter, season
from infinite_memory.time_expressions.spans import FIRST_YEAR, LAST_YEAR, Date, Span, add_months, settle

_FIRST_MONTH = 4
_SHORT_YEAR = 2  # digits
_TERMS = {"上": 0, "下": 6}  # "上期": months from April
_PARTS = (3, 6)  # lengths in months of parts counted from April: quarters and halves


def fiscal_year(reader: Reader, position: int) -> Found | None:
    """Read a fiscal year and an optional quarter, half, month, season or holiday of it."""
    read = _year(reader, position) if reader.language.scriptless else None
    if read is None or not FIRST_YEAR <= read[0] <= LAST_YEAR:
        return None
    start = dt.datetime(read[0], _FIRST_MONTH, 1)
    whole = Span(start, add_months(start, 12), Unit.YEAR)
    index = reader.skip(read[1], Tag.OF, limit=1)
    term = _TERMS.get(reader.at(index).folded)
    if term is not None and reader.at(index + 1).folded == "期":
        return Found(_part(start, term, 6), index + 2)
    result = longest(reader, index, (quarter, half_of_year, marked_date, season, holiday_date))
    date = result.node if result else None
    if result is None or not isinstance(date, Date) or date.year is not None or not (date.month or date.holiday):
        return Found(whole, read[1])
    is_season = reader.has(result.after - 1, Tag.SEASON)
    if date.months in _PARTS and date.month and not is_season:
        return Found(_part(start, date.month - 1, date.months), result.after)
    span = settle(date, reader.now, floor=start.replace(month=3) if is_season else start)
    return Found(span, result.after) if span else Found(whole, read[1])


def _part(start: dt.datetime, months: int, width: int) -> Span:
    return Span(
        add_months(start, months), add_months(start, months + width), Unit.QUARTER if width == 3 else Unit.HALF_YEAR
    )


def _year(reader: Reader, position: int) -> tuple[int, int] | None:
    """Read "2024年度", "令和6年度", "今年度": the year in which it begins, and the position after it."""
    this = reader.now.year if reader.now.month >= _FIRST_MONTH else reader.now.year - 1
    word = reader.at(position)
    if word.has(Tag.FISCAL_YEAR):
        return (this + int(word.get(Tag.YEAR_WORD)), position + 1) if word.has(Tag.YEAR_WORD) else None
    offset, index = 0, position
    while reader.has(index, Tag.RELATIVE) and index - position < 2:
        offset, index = offset + int(reader.at(index).get(Tag.RELATIVE)), index + 1
    if index > position:
        return (this + offset, index + 1) if reader.has(index, Tag.FISCAL_YEAR) else None
    era = word.get(Tag.ERA)
    if era is not None and reader.at(position + 1).folded == "元" and reader.has(position + 2, Tag.FISCAL_YEAR):
        return int(era) + 1, position + 3
    number = reader.number(position if era is None else position + 1)
    if number is None or number.ordinal or not reader.has(number.after, Tag.FISCAL_YEAR):
        return None
    if era is not None:
        return int(era) + number.value, number.after + 1
    if number.digits == _SHORT_YEAR:
        return reader.full_year(number.value), number.after + 1
    return (number.value, number.after + 1) if number.value >= FIRST_YEAR else None
