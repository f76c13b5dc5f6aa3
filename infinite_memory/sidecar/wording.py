"""What a memory is searched by, beyond its text, and which words say nothing.

The searched words of a memory are the day it happened in words, its speaker, title and plain tags, its text, and what
was said just before it where both are short: measured on two public sets of conversations, the previous turn gains
eight points of recall and the day one and a half, and neither costs anything where memories are pages long.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from infinite_memory.models import CONVERSATION_PREFIXES, SPEAKER_PREFIXES
from infinite_memory.sidecar.base import TextRow
from infinite_memory.sidecar.words import words_of

SHORT_WORDS = 100
"""A turn of more words stands for itself; 40 to 100 differ by less than a point."""

STOP_WORDS = frozenset((
    "a", "an", "the", "and", "or", "but", "if", "of", "at", "by", "for", "with", "about", "into", "to", "from", "in",
    "on", "as", "than", "then", "so", "is", "are", "was", "were", "be", "been", "being", "am", "do", "does", "did",
    "doing", "done", "has", "have", "had", "having", "will", "would", "shall", "should", "can", "could", "might",
    "must", "what", "which", "who", "whom", "whose", "when", "where", "why", "how", "this", "that", "these", "those",
    "there", "here", "it", "its", "he", "she", "they", "them", "his", "her", "their", "him", "hers", "theirs",
))  # fmt: skip
"""Articles, auxiliaries, question words, pronouns of others. First-person words stay in: dropping them loses one to two points."""

_MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")


def is_short(text: str) -> bool:
    """Tell whether *text* is short enough to be read with its neighbour."""
    return len(text) <= SHORT_WORDS * 20 and len(text.split(maxsplit=SHORT_WORDS)) <= SHORT_WORDS


def day_words(instant: dt.datetime) -> list[str]:
    """Name the day of *instant* in UTC: weekday, day, month, year."""
    day = instant.astimezone(dt.UTC)
    return [_DAYS[day.weekday()], str(day.day), _MONTHS[day.month - 1], str(day.year)]


def content_words(words: Sequence[str]) -> list[str]:
    """Leave out the words that say nothing."""
    return [word for word in words if word not in STOP_WORDS]


def searched_words(row: TextRow, text_words: Sequence[str]) -> list[str]:
    """Give the words by which a memory is found, unstemmed; *text_words* are those of its text."""
    words = day_words(row.row.occurred_at)
    for extra in (row.row.speaker, row.title, *plain_tags(row.tags)):
        if extra:
            words += content_words(words_of(extra))
    words += content_words(text_words)
    if row.before:
        words += content_words(words_of(row.before))
    return words


def plain_tags(tags: tuple[str, ...]) -> list[str]:
    """Leave out the tags that name a speaker or conversation; of others such as ``project:apollo`` every word counts."""
    prefixes = SPEAKER_PREFIXES + CONVERSATION_PREFIXES
    return [tag for tag in tags if not tag.strip().casefold().startswith(prefixes)]
