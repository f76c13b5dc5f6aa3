"""Amounts of time: "3 months and 2 weeks", "an hour and a half", "2.5 days", "anderthalb Stunden", "一个半小时".

A fraction is converted to whole smaller units (half an hour is thirty minutes) and keeps its step.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from infinite_memory.time_expressions.lexicon import Tag, Unit
from infinite_memory.time_expressions.parser import Reader

MAX_COUNT = 100_000
_MAX_PARTS = 6  # of a duration: years, months, weeks, days, hours, minutes
_MAX_DECIMALS = 2  # "1.500 days" may be a thousand and a half, or one and a half
_MAX_DENOMINATOR = 10
_TEN = 10
_SOME = 3  # the value of "几" and "数"
_ABOUT = ("来", "來")
_SOME_MORE = ("多", "余", "餘", *_ABOUT)

_SMALLER: dict[Unit, tuple[tuple[int, Unit], ...]] = {
    Unit.MINUTE: ((60, Unit.SECOND),),
    Unit.HOUR: ((60, Unit.MINUTE), (3600, Unit.SECOND)),
    Unit.DAY: ((24, Unit.HOUR), (1440, Unit.MINUTE)),
    Unit.WEEK: ((7, Unit.DAY), (168, Unit.HOUR)),
    Unit.FORTNIGHT: ((14, Unit.DAY), (336, Unit.HOUR)),
    Unit.MONTH: ((30, Unit.DAY), (720, Unit.HOUR)),
    Unit.TWO_MONTHS: ((2, Unit.MONTH), (61, Unit.DAY)),
    Unit.QUARTER: ((3, Unit.MONTH), (91, Unit.DAY)),
    Unit.FOUR_MONTHS: ((4, Unit.MONTH), (122, Unit.DAY)),
    Unit.HALF_YEAR: ((6, Unit.MONTH), (182, Unit.DAY)),
    Unit.YEAR: ((12, Unit.MONTH), (365, Unit.DAY)),
    Unit.DECADE: ((10, Unit.YEAR), (120, Unit.MONTH)),
    Unit.CENTURY: ((100, Unit.YEAR),),
}
"""The smaller units of a unit's fractions; the first that gives an integer is used."""


@dataclass(frozen=True, slots=True)
class Part:
    """A count of a unit. ``step`` is set for a fraction: the size of that fraction, in whole units."""

    count: int
    unit: Unit
    vague: bool = False
    step: tuple[int, Unit] | None = None


Duration = list[Part]


class Amount(NamedTuple):
    """A number that was read, and the position after it. ``vague`` if it is approximate."""

    value: Fraction
    after: int
    vague: bool = False


def duration(reader: Reader, position: int) -> tuple[Duration, int] | None:
    """Read "3 months and 2 weeks and 2 days", "an hour and a half": the parts and the position after it."""
    if position not in reader.durations:
        reader.durations[position] = _duration(reader, position)
    read: tuple[Duration, int] | None = reader.durations[position]
    return read


def _duration(reader: Reader, position: int) -> tuple[Duration, int] | None:
    parts: Duration = []
    index = reader.skip(position, Tag.ROUGHLY, limit=2)
    after = index
    while len(parts) < _MAX_PARTS:
        read = _part(reader, index)
        if read is None:
            break
        parts += read[0]
        after = read[1]
        index = reader.skip(reader.skip_sign(after), Tag.AND, limit=1)
    return (parts, after) if parts else None


def _part(reader: Reader, position: int) -> tuple[Duration, int] | None:
    """Read an amount, its unit, and an optional fraction after it: "two days", "hora y media" with its "una"."""
    if share := _share(reader, position):
        return share
    many = amount(reader, position)
    if many is None or many.value > MAX_COUNT or not reader.has(many.after, Tag.UNIT):
        return None
    unit: Unit = reader.at(many.after).get(Tag.UNIT)
    if unit is Unit.HALF_YEAR and reader.has(many.after, Tag.HALF):
        return None  # "a half ago" is half of what precedes it
    whole = int(many.value)
    if reader.has(many.after, Tag.MONTH_MARK) and unit is Unit.MONTH and many.value == whole:
        return None  # "5月" is May
    if reader.has(many.after, Tag.YEAR_MARK, Tag.FISCAL_YEAR) and reader.language.scriptless and whole >= 1000:
        return None  # "2000年" is a year
    after = many.after + 1
    is_vague = reader.has(after, Tag.OR_SO)  # "ten days or so"
    parts = in_units(many.value, unit, vague=many.vague or is_vague)
    if not parts or many.value != whole or is_vague:
        return (parts, after + is_vague) if parts else None
    behind = fraction_behind(reader, unit, after)
    return ([*parts, behind[0]], behind[1]) if behind else (parts, after)


