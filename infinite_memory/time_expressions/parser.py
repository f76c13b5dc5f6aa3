"""What all rules of the grammar share: access to lexemes, and parsing of numbers and years."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any, NamedTuple

from infinite_memory.time_expressions.lexemes import Lexeme
from infinite_memory.time_expressions.lexicon import Language, Tag
from infinite_memory.time_expressions.spans import FIRST_YEAR, LAST_YEAR, Date, Span, settle

_NOTHING = Lexeme("", 0, 0, False)
_MULTIPLIED = (12, 20)  # a dozen, a score: "12 dozen" is 144
_GLUING = frozenset(".:/,")


class Number(NamedTuple):
    """A number in digits or words. ``digits`` is 0 for words; *after* is the position after it."""

    value: int
    after: int
    ordinal: bool = False
    digits: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a rule, which ends at *after*. Unless *strong*, it needs support around it."""

    node: Date | Span
    after: int
    strong: bool = True


class Reader:
    """A view of the lexemes without a cursor: every rule takes a position and returns the position after what it read.

    *now* is naive local wall time, *instant* the same moment in UTC. *lone* means that the whole text is
    assumed to be a time, so that bare numbers may be days. *country* is the user's, for holidays that depend on it.
    """

    def __init__(
        self,
        lexemes: list[Lexeme],
        language: Language,
        now: dt.datetime,
        instant: dt.datetime,
        *,
        is_alone: bool = False,
        country: str | None = None,
        zone: dt.tzinfo | None = None,
    ) -> None:
        self.lexemes = lexemes
        self.language = language
        self.now = now
        self.instant = instant
        self.lone = is_alone
        self.country = country
        self.zone = zone
        self.depth = 0
        self._numbers: dict[int, Number | None] = {}
        self._days: dict[int, Found | None] = {}
        self._periods: dict[int, Found | None] = {}
        self.durations: dict[int, Any] = {}  # results of `duration` by position

    def settled(self, result: Found) -> Span | None:
        """Return the span of *result*."""
        return result.node if isinstance(result.node, Span) else settle(result.node, self.now)

    def wall(self, instant: dt.datetime, zone: dt.tzinfo | None) -> dt.datetime:
        """Return *instant*, wall time in *zone*, as the reader's wall time; None is the reader's own zone."""
        if zone is None or self.zone is None:
            return instant
        return instant.replace(tzinfo=zone).astimezone(self.zone).replace(tzinfo=None)

    def period(self, position: int) -> Found | None:
        """Read any one span at *position*; implemented by the grammar, called by rules that nest."""
        raise NotImplementedError

    def day(self, position: int) -> Found | None:
        """Read a calendar span at *position*, without a clock time; implemented by the grammar."""
        raise NotImplementedError

    def at(self, position: int) -> Lexeme:
        """Return the lexeme at *position*, or an empty one past either end."""
        return self.lexemes[position] if 0 <= position < len(self.lexemes) else _NOTHING

    def has(self, position: int, *tags: Tag) -> bool:
        """True if the lexeme at *position* can mean one of *tags*."""
        return 0 <= position < len(self.lexemes) and self.lexemes[position].has(*tags)

    def skip(self, position: int, *tags: Tag, limit: int = 3) -> int:
        """Skip at most *limit* lexemes that mean one of *tags*."""
        while limit and self.has(position, *tags):
            position, limit = position + 1, limit - 1
        return position

    def skip_sign(self, position: int, signs: str = ",") -> int:
        """Skip one of *signs*."""
        return position + 1 if self.at(position).folded and self.at(position).folded in signs else position

    def is_dash(self, position: int) -> bool:
        """True if a dash is at *position*."""
        return self.at(position).folded == "-"

    def is_over(self, position: int) -> bool:
        """True if only punctuation follows."""
        return not any(char.isalnum() for lexeme in self.lexemes[position:] for char in lexeme.folded[:1])

    def number(self, position: int) -> Number | None:
        """Read a cardinal or ordinal at *position*, in digits or words."""
        if position not in self._numbers:
            self._numbers[position] = self._read_number(position)
        return self._numbers[position]

    def _read_number(self, position: int) -> Number | None:
        start = position + 1 if self.has(position, Tag.ORDINAL_OPENS) else position
        lexeme = self.at(start)
        if lexeme.value is not None:
            if self._is_part_of_longer(start):
                return None
            after, ordinal = start + 1, start > position
            following = self.at(after)
            if following.has(Tag.ORDINAL_MARK) and following.glued:
                if following.folded != "." or self._is_ordinal_dot(after, lexeme.value):
                    after, ordinal = after + 1, True
            elif self._has_dotted_ending(after):
                after, ordinal = after + 2, True
            return Number(lexeme.value, after, ordinal, lexeme.digits)
        if not lexeme.has(Tag.NUMBER, Tag.ORDINAL, Tag.SCALE):
            return None
        read = self._unspaced_words(start) if self.language.scriptless else self._words(start)
        return read._replace(ordinal=True) if read and start > position else read

    def _is_ordinal_dot(self, dot: int, value: int) -> bool:
        if not self.language.dotted_dates or not self.at(dot).glued or value > 31:
            return False
        return not self.is_over(dot + 1) or self.has(dot - 2, Tag.THE, Tag.ON)  # a last dot may end the sentence

    def _has_dotted_ending(self, dot: int) -> bool:
        """True if an ending behind a dot makes the digits before it an ordinal: "1.º de mayo", "3.er trimestre"."""
        ending = self.at(dot + 1)
        if self.at(dot).folded != "." or not (self.at(dot).glued and ending.glued and ending.has(Tag.ORDINAL_MARK)):
            return False
        return not (self.at(dot + 2).glued and self.at(dot + 2).folded.isalnum())

    def _is_part_of_longer(self, position: int) -> bool:
        """True if the digits belong to a decimal, a clock time or a numeric date."""
        for sign, digit in ((position + 1, position + 2), (position - 1, position - 2)):
            word = self.at(digit)
            glued = self.at(max(sign, position)).glued and self.at(max(sign, digit)).glued
            if glued and word.digits and self.at(sign).folded in _GLUING:
                group = word if digit > position else self.at(position)
                if self.at(sign).folded != "," or (group.digits != 4 and not self.lone):
                    return True
        return False

    def _words(self, position: int) -> Number | None:
        total, current, index, ordinal = 0, 0, position, False
        while index - position < _MAX_WORDS:
            lexeme = self.at(index)
            if lexeme.has(Tag.SCALE):
                scale: int = lexeme.get(Tag.SCALE)
                if scale >= 1000:
                    total, current = total + max(current, 1) * scale, 0
                else:
                    current = max(current, 1) * scale
            elif (
                lexeme.has(Tag.NUMBER)
                and (added := _add(current, lexeme.get(Tag.NUMBER), index > position)) is not None
            ):
                current = added
            elif (
                lexeme.has(Tag.ORDINAL)
                and (added := _add(current, lexeme.get(Tag.ORDINAL), index > position)) is not None
            ):
                current, index, ordinal = added, index + 1, True
                unit = self.at(index).get(Tag.ORDINAL)  # "décimo segundo" is twelfth
                if current % 10 == 0 and unit is not None and unit < 10 and self.language.code != "en":
                    current, index = current + unit, index + 1
                break
            else:
                break
            index += 1
            link = index
            if self.is_dash(index) or self.has(index, Tag.AND):
                link = index + 1
            linked = self.at(link)
            value = linked.get(Tag.NUMBER) if linked.has(Tag.NUMBER) else linked.get(Tag.ORDINAL)
            if link > index and (value is None or not current + total or _add(current, value, True) is None):
                break
            if link > index and self.has(index, Tag.AND) and current % 100 and self.language.code == "en":
                break
            index = link
        return Number(total + current, index, ordinal) if index > position else None

    def _unspaced_words(self, position: int) -> Number | None:
        index, values = position, []
        while (
            self.has(index, Tag.NUMBER, Tag.SCALE)
            and (index == position or self.at(index).glued)
            and index - position < 8
        ):
            values.append((self.at(index).get(Tag.NUMBER), self.at(index).get(Tag.SCALE)))
            index += 1
        if all(scale is None for _, scale in values) and all(value is not None and value < 10 for value, _ in values):
            if len(values) > _MAX_DIGITS:
                return None
            return Number(
                int("".join(str(value) for value, _ in values)), index, False, len(values) if len(values) > 1 else 0
            )
        total, pending = 0, 0
        for value, scale in values:
            if scale is not None:
                total, pending = total + max(pending, 1) * scale, 0
            else:
                pending = pending * 10 + value
        return Number(total + pending, index)

    def count(self, position: int) -> tuple[int, int, bool] | None:
        """Read a count: the number, the position after it, and whether it is vague ("a few", "12 dozen")."""
        if (number := self.number(position)) and not number.ordinal:
            many: int | None = self.at(number.after).get(Tag.VAGUE)
            if many in _MULTIPLIED and not self.language.scriptless and not self._ends_decimal(position):
                return number.value * many, self.skip(number.after + 1, Tag.OF, limit=1), True
            return number.value, number.after, False
        if self.has(position, Tag.VAGUE):
            value: int = self.at(position).get(Tag.VAGUE)
            return value, self.skip(position + 1, Tag.OF, limit=1), value > 1
        return None

    def _ends_decimal(self, position: int) -> bool:
        return self.at(position).glued and self.at(position - 1).folded in (".", ",")

    def year(self, position: int, *, short: bool = False) -> tuple[int, int] | None:
        """Read a year at *position*: four digits, words, or (*short*) two digits: the year and the position after it."""
        quoted = self.at(position).folded == "'"
        number = self.number(position + 1 if quoted else position)
        if number is None or number.ordinal:
            return None
        if number.digits == 4 or (number.digits == 0 and 1900 <= number.value < 2100):
            return (number.value, number.after) if 1900 <= number.value <= 2100 or self._is_dated(number) else None
        if number.digits == 0 and 10 <= number.value <= 20 and not self.language.scriptless:
            second = self.number(number.after)
            if second and second.digits == 0 and not second.ordinal and 10 <= second.value <= 99:
                return number.value * 100 + second.value, second.after
        if number.digits == 2 and (short or quoted):
            return self.full_year(number.value), number.after
        return None

    def _is_dated(self, number: Number) -> bool:
        """Accept distant years if a month or a word for year is beside them."""
        return FIRST_YEAR <= number.value <= LAST_YEAR and self.language.scriptless

    def full_year(self, two_digits: int) -> int:
        """Expand a two-digit year: at most ten years ahead, else in the last century."""
        century = self.now.year // 100 * 100
        full = century + two_digits
        return full if full <= self.now.year + 10 else full - 100


_MAX_DIGITS = 4
_MAX_WORDS = 10  # of a number: "nineteen hundred and ninety-nine" has five


def _add(current: int, value: int, started: bool) -> int | None:
    """Extend a number in words: "twenty" and "four"; None if they cannot be combined."""
    if not started:
        return value
    rest = current % 100
    if value >= 100:
        return current + value if current % 1000 == 0 and current != value else None
    if value >= 20:
        if rest == 0:
            return current + value
        return current - 4 + 80 if rest == 4 and value == 20 else None
    if value >= 10:
        return current + value if rest in (0, 60, 80) else None
    if value == 0:
        return None
    return current + value if current % 10 == 0 and rest != 10 else None
