"""Time expressions: the words "what did we decide two weeks ago", an instant and a time zone become a half-open range in UTC.

`find_time` is the entry point. The grammar is our own and the same for all languages; each language has a table of words. If the
tables find nothing, `locales` parses the time words of about two hundred more languages, and a phrase that it cannot parse is passed to
``dateparser`` if the caller says that it is a time. Everything is compiled on first use; loading `locales` takes a
second of processor time once, so servers call `find_time` in a thread.

The past is preferred: an ambiguous expression is taken to be in the past. `docs/time.md` shows phrases and their ranges.
"""

from __future__ import annotations

import datetime as dt
import enum
from dataclasses import dataclass
from zoneinfo import ZoneInfo

from infinite_memory.models import TimeRange
from infinite_memory.time_expressions.instants import parse_day_or_instant, parse_instant

EXAMPLES: tuple[str, ...] = ("yesterday", "last week", "between March and May 2025")
"""Sample phrases for messages that no time was found."""


class Anchor(enum.Enum):
    """A start of a range that only the store can resolve."""

    LAST_CONVERSATION = "last_conversation"


@dataclass(frozen=True, slots=True)
class FoundTime:
    """The result of `find_time`.

    ``words`` is the time expression as written, ``rest`` the text without it (may be empty). ``span`` is aware UTC,
    half-open. ``unread`` are parts of the text that look like a time and were not parsed. With an ``anchor`` the caller sets the
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
    """Find the time expression in *text*.

    Args:
        text: A phrase or a whole sentence; only its first 1,000 characters are read.
        now: The aware instant to which the expression is relative.
        zone: The time zone of its days.
        language: One of en, de, fr, es, pt, zh, ja; None detects it, and also supports other languages.
        whole: The caller says that all of *text* is a time: fall back to dateparser's own parser.

    Returns:
        The range and the position of its words; None if there is no time in the text.

    Raises:
        ValueError: *now* is naive, or *language* is not one of the seven.
    """
    from infinite_memory.time_expressions.search import search  # the grammar is compiled on first use

    result = search(text, now, zone, language, whole=whole)
    if result is None:
        return None
    anchor = Anchor.LAST_CONVERSATION if result.anchored else None
    return FoundTime(result.span, result.words, result.rest, anchor, result.unread)


def find_unsettled(text: str, zone: ZoneInfo) -> tuple[str, ...]:
    """Return the holidays in *text* whose date depends on the place, like "the bank holiday": `find_time` parses none of them."""
    from infinite_memory.time_expressions import search

    return search.find_unsettled(text, zone)


__all__ = ["EXAMPLES", "Anchor", "FoundTime", "find_time", "find_unsettled", "parse_day_or_instant", "parse_instant"]
