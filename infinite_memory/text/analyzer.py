"""The indexed words of a memory, which include words about it, and their division into passages.

The indexed words of a memory are the day it happened in words, its speaker, title and plain tags, its text, and the
previous turn if both are short: measured on two public sets of conversations, the previous turn gains eight points of
recall and the day one and a half, and neither costs anything where memories are pages long.

A long text is split into passages, because a question is answered by a passage, whatever else the text says: BM25 divides by
length, so among short memories a page of minutes was hardly ever found, even if it alone had all words of the query. Passages
are about as long as other memories, overlap, and are evenly spaced, so that the last is as long as the others.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from infinite_memory.models import CONVERSATION_PREFIXES, SPEAKER_PREFIXES
from infinite_memory.text.stopwords import content_words
from infinite_memory.text.tokenizer import tokenize

ANALYZER_VERSION = 5
"""Incremented whenever tokenization or the set of indexed words changes: text indexes are then rebuilt."""

SHORT_WORDS = 100
"""A turn of more words is indexed without its neighbour; limits of 40 to 100 differ by less than a point."""

PASSAGE_WORDS = 200
"""Words per passage; a text of up to one and a half times that is not split."""

OVERLAP_WORDS = 50
"""Any run of this many words is whole in at least one passage."""

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def is_short(text: str) -> bool:
    """True if *text* is short enough to be indexed with its neighbour."""
    return len(text) <= SHORT_WORDS * 20 and len(text.split(maxsplit=SHORT_WORDS)) <= SHORT_WORDS


def words_about(
    *, occurred_at: dt.datetime, speaker: str | None = None, title: str | None = None, tags: Iterable[str] = ()
) -> list[str]:
    """Return the indexed words of a memory apart from its text, unstemmed."""
    words = day_words(occurred_at)
    for extra in (speaker, title, *plain_tags(tags)):
        if extra:
            words += content_words(tokenize(extra))
    return words


def day_words(instant: dt.datetime) -> list[str]:
    """Return the UTC date of *instant* as words: weekday, day, month, year."""
    day = instant.astimezone(dt.UTC)
    return [_DAYS[day.weekday()], str(day.day), _MONTHS[day.month - 1], str(day.year)]


def plain_tags(tags: Iterable[str]) -> list[str]:
    """Return the tags without those that name a speaker or conversation; of others such as ``project:apollo`` every word counts."""
    prefixes = SPEAKER_PREFIXES + CONVERSATION_PREFIXES
    return [tag for tag in tags if not tag.strip().casefold().startswith(prefixes)]


def passages(words: Sequence[str]) -> list[Sequence[str]]:
    """Split the words of a text into overlapping passages; a short text, even an empty one, is one passage."""
    if len(words) <= PASSAGE_WORDS * 3 // 2:
        return [words]
    last = len(words) - PASSAGE_WORDS
    count = 1 + -(-last // (PASSAGE_WORDS - OVERLAP_WORDS))
    starts = [last * number // (count - 1) for number in range(count)]
    return [words[start : start + PASSAGE_WORDS] for start in starts]
