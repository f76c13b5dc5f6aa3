"""Dates written out in languages that have no table here ("12 gennaio 2016"), read by ``dateparser``.

It is asked last, when the grammar found nothing or only one end of a range, and only for what looks like a day, a word and
a year of four digits, at most twice for a text: importing it costs a third of a second, and with all its languages on it
finds weekdays in everyday words. What it must return is a full date; ranges are made here, with both ends inside.
"""

from __future__ import annotations

import datetime as dt
import warnings
from functools import lru_cache

from infinite_memory.time_phrases.spans import Span
from infinite_memory.time_phrases.tokens import Token

_MOST_DATES = 2
_MOST_LETTERS = 20  # of a month's name
_MOST_LINKS = 4  # tokens between the two ends of a range: "al", "till den"
_FIRST_YEAR, _LAST_YEAR = 1900, 2100


def written_dates(text: str, tokens: list[Token], known: str = "") -> tuple[Span, int, int] | None:
    """Find one date, or two that make a range: the span, and the places of the first token and of the one behind.

    *known* are the words that the grammar has understood; only a range that holds more than those is looked for then.
    """
    places = _date_places(tokens)
    if not places or (known and (len(places) < _MOST_DATES or places[1][0] - places[0][1] > _MOST_LINKS)):
        return None
    if known and tokens[places[1][1] - 1].end - tokens[places[0][0]].start <= len(known):
        return None
    dates = [(_parse(text[tokens[start].start : tokens[after - 1].end]), start, after) for start, after in places]
    found = [(day, start, after) for day, start, after in dates if day is not None]
    if not found or (known and len(found) < _MOST_DATES):
        return None
    first, start, after = found[0]
    if len(found) > 1 and found[1][1] - after <= _MOST_LINKS and found[1][0] >= first:
        return Span(first, found[1][0] + dt.timedelta(days=1)), start, found[1][2]
    return Span(first, first + dt.timedelta(days=1)), start, after


def _date_places(tokens: list[Token]) -> list[tuple[int, int]]:
    """Find where what looks like a date starts and ends; at most `_MOST_DATES`."""
    places: list[tuple[int, int]] = []
    at = 0
    while at + 2 < len(tokens) and len(places) < _MOST_DATES:
        size = _date_shape(tokens, at)
        if size:
            places.append((at, at + size))
        at += max(size, 1)
    return places


def _date_shape(tokens: list[Token], at: int) -> int:
    """Tell how many tokens from *at* look like day, month in words and year; 0 if they do not."""
    if not (tokens[at].folded.isdigit() and len(tokens[at].folded) <= 2):
        return 0
    place = at + 1
    while place < len(tokens) and place - at <= 3 and tokens[place].folded in (".", "de", "di", "of", "-", "."):
        place += 1
    if (
        place >= len(tokens)
        or not tokens[place].folded.isalpha()
        or not 3 <= len(tokens[place].folded) <= _MOST_LETTERS
    ):
        return 0
    place += 1
    while place < len(tokens) and place - at <= 5 and tokens[place].folded in (".", ",", "de", "del", "-"):
        place += 1
    if place < len(tokens) and tokens[place].folded.isdigit() and len(tokens[place].folded) == 4:
        return place + 1 - at if _FIRST_YEAR <= int(tokens[place].folded) <= _LAST_YEAR else 0
    return 0


@lru_cache(maxsize=256)
def _parse(written: str) -> dt.datetime | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # dateparser's own, of no use to a caller
        import dateparser

        found = dateparser.parse(
            written,
            settings={
                "REQUIRE_PARTS": ["day", "month", "year"],
                "PARSERS": ["absolute-time"],
                "RETURN_AS_TIMEZONE_AWARE": False,
                "STRICT_PARSING": True,
            },
        )
    return dt.datetime(found.year, found.month, found.day) if isinstance(found, dt.datetime) else None