def in_units(value: Fraction, unit: Unit, *, vague: bool = False) -> Duration | None:
    """Return *value* of *unit* as parts; None for zero, or for a fraction of a unit without smaller units."""
    whole = int(value)
    parts = [Part(whole, unit, vague)] if whole else []
    if fraction := value - whole:
        part = fraction_part(unit, fraction)
        return [*parts, part] if part else None
    return parts or None


def _share(reader: Reader, position: int) -> tuple[Duration, int] | None:
    """Read an amount with its own word: "a quarter of an hour", "drei Viertelstunden", "一刻钟"."""
    count = reader.count(position)
    index, many = (count[1], count[0]) if count else (position, 1)
    share = reader.at(index).get(Tag.SHARE_UNIT)
    if (
        count
        and reader.has(index, Tag.AND)
        and (added := _share(reader, index + 1))
        and added[0][0].unit is Unit.MINUTE
    ):
        whole = [Part(count[0], Unit.HOUR)] if 0 < count[0] <= MAX_COUNT else []
        return ([*whole, *added[0]], added[1]) if whole and len(added[0]) == 1 else None  # "two and a [half hours]"
    if share is None or not 0 < many <= MAX_COUNT:
        return None
    return [Part(many * share[0], share[1], step=share)], index + 1


def amount(reader: Reader, position: int) -> Amount | None:
    """Read a count, with fractions: "two and a half", "2.5", "1½", "2 1/2", "anderthalb", "half a", "three quarters of an"."""
    if either := approximate(reader, position):
        return Amount(Fraction(either[1]), either[2])
    for rule in (_decimal, _mixed, _half, _quarters, _parts_of):
        if read := rule(reader, position):
            return read
    count = reader.count(position)
    if count is None:
        return None
    value, after, vague = count
    if reader.has(after, Tag.OR_SO) and reader.has(after + 1, Tag.UNIT):
        return Amount(Fraction(value), after + 1, vague=True)  # "ten or so days"
    if fraction := _glyph(reader, after) or _slashed(reader, after):
        return Amount(value + fraction[0], fraction[1])
    if reader.language.scriptless:
        half = reader.skip(after, Tag.COUNTER, limit=1)
        if reader.has(half, Tag.HALF) and reader.has(half + 1, Tag.UNIT):
            return Amount(value + Fraction(1, 2), half + 1)  # "一个半小时"
    elif reader.has(after, Tag.AND) or reader.is_dash(after):
        behind = _half(reader, after + 1) or _quarters(reader, after + 1)
        if behind and reader.has(behind.after, Tag.UNIT, Tag.TO, Tag.OR):
            return Amount(value + behind.value, behind.after)
    return Amount(Fraction(value), after, vague)


def approximate(reader: Reader, position: int) -> tuple[int, int, int] | None:
    """Read "两三", "三四十", "十二三", "2、3": two adjacent numbers are alternatives; return both, and the position of their unit.

    The same for bounds given by tens: "十几" and "十多" (11 to 19), "几十" (20 to 90), "dez e poucos".
    """
    if by_tens := _by_tens(reader, position):
        return by_tens
    if not reader.language.scriptless:
        return None
    has_ten = reader.at(position).get(Tag.SCALE) == _TEN
    first = position + 1 if has_ten else position
    second = reader.skip_sign(first + 1)
    low, high, after = _one_digit(reader, first), _one_digit(reader, second), second + 1
    if not low or not high or high != low + 1 or not reader.at(second).glued or _one_digit(reader, after) is not None:
        return None
    if not has_ten and reader.at(position).glued and reader.has(position - 1, Tag.NUMBER, Tag.SCALE):
        return None  # the end of a longer number
    tens: int | None = None if has_ten else reader.at(after).get(Tag.SCALE)
    if tens is not None:
        low, high, after = low * tens, high * tens, after + 1
    elif has_ten:
        low, high = low + _TEN, high + _TEN
    after = reader.skip(after, Tag.COUNTER, limit=1)
    return (low, high, after) if reader.has(after, Tag.UNIT) else None


