"""The structure of a language's table, and its compilation to a lexicon for the lexer.

A table has words and a few rules, no phrases: the grammar (`grammar.py`) combines them, and is the same for all
languages. Alternatives are separated by ``|``; case and accents are folded, so either spelling works.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from infinite_memory.time_expressions.tokens import folded_words


class Unit(enum.IntEnum):
    """A unit of the calendar or the clock, in ascending order."""

    SECOND = 0
    MINUTE = 1
    HOUR = 2
    DAY = 3
    WEEK = 4
    WEEKEND = 5
    FORTNIGHT = 6
    MONTH = 7
    TWO_MONTHS = 8
    QUARTER = 9
    FOUR_MONTHS = 10
    HALF_YEAR = 11
    YEAR = 12
    DECADE = 13
    CENTURY = 14


class Tag(enum.Enum):
    """The meaning of a word for the grammar. A word may have several."""

    __hash__ = object.__hash__  # every lookup of a meaning hashes a tag, and enum's own hash is not in C

    MONTH = enum.auto()  # 1..12
    WEEKDAY = enum.auto()  # 0 is Monday
    DAY = enum.auto()  # days from today
    UNIT = enum.auto()  # Unit
    NUMBER = enum.auto()  # cardinal
    ORDINAL = enum.auto()
    SCALE = enum.auto()  # 100, 1000: multiplies the number before it
    VAGUE = enum.auto()  # "a few": an approximate count
    RELATIVE = enum.auto()  # last -1, this 0, next 1
    ROLLING = enum.auto()  # "recent": counted back from now if a number follows
    AGO = enum.auto()  # follows the duration
    OLDER = enum.auto()  # "more than": before a duration ago
    YOUNGER = enum.auto()  # "less than"
    AGO_OPENS = enum.auto()  # before the duration
    BEFORE = enum.auto()
    BEFORE_CLOSES = enum.auto()
    AFTER = enum.auto()
    SINCE = enum.auto()
    SINCE_CLOSES = enum.auto()
    UNTIL = enum.auto()
    FROM = enum.auto()
    TO = enum.auto()
    BETWEEN = enum.auto()
    BETWEEN_CLOSES = enum.auto()
    AND = enum.auto()
    OR = enum.auto()
    LATER = enum.auto()
    OF = enum.auto()
    THE = enum.auto()
    IN = enum.auto()
    ON = enum.auto()
    AT = enum.auto()  # before a clock time
    ROUGHLY = enum.auto()  # before a count
    ROUGHLY_CLOSES = enum.auto()  # after the count
    OR_SO = enum.auto()  # after a count or its unit: approximately
    SOME_MORE = enum.auto()  # "and a bit": after a count or its unit
    JUST_OVER = enum.auto()  # before a count
    JUST_UNDER = enum.auto()  # before a count; after it in languages without spaces
    THING = enum.auto()  # beside it a weak word is a thing and not a time
    NOW = enum.auto()
    PART = enum.auto()  # name of a part of the day
    DAY_PART = enum.auto()  # (days from today, name of a part): "tonight"
    CLOCK = enum.auto()  # (hour, minute): noon, midnight
    HOUR_MARK = enum.auto()  # o'clock
    PAST_HOUR = enum.auto()
    TO_HOUR = enum.auto()  # "to" in "quarter to five", "moins" in "cinq heures moins le quart"
    HALF = enum.auto()
    OR_EQUAL = enum.auto()  # after "later than": the named end is included
    HALF_OF = enum.auto()  # after an ordinal: "the second half of"
    QUARTER_OF = enum.auto()  # a quarter of what follows
    WHICH_PART = enum.auto()  # first 1, middle 0, last -1: beside "third" and "half", and before "week of"
    PARTS_OF = enum.auto()  # denominator: "thirds", "drittel"; 0 for "分之", which is between the two numbers
    MIXED = enum.auto()  # Fraction: "anderthalb"
    SHARE_UNIT = enum.auto()  # (count, Unit): "quarter of an hour"
    ISO_WEEK = enum.auto()  # (year or None, week, weekday or None): "2026-W45"
    MERIDIEM = enum.auto()  # 0 or 12
    EDGE = enum.auto()  # start, middle, end
    SOFT = enum.auto()  # early, late
    SEASON = enum.auto()  # first month
    PLURAL = enum.auto()  # (tag, value): plural of what the tag names, "summers"
    HOLIDAY = enum.auto()  # key of holidays.py
    REST = enum.auto()  # the remainder of a period
    EVE = enum.auto()
    SAME = enum.auto()  # time or day: "this time" in "this time last year"
    COMPARED = enum.auto()  # "as" in "at the same time as"
    AROUND = enum.auto()
    EARLIER = enum.auto()
    DECADE = enum.auto()  # tens of the decade: "nineties" is 90, "two-thousands" 2000
    DECADE_CLOSES = enum.auto()
    DECADE_OPENS = enum.auto()
    CENTURY_LAST = enum.auto()
    QUARTER_MARK = enum.auto()
    HALF_MARK = enum.auto()
    ORDINAL_MARK = enum.auto()
    ORDINAL_OPENS = enum.auto()
    MONTH_MARK = enum.auto()  # after a number: the month of that number
    DAY_MARK = enum.auto()
    YEAR_MARK = enum.auto()
    ERA = enum.auto()
    FISCAL_YEAR = enum.auto()  # after a year: from April to March
    YEAR_WORD = enum.auto()  # years from this one
    COUNTER = enum.auto()  # between a number and what it counts
    AFTER_CLOSES = enum.auto()
    UNTIL_CLOSES = enum.auto()
    BEGINNING = enum.auto()  # "the week beginning"
    FEELING = enum.auto()  # key of a vague time: "recently"
    ANCHOR = enum.auto()
    LABEL = enum.auto()  # numbers after it belong to a thing, not a time
    WEAK = enum.auto()  # has another common meaning: needs support around it
    COMMON = enum.auto()  # common word, for language detection


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """The words and rules of one language. A field's words are separated by ``|``."""

    code: str
    months: tuple[str, ...]
    weekdays: tuple[str, ...]
    units: dict[Unit, str]
    shares: dict[tuple[int, Unit], str] = field(default_factory=dict)  # words for parts of a unit
    fractions: dict[int, str] = field(default_factory=dict)  # denominator: "third|thirds"; 0 for "分之"
    mixed: dict[tuple[int, int], str] = field(default_factory=dict)  # (numerator, denominator): "anderthalb"
    cardinals: tuple[str, ...] = ()  # from zero
    tens: tuple[str, ...] = ()  # from twenty
    ordinals: tuple[str, ...] = ()  # from first
    ordinal_tens: tuple[str, ...] = ()  # from twentieth
    hundreds: tuple[str, ...] = ()  # words for whole hundreds, from one hundred
    hundred: str = ""
    thousand: str = ""
    ten: str = ""  # if it multiplies the number before it, as in Chinese
    eras: dict[int, str] = field(default_factory=dict)  # the year before an era's first
    vague: dict[int, str]
    days: dict[int, str]
    relatives: dict[int, str]
    years: dict[int, str] = field(default_factory=dict)  # words for whole years, relative to the current one
    words: dict[Tag, str]
    parts: dict[str, str]
    day_parts: dict[tuple[int, str], str]
    clock_names: dict[tuple[int, int], str]
    meridiems: dict[int, str]
    edges: dict[str, str]
    which_parts: dict[int, str]
    seasons: dict[int, str]
    holidays: dict[str, str]
    plurals: dict[tuple[Tag, Any], str] = field(default_factory=dict)  # forms that may be plural
    same: dict[str, str]
    decades: dict[int, str]
    feelings: dict[str, str]
    weak: str = ""
    common: str = ""
    month_first: bool = False  # the order in 03/04
    dotted_dates: bool = False  # 3.4. is a date
    joined_numbers: str = ""  # the "und" inside "einundzwanzig"
    joined_halves: str = ""  # the "einhalb" of "zweieinhalb"
    ordinal_endings: str = ""  # endings of the first form of an ordinal: "dreißigste" and "r"
    written_umlauts: bool = False  # "Maerz" is "März"
    joined_parts: bool = False  # "Dienstagabend" is one word
    before_day_is_day: bool = False  # "avant hier" is one day, not everything before it
    last_weekday_of_last_week: bool = False  # "上星期三" is Wednesday of last week
    scriptless: bool = False  # written without spaces between words


