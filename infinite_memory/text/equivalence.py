"""When two texts say the same: the rule that keeps a corrected fact from being taken for a repetition.

Vectors hardly see a digit, a name or a "not", so they only propose. Two texts are the same when they differ in nothing but filler
words, letter case, punctuation and the endings of words. A number, a name, a negation or any other word that stands in one of
them alone keeps them apart: "meet at 5" and "meet at 6" are two facts.
"""

from __future__ import annotations

import re

from infinite_memory.normalization import normalize
from infinite_memory.text.stopwords import FILLERS

_TOKEN = re.compile(r"[^\W_]+(?:[.:,'’\-/][^\W_]+)*|[^\s\w.,;:!\"'()\[\]…–—’“”„«»]")
"""Words, numbers with what joins them, and every sign that may carry meaning: a minus, a currency, a question mark."""

_MIN_STEM_LENGTH = 4
_ENDINGS = frozenset({"", "s", "es", "en", "e", "n"})


def exact_key(text: str) -> str:
    """Return what is equal for texts that differ in white space and Unicode form only."""
    return " ".join(normalize("NFC", text).split())


def say_the_same(text: str, other: str) -> bool:
    """True if two texts say the same words in the same order, but for fillers, case, punctuation and endings."""
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