def _by_tens(reader: Reader, position: int) -> tuple[int, int, int] | None:
    """Read tens, hundreds or thousands and some more, or several of them: the minimum and the maximum, and the position of their unit."""
    word = reader.at(position)
    if not reader.language.scriptless:
        number = reader.number(position)
        if number is None or number.ordinal or not 10 <= number.value < 100 or number.value % 10:
            return None
        following = reader.at(number.after + 1)
        is_more = reader.has(number.after, Tag.AND) and following.has(Tag.VAGUE) and following.get(Tag.VAGUE) > 2
        after = number.after + 2
        return (number.value + 1, number.value + 9, after) if is_more and reader.has(after, Tag.UNIT) else None
    if word.glued and reader.has(position - 1, Tag.NUMBER, Tag.SCALE):
        return None  # the end of a longer number
    scale: int | None = reader.at(position + 1).get(Tag.SCALE)
    if word.has(Tag.VAGUE) and word.get(Tag.VAGUE) > 2 and scale:
        low, high, after = 2 * scale, 9 * scale, position + 2
    else:
        number = reader.number(position)
        if number is None or number.ordinal or number.value < 10:
            return None
        scale = max(scale for scale in (10, 100, 1000) if number.value % scale == 0 or scale == 10)
        following, after = reader.at(number.after), number.after + 1
        if (
            number.value % 10
            or not following.glued
            or not (following.folded in _SOME_MORE or following.get(Tag.VAGUE) == _SOME)
        ):
            return None
        low, high = number.value + 1, number.value + scale - 1
        if following.folded in _ABOUT:
            low, high = number.value - scale // 5, number.value + scale // 5
        further = reader.number(after)
        if further and not further.ordinal and further.value == number.value + scale:
            high, after = further.value, further.after  # "十几二十天"
    after = reader.skip(after, Tag.COUNTER, limit=1)
    return (low, high, after) if reader.has(after, Tag.UNIT) else None


def _one_digit(reader: Reader, position: int) -> int | None:
    lexeme = reader.at(position)
    value: int | None = lexeme.value if lexeme.digits == 1 else lexeme.get(Tag.NUMBER)
    return value if value is not None and value < _TEN else None


def _decimal(reader: Reader, position: int) -> Amount | None:
    whole, sign, decimals = (reader.at(position + step) for step in range(3))
    if whole.value is None or decimals.value is None or sign.folded not in (".", ",") or not sign.folded:
        return None
    if not sign.glued or not decimals.glued or not 1 <= decimals.digits <= _MAX_DECIMALS:
        return None
    before, behind = reader.at(position - 1), reader.at(position + 3)
    if whole.glued and before.folded in (".", ",", "/", ":", "-") and reader.at(position - 2).digits:
        return None
    if behind.glued and behind.folded in (".", ",", "/", ":") and reader.at(position + 4).digits:
        return None
    return Amount(whole.value + Fraction(decimals.value, 10**decimals.digits), position + 3)


def _mixed(reader: Reader, position: int) -> Amount | None:
    if reader.has(position, Tag.MIXED):
        return Amount(reader.at(position).get(Tag.MIXED), position + 1)
    fraction = _glyph(reader, position) or _slashed(reader, position)
    return Amount(*fraction) if fraction else None


def _glyph(reader: Reader, position: int) -> tuple[Fraction, int] | None:
    sign = reader.at(position).folded
    if len(sign) != 1 or not unicodedata.decomposition(sign).startswith("<fraction>"):
        return None
    return Fraction(unicodedata.numeric(sign)).limit_denominator(_MAX_DENOMINATOR), position + 1


def _slashed(reader: Reader, position: int) -> tuple[Fraction, int] | None:
    """Read the "1/2" of "1/2 hour"; without a unit after it, it may be a date."""
    first, sign, second = (reader.at(position + step) for step in range(3))
    if not first.value or not second.value or sign.folded != "/" or not (sign.glued and second.glued):
        return None
    if not first.value < second.value <= _MAX_DENOMINATOR:
        return None
    index = reader.skip(position + 3, Tag.OF, limit=1)
    index = reader.skip(index, Tag.VAGUE, limit=1)
    return (Fraction(first.value, second.value), index) if reader.has(index, Tag.UNIT) else None