Meanings = dict[Tag, Any]
_UMLAUTS = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue"})
_ABBREVIATION = 4  # letters; a month abbreviation ("dec", "sept") needs support, as it may be another word
_ENDINGS = (Tag.ORDINAL_MARK, Tag.DECADE_CLOSES, Tag.QUARTER_MARK, Tag.HALF_MARK)


class Lexicon:
    """The words of one table, folded and split into tokens; `match` finds the longest entry."""

    def __init__(self, language: Language) -> None:
        self.language = language
        self._entries: dict[tuple[str, ...], Meanings] = {}
        self._longest: dict[str, int] = {}
        for words, tag, value in _entries(language):
            for phrase in words.split("|"):
                self._add(folded_words(phrase), tag, value)
                if language.written_umlauts and (written := phrase.translate(_UMLAUTS)) != phrase:
                    self._add(folded_words(written), tag, value)

    def _add(self, tokens: tuple[str, ...], tag: Tag, value: Any) -> None:
        if not tokens:
            return
        self._entries.setdefault(tokens, {}).setdefault(tag, value)
        self._longest[tokens[0]] = max(self._longest.get(tokens[0], 0), len(tokens))
        if "-" in tokens:
            self._add(tuple(token for token in tokens if token != "-"), tag, value)

    def match(self, tokens: list[str], index: int) -> tuple[int, Meanings]:
        """Return the longest entry at *index*: its number of tokens (0 for none) and its meanings."""
        for size in range(min(self._longest.get(tokens[index], 0), len(tokens) - index), 0, -1):
            if result := self._entries.get(tuple(tokens[index : index + size])):
                return size, result
        return 0, {}

    def knows(self, tokens: list[str], index: int) -> bool:
        """True if a word of the language is at *index*; endings such as "th" are not words."""
        return any(tag not in _ENDINGS for tag in self.match(tokens, index)[1])

    def entries(self) -> Iterator[tuple[str, ...]]:
        """Yield every entry as tokens."""
        return iter(self._entries)


