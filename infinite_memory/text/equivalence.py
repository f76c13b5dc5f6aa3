"""Decides whether two texts say the same, so that a corrected fact is not taken for a repetition.

Vectors hardly reflect a digit, a name or a "not", so they only propose candidates. Two texts are the same if they differ only in
filler words, letter case, punctuation and word endings. A number, a name, a negation or any other word that occurs in only one of
them makes them different: "meet at 5" and "meet at 6" are two facts.
"""

from __future__ import annotations

import re

from infinite_memory.normalization import normalize
from infinite_memory.text.stopwords import FILLERS

_TOKEN = re.compile(r"[^\W_]+(?:[.:,'’\-/][^\W_]+)*|[^\s\w.,;:!\"'()\[\]…–—’“”„«»]")
"""Words, numbers with their separators, and every symbol that may carry meaning: a minus, a currency, a question mark."""

_MIN_STEM_LENGTH = 4
_ENDINGS = frozenset({"", "s", "es", "en", "e", "n"})


def exact_key(text: str) -> str:
    """Return a key that is equal for texts that differ only in white space and Unicode form."""
    return " ".join(normalize("NFC", text).split())


def say_the_same(text: str, other: str) -> bool:
    """True if two texts have the same words in the same order, ignoring fillers, case, punctuation and endings."""
    first, second = _tokens(text), _tokens(other)
    if not first or not second:
        return exact_key(text) == exact_key(other)
    return len(first) == len(second) and all(map(_is_same_word, first, second))


def _tokens(text: str) -> list[str]:
    folded = normalize("NFC", text).casefold()
    return [token for token in _TOKEN.findall(folded) if token not in FILLERS]


def _is_same_word(word: str, other: str) -> bool:
    if word == other:
        return True
    if any(letter.isdigit() for letter in word + other):
        return False
    short, long = sorted((word, other), key=len)
    return len(short) >= _MIN_STEM_LENGTH and long.startswith(short) and long[len(short) :] in _ENDINGS