def _half(reader: Reader, position: int) -> Amount | None:
    """Read "half", "half an", "a half", "einer halben"; a unit must follow."""
    index = position if reader.has(position, Tag.HALF) else reader.skip(position, Tag.VAGUE, limit=1)
    if not reader.has(index, Tag.HALF):
        return None
    index = reader.skip(index + 1, Tag.COUNTER if reader.language.scriptless else Tag.VAGUE, limit=1)
    unit = reader.at(index).get(Tag.UNIT)
    if reader.has(index, Tag.TO, Tag.OR):
        return Amount(Fraction(1, 2), index)  # "two and a half to three hours"
    return Amount(Fraction(1, 2), index) if unit is not None and unit in _SMALLER else None


def _quarters(reader: Reader, position: int) -> Amount | None:
    """Read "three quarters of an", "a quarter"; a unit must follow."""
    count = reader.count(position)
    many, index = (count[0], count[1]) if count else (1, position)
    index = index + 1 if reader.is_dash(index) else index
    if not reader.has(index, Tag.QUARTER_OF) or not 0 < many < 4:
        return None
    index = reader.skip(reader.skip(index + 1, Tag.OF, limit=1), Tag.VAGUE, limit=1)
    unit = reader.at(index).get(Tag.UNIT)
    return Amount(Fraction(many, 4), index) if unit is not None and unit in _SMALLER else None


def _parts_of(reader: Reader, position: int) -> Amount | None:
    """Read "two thirds of a", "un tercio de", "三分之二", "3分の2"; a unit must follow."""
    count = reader.count(position)
    if count is None:
        return None
    many, index = count[0], count[1]
    index = index + 1 if reader.is_dash(index) else index
    if not reader.has(index, Tag.PARTS_OF):
        return None
    below: int = reader.at(index).get(Tag.PARTS_OF)
    if reader.language.scriptless:
        above = reader.number(index + 1)
        if above is None:
            return None
        below, many, index = many, above.value, reader.skip(above.after, Tag.COUNTER, Tag.OF, limit=2)
    else:
        linked = reader.skip(index + 1, Tag.OF, limit=1)
        if linked == index + 1 and reader.has(index, Tag.ORDINAL):
            return None  # "a third week"
        index = reader.skip(linked, Tag.VAGUE, limit=1)
    unit = reader.at(index).get(Tag.UNIT)
    if unit not in _SMALLER or not 0 < many < below <= _MAX_DENOMINATOR:
        return None
    if not reader.language.scriptless and reader.has(index + 1, Tag.RELATIVE):
        return None  # "dos tercios de la semana pasada" is a part of a span, not a length
    return Amount(Fraction(many, below), index)


def fraction_behind(reader: Reader, unit: Unit, position: int) -> tuple[Part, int] | None:
    """Read what is added after a unit: "and a half", "et quart", "半"; the part and the position after it."""
    if unit not in _SMALLER:
        return None
    if reader.language.scriptless:
        half = fraction_part(unit, Fraction(1, 2)) if reader.has(position, Tag.HALF) else None
        return (half, position + 1) if half and not reader.has(position + 1, Tag.UNIT) else None
    if not reader.has(position, Tag.AND):
        return None
    index = reader.skip(position + 1, Tag.VAGUE, limit=1)
    value, after = Fraction(1, 2), index + 1
    if not reader.has(index, Tag.HALF):
        count = reader.count(position + 1)
        many, index = (count[0], count[1]) if count else (1, position + 1)
        if not reader.has(index, Tag.QUARTER_OF) or not 0 < many < 4:
            return None
        value, after = Fraction(many, 4), index + 1
    if reader.has(after, Tag.UNIT):
        return None  # "a day and half an hour" is read part by part
    part = fraction_part(unit, value)
    return (part, after) if part else None


def fraction_part(unit: Unit, fraction: Fraction) -> Part | None:
    """Return *fraction* of *unit* in whole smaller units; None if there are none."""
    options = _SMALLER.get(unit)
    if options is None:
        return None
    exact = [(factor, smaller) for factor, smaller in options if (fraction * factor).denominator == 1]
    factor, smaller = exact[0] if exact else options[-1]
    step = max(1, round(Fraction(factor, fraction.denominator)))
    return Part(max(1, round(fraction * factor)), smaller, step=(step, smaller))