def _entries(language: Language) -> Iterator[tuple[str, Tag, Any]]:
    for number, words in enumerate(language.months, start=1):
        yield words, Tag.MONTH, number
        short = [word for word in words.split("|")[1:] if len(word) <= _ABBREVIATION]
        yield "|".join(short), Tag.WEAK, True
    for number, words in enumerate(language.weekdays):
        yield words, Tag.WEEKDAY, number
    yield from _numbers(language)
    by_value: tuple[tuple[dict[Any, str], Tag], ...] = (
        (language.units, Tag.UNIT),
        (language.vague, Tag.VAGUE),
        (language.days, Tag.DAY),
        (language.relatives, Tag.RELATIVE),
        (language.parts, Tag.PART),
        (language.day_parts, Tag.DAY_PART),
        (language.clock_names, Tag.CLOCK),
        (language.meridiems, Tag.MERIDIEM),
        (language.edges, Tag.EDGE),
        (language.which_parts, Tag.WHICH_PART),
        (language.plurals, Tag.PLURAL),
        (language.seasons, Tag.SEASON),
        (language.holidays, Tag.HOLIDAY),
        (language.same, Tag.SAME),
        (language.decades, Tag.DECADE),
        (language.feelings, Tag.FEELING),
        (language.eras, Tag.ERA),
        (language.years, Tag.YEAR_WORD),
        (language.shares, Tag.SHARE_UNIT),
        (language.fractions, Tag.PARTS_OF),
    )
    for words_of, tag in by_value:
        for value, words in words_of.items():
            yield words, tag, value
    for ratio, words in language.mixed.items():
        yield words, Tag.MIXED, Fraction(*ratio)
    for tag, words in language.words.items():
        yield words, tag, True
    yield language.weak, Tag.WEAK, True
    yield language.common, Tag.COMMON, True


def _numbers(language: Language) -> Iterator[tuple[str, Tag, int | Fraction]]:
    for number, words in enumerate(language.cardinals):
        yield words, Tag.NUMBER, number
    for number, words in enumerate(language.tens, start=2):
        yield words, Tag.NUMBER, number * 10
    for number, words in enumerate(language.ordinals, start=1):
        yield _declined(language, words), Tag.ORDINAL, number
    for number, words in enumerate(language.ordinal_tens, start=2):
        yield _declined(language, words), Tag.ORDINAL, number * 10
    for number, words in enumerate(language.hundreds, start=1):
        yield words, Tag.NUMBER, number * 100
    yield language.ten, Tag.SCALE, 10
    yield language.hundred, Tag.SCALE, 100
    yield language.thousand, Tag.SCALE, 1000
    if language.joined_numbers:
        for ten, tens in enumerate(language.tens, start=2):
            for unit, units in enumerate(language.cardinals[:10]):
                for word in units.split("|") if unit else ():
                    yield f"{word.strip()}{language.joined_numbers}{tens}", Tag.NUMBER, ten * 10 + unit
                    if ten - 2 < len(language.ordinal_tens):
                        ordinal = (
                            f"{word.strip()}{language.joined_numbers}{language.ordinal_tens[ten - 2].split('|')[0]}"
                        )
                        yield _declined(language, ordinal), Tag.ORDINAL, ten * 10 + unit
    if language.joined_halves:
        for number, words in enumerate(language.cardinals[1:13], start=1):
            for word in words.split("|"):
                yield f"{word}{language.joined_halves}", Tag.MIXED, number + Fraction(1, 2)


def _declined(language: Language, words: str) -> str:
    """Add the inflected forms of an ordinal: "dreißigste" is also "dreißigster"."""
    first = words.split("|", maxsplit=1)[0]
    return "|".join([words, *(f"{first}{ending}" for ending in language.ordinal_endings.split("|") if ending)])
