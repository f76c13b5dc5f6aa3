"""What a memory is searched by: which words, beyond those of its text, and in which passages.

The searched words of a memory are the day it happened in words, its speaker, title and plain tags, its text, and what
was said just before it where both are short: measured on two public sets of conversations, the previous turn gains
eight points of recall and the day one and a half, and neither costs anything where memories are pages long.

A long text is cut into passages, for a question is answered by a passage, whatever else the text says: BM25 divides by the
length, so among short memories a page of minutes was as good as not there, though it alone had all the words that were asked
for. Passages are of the length of other memories, overlap, and are evenly spread, so that the last is as full as the others.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from infinite_memory.models import CONVERSATION_PREFIXES, SPEAKER_PREFIXES
from infinite_memory.text.stopwords import content_words
from infinite_memory.text.tokenizer import tokenize

ANALYZER_VERSION = 5
"""Rises whenever memories are cut into other words or other words are searched: a text index is then built again."""

SHORT_WORDS = 100
"""A turn of more words stands for itself; 40 to 100 differ by less than a point."""

PASSAGE_WORDS = 200
"""Words of a passage; a text that is half as long again stays whole."""

OVERLAP_WORDS = 50
"""What stands together within so many words is together in one passage at least."""

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def is_short(text: str) -> bool:
    """True if *text* is short enough to be read with its neighbour."""
    return len(text) <= SHORT_WORDS * 20 and len(text.split(maxsplit=SHORT_WORDS)) <= SHORT_WORDS


def words_about(
    *, occurred_at: dt.datetime, speaker: str | None = None, title: str | None = None, tags: Iterable[str] = ()
) -> list[str]:
    """Return the words by which a memory is found beside those of its text, unstemmed."""
    words = day_words(occurred_at)
    for extra in (speaker, title, *plain_tags(tags)):
        if extra:
            words += content_words(tokenize(extra))
    return words


def day_words(instant: dt.datetime) -> list[str]:
    """Return the day of *instant* in UTC in words: weekday, day, month, year."""
    day = instant.astimezone(dt.UTC)
    return [_DAYS[day.weekday()], str(day.day), _MONTHS[day.month - 1], str(day.year)]


def plain_tags(tags: Iterable[str]) -> list[str]:
    """Leave out the tags that name a speaker or conversation; of others such as ``project:apollo`` every word counts."""
    prefixes = SPEAKER_PREFIXES + CONVERSATION_PREFIXES
    return [tag for tag in tags if not tag.strip().casefold().startswith(prefixes)]


def passages(words: Sequence[str]) -> list[Sequence[str]]:
    """Cut the words of a text into overlapping stretches; one for a text that is short enough, even an empty one."""
    if len(words) <= PASSAGE_WORDS * 3 // 2:
        return [words]
    last = len(words) - PASSAGE_WORDS
    count = 1 + -(-last // (PASSAGE_WORDS - OVERLAP_WORDS))
    starts = [last * number // (count - 1) for number in range(count)]
    return [words[start : start + PASSAGE_WORDS] for start in starts]
