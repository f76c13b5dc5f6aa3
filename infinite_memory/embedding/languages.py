"""Detect texts in a language that a model cannot read and the second one may: by its vocabulary, then by ``py3langid``.

The vocabulary alone mistakes names and codes for another language in 2 to 4 of 100 English texts; language detection alone is unreliable on
short texts. Together, over public data sets, texts taken for foreign: of 3,300 English messages and questions of conversations none, of 298
English questions of an encyclopedia one (about a term of Latin law); of German, Spanish, Turkish, Romanian and Vietnamese questions 92 to
96 of 100, of paragraphs 99, of other scripts all.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infinite_memory.embedding.base import Embedder

MAX_CHARS = 400  # of a text are inspected
MIN_READ = 0.75  # share of its words below which a text is in another script
MIN_LETTERS = 2  # minimum for something to count as a text, not a sign
MAX_SPELLED_OUT = 0.25  # share of words that the vocabulary has only in pieces; above it the language is detected
MARGIN = 10.0  # by which another language must be likelier than English; 5 and 20 differ by one text in a hundred
ENGLISH = "en"
SECOND_SCRIPTS = frozenset({"LATIN", "CYRILLIC", "ARABIC", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "THAI"})
"""First words of the Unicode names of the letters that the second model reads. It knows the letters of other scripts, but takes all texts
in them for the same: Hindi questions find their paragraph among 240 in 5 of 100 cases, Greek ones in 15."""

_NOT_ARABIC = frozenset("پچژگکیٹڈڑےں")  # letters of Persian and Urdu, which the second model cannot read either


def is_foreign(embedder: Embedder, text: str) -> bool:
    """True if *text* is in a language that the model of *embedder* cannot read, and the second one may."""
    head = text[:MAX_CHARS]
    verdict = judge_by_vocabulary(embedder, head)
    return _is_other_language(head) if verdict is None else verdict


def judge_by_vocabulary(embedder: Embedder, text: str) -> bool | None:
    """Return whether *text* is foreign by the vocabulary; None if only language detection can tell. Fast: it loads nothing."""
    head = text[:MAX_CHARS]
    reading = embedder.reading(head)
    if reading.share < MIN_READ:
        letters = [letter for word in reading.unread for letter in word if letter.isalpha() and not _is_latin(letter)]
        if len(letters) >= MIN_LETTERS:
            return _NOT_ARABIC.isdisjoint(letters) and sum(map(_is_in_second, letters)) > len(letters) / 2
    spelled = embedder.spelled_out(head)
    return False if spelled is None or spelled <= MAX_SPELLED_OUT else None


def _is_latin(letter: str) -> bool:
    """True for letters that the first model reads: a word of them that it cannot read is a code, or too long for a word."""
    return unicodedata.name(letter, "").startswith("LATIN ")


def _is_in_second(letter: str) -> bool:
    """True if a letter is of a script that the second model was trained on."""
    return unicodedata.name(letter, "").split(" ", 1)[0].split("-", 1)[0] in SECOND_SCRIPTS


def _is_other_language(text: str) -> bool:
    """Detect the language; the first call loads the detector, which takes about a second of CPU time."""
    import py3langid

    ranked = py3langid.rank(text)
    scores = {code: float(score) for code, score in ranked}
    language, score = ranked[0]
    return bool(language != ENGLISH and float(score) - scores.get(ENGLISH, float("-inf")) > MARGIN)
