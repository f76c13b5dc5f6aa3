"""Tokenization: runs of letters, runs of digits, single punctuation characters, each with its position in the text.

Case, width and Latin accents are folded one character at a time, so that positions in the folded text are positions in the
text. Linear in the text, which is truncated to `EXAMINED` characters.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from infinite_memory.normalization import normalize

EXAMINED = 1000
"""Maximum number of characters that are read: questions are shorter, and the cost is bounded (50 ms at the very worst)."""

_FRACTIONS = "\u00bc-\u00be\u2150-\u215e"
_RUNS = re.compile(rf"[^\W\d_{_FRACTIONS}]+|\d+|\S")
_APOSTROPHES = dict.fromkeys("\u2019\u2018\u02bc\ua78c\u2032`\u00b4", "'")
_DASHES = dict.fromkeys("\u2013\u2014\u2212\u2010\u2011\u2012\u301c\uff5e~", "-")
_SIGNS = _APOSTROPHES | _DASHES | {"\u3001": ",", "\u3002": ".", "º": "o", "ª": "a"}


@dataclass(frozen=True, slots=True)
class Token:
    """One token: its folded text and its position ``text[start:end]``; *glued* if no space precedes it."""

    folded: str
    start: int
    end: int
    glued: bool
    capital: bool


@lru_cache(maxsize=4096)
def _fold_character(character: str) -> str:
    if character in _SIGNS:
        return _SIGNS[character]
    if unicodedata.decomposition(character).startswith("<fraction>"):
        return character  # NFKC would join the digits of "1½"
    wide = normalize("NFKC", character).casefold()
    bare = normalize("NFD", wide)
    return "".join(letter for letter in bare if not unicodedata.combining(letter)) if bare[:1].isascii() else wide


def is_unspaced(character: str) -> bool:
    """True if *character* belongs to a script without spaces between words (Han, Kana)."""
    return "\u3005" <= character <= "\u30ff" or "\u3400" <= character <= "\u9fff"


def tokenize(text: str) -> list[Token]:
    """Split the first `EXAMINED` characters of *text* into tokens; *text* should be in NFC."""
    examined = text[:EXAMINED]
    if examined.isascii():
        folded, places = examined.lower(), None
    else:
        parts = [_fold_character(character) for character in examined]
        folded = "".join(parts)
        places = [position for position, part in enumerate(parts) for _ in part]
    tokens: list[Token] = []
    last = -1
    for run in _RUNS.finditer(folded):
        start, end = run.span()
        word = run.group()
        pieces = [(word, start, end)]
        if places is not None and any(map(is_unspaced, word)):
            pieces = [(letter, start + index, start + index + 1) for index, letter in enumerate(word)]
        for piece, begin, stop in pieces:
            first, after = (begin, stop) if places is None else (places[begin], places[stop - 1] + 1)
            tokens.append(Token(piece, first, after, begin == last, examined[first].isupper()))
            last = stop
    return tokens


def folded_words(words: str) -> tuple[str, ...]:
    """Fold an entry of a table to its tokens."""
    return tuple(token.folded for token in tokenize(normalize("NFC", words)))
