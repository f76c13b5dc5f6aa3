"""Splits texts of any script into words: runs of letters with their marks, numbers with their values, punctuation.

Unlike `tokens.tokenize`, it keeps accents, which distinguish words in many languages, and supports the digits of every script.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from infinite_memory.normalization import normalize

# Soft hyphens, joiners, direction marks, tatweel.
_DROPPED = frozenset("\u00ad\u200b\u200c\u200d\u200e\u200f\u0640\ufeff")
# Vowel points.
_MARKS_DROPPED = (
    ("\u0591", "\u05c7"),
    ("\u0610", "\u061a"),
    ("\u064b", "\u065f"),
    ("\u0670", "\u0670"),
)
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]")  # Thai, Lao, Burmese, Khmer
_APOSTROPHES = dict.fromkeys("\u2019\u2018\u02bc\u02b9`\u00b4", "'")


@dataclass(frozen=True, slots=True)
class Word:
    """One word, number or punctuation character; ``text[start:end]`` is its position. ``value`` is set for numbers."""

    folded: str
    start: int
    end: int
    glued: bool
    value: int | None = None

    @property
    def is_letters(self) -> bool:
        """True if it consists of letters."""
        return self.value is None and self.folded[:1].isalpha()


def is_unspaced(text: str) -> bool:
    """True if *text* has a letter of a script without spaces between words."""
    return _UNSPACED.search(text) is not None


def fold(text: str) -> str:
    """Return *text* in a normalized spelling: compatibility form, lower case, without vowel points and joiners."""
    return "".join(_fold_character(character) for character in text)


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    if character in _DROPPED or any(first <= character <= last for first, last in _MARKS_DROPPED):
        return ""
    if character == "\u0130":
        return "i"  # the dotted capital of Turkish; its lower case would get a second dot
    return normalize("NFKC", _APOSTROPHES.get(character, character)).casefold()


@lru_cache(maxsize=4096)
def _kind(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Nd":
        return "digit"
    if category[0] in "LM":
        return "letter"
    return "blank" if character.isspace() else "sign"


def split_words(text: str, limit: int) -> list[Word]:
    """Split the first *limit* characters of *text* into words; *text* should be in NFC."""
    words: list[Word] = []
    run, begin, kind, last = "", 0, "blank", 0
    for position, character in enumerate(text[:limit] + " "):
        folded = _fold_character(character)
        now = _kind(folded[0]) if folded else kind
        if now != kind or kind == "sign":
            if run and kind != "blank":
                words.append(_word(run, begin, last, kind, words))
            run, begin, kind = "", position, now
        run += folded
        last = position + 1
    return words


def _word(run: str, start: int, end: int, kind: str, before: list[Word]) -> Word:
    glued = bool(before) and before[-1].end == start
    value = None
    if kind == "digit" and len(run) <= 4:
        value = int("".join(str(unicodedata.digit(digit)) for digit in run))
    return Word(run, start, end, glued, value)
