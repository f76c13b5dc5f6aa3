"""Time in words: "what did we decide two weeks ago" and now and a zone give a half-open range in UTC.

`find_time` is the door. The grammar is our own and the same for all languages; a table a language holds its words. Nothing
is compiled before it is first used, and ``dateparser`` is loaded only for a single date that the tables do not know.

Past first: whatever can be read as past or future is read as past. `docs/time.md` shows phrases and their ranges.
"""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from infinite_memory.models import TimeRange
from infinite_memory.time_phrases.instants import parse_day_or_instant, parse_instant

EXAMPLES: tuple[str, ...] = ("yesterday", "last week", "between March and May 2025")
"""Phrases to show where no time was found."""


class Anchor(enum.Enum):
    """Something from which a range starts that only the store knows."""

    LAST_CONVERSATION = "last_conversation"


@dataclass(frozen=True, slots=True)
class FoundTime:
    """What `find_time` found.

    ``words`` are the time words as they stood in the text, ``rest`` the text without them (may be empty). ``span`` is aware UTC,
    half open. With an ``anchor`` the caller sets the start; ``span.start`` is None then and ``span.end`` is now.
    """

    span: TimeRange
    words: str
    rest: str
    anchor: Anchor | None = None


def find_time(text: str, now: dt.datetime, zone: ZoneInfo, language: str | None = None) -> FoundTime | None:
    """Find the time that *text* speaks of.

    Args:
        text: A phrase or a whole sentence; only its first 4,000 characters are looked at.
        now: The aware instant from which the words are read.
        zone: Where days begin and end.
        language: One of en, de, fr, es, pt, zh, ja; None finds out from the text.

    Returns:
        The range and where its words stood; None if there is no time in the text.

    Raises:
        ValueError: *now* is naive, or *language* is none of the seven.
    """
    from infinite_memory.time_phrases.search import search  # the grammar is compiled when it is first needed

    found = search(text, now, zone, language)
    if found is None:
        return None
    return FoundTime(found.span, found.words, found.rest, Anchor.LAST_CONVERSATION if found.anchored else None)


__all__ = ["EXAMPLES", "Anchor", "FoundTime", "find_time", "parse_day_or_instant", "parse_instant"]
