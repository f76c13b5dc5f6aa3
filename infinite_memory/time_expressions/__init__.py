"""Time in words: "what did we decide two weeks ago" and now and a zone give a half-open range in UTC.

`find_time` is the door. The grammar is our own and the same for all languages; a table a language holds its words. Where the
tables find nothing, `locales` reads the time words of some two hundred more, and a phrase that it cannot read is put to
``dateparser`` where the caller says that it is a time. Nothing is compiled before it is first used; what `locales` loads takes a
second of processor time once, so that whoever serves others calls `find_time` in a thread.

Past first: whatever can be read as past or future is read as past. `docs/time.md` shows phrases and their ranges.
"""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from infinite_memory.models import TimeRange
from infinite_memory.time_expressions.instants import parse_day_or_instant, parse_instant

EXAMPLES: tuple[str, ...] = ("yesterday", "last week", "between March and May 2025")
"""Phrases to show where no time was found."""


class Anchor(enum.Enum):
    """Something from which a range starts that only the store knows."""

    LAST_CONVERSATION = "last_conversation"


@dataclass(frozen=True, slots=True)
class FoundTime:
    """What `find_time` found.

    ``words`` are the time words as they stood in the text, ``rest`` the text without them (may be empty). ``span`` is aware UTC,
    half open. ``unread`` are parts of the text that look like a time and were not read. With an ``anchor`` the caller sets the
    start; ``span.start`` is None then and ``span.end`` is now.
    """

    span: TimeRange
    words: str
    rest: str
    anchor: Anchor | None = None
    unread: tuple[str, ...] = ()


def find_time(
    text: str, now: dt.datetime, zone: ZoneInfo, language: str | None = None, *, whole: bool = False
) -> FoundTime | None:
    """Find the time that *text* speaks of.

    Args:
        text: A phrase or a whole sentence; only its first 1,000 characters are looked at.
        now: The aware instant from which the words are read.
        zone: Where days begin and end.
        language: One of en, de, fr, es, pt, zh, ja; None finds out from the text, and reads other languages too.
        whole: The caller says that all of *text* is a time: dateparser's own parser is asked where nothing else reads it.

    Returns:
        The range and where its words stood; None if there is no time in the text.

    Raises:
        ValueError: *now* is naive, or *language* is none of the seven.
    """
    from infinite_memory.time_expressions.search import search  # the grammar is compiled when it is first needed

    result = search(text, now, zone, language, whole=whole)
    if result is None:
        return None
    anchor = Anchor.LAST_CONVERSATION if result.anchored else None
    return FoundTime(result.span, result.words, result.rest, anchor, result.unread)


def find_unsettled(text: str, zone: ZoneInfo) -> tuple[str, ...]:
    """Return the holidays in *text* that are other days from place to place, as "the bank holiday": `find_time` reads none of them."""
    from infinite_memory.time_expressions import search

    return search.find_unsettled(text, zone)


__all__ = ["EXAMPLES", "Anchor", "FoundTime", "find_time", "find_unsettled", "parse_day_or_instant", "parse_instant"]
