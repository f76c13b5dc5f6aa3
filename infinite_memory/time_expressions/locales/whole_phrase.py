"""A whole phrase parsed by ``dateparser`` itself: the last resort, if the caller says that a text is a time and nothing else can parse it.

Its parser finds times in common words, so it is restricted. The locales are those that have time words in the text and
are among its likely languages. Every word must be one of the locale's, and the text in the parser's own English must be a
count of units that ends in "ago", a date with its year, or a day with its time: nothing less, so that "4 days" is not a time. The
width of the range follows from the smallest unit in the text. If two locales disagree, there is no result.

Why not always: it takes a second to load, returns moments where people mean weeks, and has none of the conventions used here.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from typing import NamedTuple

from infinite_memory.time_expressions.lexicon import Unit
from infinite_memory.time_expressions.locales.ambiguous import EDGES
from infinite_memory.time_expressions.spans import Span, half_width, unit_span

MAX_LENGTH = 60
"""Characters of a phrase; bounds the work of the parser."""

_MAX_WORDS = 8
_MAX_LOCALES = 4
_MAX_COUNT = 10_000
_UNITS = {unit.name.lower(): unit for unit in (Unit.MINUTE, Unit.HOUR, Unit.DAY, Unit.WEEK, Unit.MONTH, Unit.YEAR)}
_UNIT = "|".join(_UNITS)
_MONTH = "january|february|march|april|may|june|july|august|september|october|november|december"
_WEEKDAY = "(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day ,? ?)?"
_CLOCK = r"(?P<clock> ,? ?\d{1,2}:\d{2})"
_COUNTED = re.compile(rf"(?:\d{{1,5}} (?:{_UNIT})s? ,? ?)+ago")
_DAY_AND_TIME = re.compile(rf"\d{{1,5}} days? ago{_CLOCK}", re.ASCII)
_DATE = re.compile(
    rf"{_WEEKDAY}(?:\d{{1,2}}\.? (?:{_MONTH}) ,? ?\d{{4}}|(?:{_MONTH}) \d{{1,2}} ,? ?\d{{4}}|\d{{4}} (?:{_MONTH}) \d{{1,2}})"
    rf"(?: year)?{_CLOCK}?",
    re.ASCII,
)
_PART = re.compile(rf"(\d+) ({_UNIT})", re.ASCII)


class _Said(NamedTuple):
    """The smallest unit in the text; *clock* if it is a clock time."""

    unit: Unit
    clock: bool = False


class Reading(NamedTuple):
    """A locale's reading of the whole text."""

    span: Span
    code: str


def read_whole(text: str, now: dt.datetime, instant: dt.datetime, codes: list[str]) -> Reading | None:
    """Parse all of *text* as a time with the first few of *codes*; *now* is naive wall time, *instant* the same moment in UTC."""
    if len(text) > MAX_LENGTH or len(text.split()) > _MAX_WORDS:
        return None
    readings = [reading for code in codes[:_MAX_LOCALES] if (reading := _read(text, now, instant, code))]
    if len({(reading.span.start, reading.span.end) for reading in readings}) != 1:
        return None
    return readings[0]


def _read(text: str, now: dt.datetime, instant: dt.datetime, code: str) -> Reading | None:
    from dateparser.conf import Settings
    from dateparser.languages.loader import default_loader

    try:
        locale = default_loader.get_locale(code)
    except (AttributeError, ModuleNotFoundError, ValueError):  # a language without data
        return None
    settings = Settings()
    if not locale.is_applicable(text, strip_timezone=False, settings=settings):
        return None

    def in_english(phrase: str) -> str:
        return " ".join(locale.translate(phrase, keep_formatting=False, settings=settings).split())

    english = in_english(text)
    unit = _smallest_unit(english)
    if unit is None or _drops_an_edge(text, english, code, in_english):
        return None
    moment = _moment(text, now, code)
    return Reading(_range(moment, unit, now, instant), code) if moment is not None and moment <= now else None


def _smallest_unit(english: str) -> _Said | None:
    """Return the smallest unit in the parser's English; None if that is not clearly a past time."""
    if _COUNTED.fullmatch(english):
        parts = _PART.findall(english)
        if not all(0 < int(count) <= _MAX_COUNT for count, _ in parts):
            return None
        return _Said(min(_UNITS[unit] for _, unit in parts))
    if _DAY_AND_TIME.fullmatch(english):
        return _Said(Unit.MINUTE, clock=True)
    dated = _DATE.fullmatch(english)
    if dated is None:
        return None
    return _Said(Unit.MINUTE, clock=True) if dated["clock"] else _Said(Unit.DAY)


def _drops_an_edge(text: str, english: str, code: str, in_english: Callable[[str], str]) -> bool:
    """True if the parser skips a word for since, until, before or after: an open range must not be reduced to its bound."""
    edges = EDGES.get(code.split("-", maxsplit=1)[0], frozenset())
    words = text.split()
    return any(
        word.casefold() in edges and in_english(" ".join(words[:index] + words[index + 1 :])) == english
        for index, word in enumerate(words)
    )


def _moment(text: str, now: dt.datetime, code: str) -> dt.datetime | None:
    """Return the moment parsed by dateparser, with its strictest settings."""
    from dateparser.date import DateDataParser

    settings = {
        "RELATIVE_BASE": now,
        "PREFER_DATES_FROM": "past",
        "STRICT_PARSING": True,
        "PARSERS": ["relative-time", "absolute-time"],
        "RETURN_AS_TIMEZONE_AWARE": False,
    }
    result = DateDataParser(locales=[code], settings=settings).get_date_data(text)
    moment: dt.datetime | None = result.date_obj
    return moment.replace(tzinfo=None) if moment is not None else None


def _range(moment: dt.datetime, phrase: _Said, now: dt.datetime, instant: dt.datetime) -> Span:
    """Return the calendar unit that contains *moment*; for hours and minutes the moment with one of them on either side."""
    if phrase.clock:
        return Span(moment, moment + dt.timedelta(minutes=1), Unit.MINUTE)
    if phrase.unit >= Unit.DAY:
        return unit_span(moment, phrase.unit)
    middle, width = instant - (now - moment), 2 * half_width(1, phrase.unit)
    return Span(middle - width, middle + width, phrase.unit)
