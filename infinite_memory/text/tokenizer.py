"""Splits a text into indexed words: folded, identifiers whole and in parts, unspaced scripts as characters and bigrams.

Why not the index's own tokenizers: they only split ``ERR_CONN_RESET`` and ``v2.14.3-rc1`` into pieces, make one word of
a whole Chinese sentence, and split Indian scripts at their vowel signs. Here

- letters are normalized: compatibility forms unified, case folded, accents stripped ("Núñez" is found by "nunez"), and
  apostrophes unified ("O’Brien" is found by "O'Brien");
- a run such as ``src/app/main.py`` or ``v2.14.3-rc1`` is one word, followed by its parts, so that it is found as a whole and by each
  part;
- runs of scripts without spaces (Chinese, Japanese, Thai, Khmer, ...) become their characters, each with its marks, and bigrams of them;
- an emoji is one word with everything joined to it (skin tone, family, flag, keycap), and a second one without its skin tone;
  variation selectors are ignored.

Tokenization is deterministic, so a quoted phrase is found as a run of words.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from infinite_memory.normalization import normalize

MAX_LENGTH = 200
"""A run of more characters is an encoded blob, not a word; only its parts are kept, cut to this."""

MIN_CODE_LENGTH = 4  # characters; "v2" or "a1" is too common

_UNSPACED = (  # Thai and Lao, Burmese, Khmer, Tai, Balinese, Javanese; kana, bopomofo, Han, Yi, Hangul, Tangut
    r"\u0e00-\u0eff\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f\u1780-\u17ff\u1950-\u19df\u1a20-\u1aaf\u1b00-\u1b7f\ua980-\ua9df"
    r"\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua48f\uac00-\ud7af"
    r"\uf900-\ufaff\U00016fe0-\U00018dff\U0001b000-\U0001b2ff\U00020000-\U0003ffff"
)
_DROPPED = re.compile(
    "[\u0300-\u036f"  # accents
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"  # Hebrew points
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u0640"  # Arabic vowel signs
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]+"  # invisible characters
)
_ZWJ = "\u200d"
_SELECTORS = re.compile("[\ufe0e\ufe0f]+")
_TONES = re.compile("[\U0001f3fb-\U0001f3ff]+")
_SIGN = (  # Unicode's Extended_Pictographic, except signs that are letters by compatibility
    "[\u00a9\u00ae\u203c\u2049\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u2388\u23cf\u23e9-\u23fa\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe"
    "\u2600-\u27bf\u2934\u2935\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\U0001f000-\U0001f0ff\U0001f10d-\U0001f10f\U0001f12f"
    "\U0001f16c-\U0001f171\U0001f17e\U0001f17f\U0001f18e\U0001f191-\U0001f19a\U0001f201-\U0001f320\U0001f321-\U0001faff]"
)
_ELEMENT = f"{_SIGN}\ufe0f?[\U0001f3fb-\U0001f3ff]?(?:[\U000e0020-\U000e007e]+\U000e007f)?"
_EMOJI = rf"[\U0001f1e6-\U0001f1ff]{{2}}|[0-9#*]\ufe0f?\u20e3|{_ELEMENT}(?:\u200d{_ELEMENT})*"
_LANGUAGE = re.compile(r"[a-z]{1,3}(?:\+\+|#)")  # names of programming languages: C++, C#, F#
_POSSESSIVE = re.compile("'s$")
_APOSTROPHES = dict.fromkeys(map(ord, "\u2019\u2018\u02bc\u02bb\u05f3"), "'")  # apostrophes as they are typed
_JOINER_CHARS = r"_\-./\\:@+#~$%&=[]"


def fold_word(text: str) -> str:
    """Return *text* in the form in which words are compared."""
    plain = text.casefold()
    if plain.isascii():
        return plain
    if _ZWJ in plain:
        plain = _patterns().joined.sub("", plain)
    apart = normalize("NFD", normalize("NFKC", plain))
    return normalize("NFC", _DROPPED.sub("", apart)).casefold().translate(_APOSTROPHES)


def tokenize(text: str) -> list[str]:
    """Split *text* into words, in order; an identifier is followed by its parts."""
    return list(_words(fold_word(text)))


def find_codes(text: str) -> list[str]:
    """Return the codes, paths, versions and addresses in *text*: letters with digits, or parts joined by more than hyphens."""
    runs = (_POSSESSIVE.sub("", match.group().strip(_EDGES)) for match in _patterns().runs.finditer(fold_word(text)))
    return [run for run in runs if _is_code(run)]


def is_emoji(word: str) -> bool:
    """True if *word*, which comes from `tokenize`, is an emoji."""
    return not word.isascii() and _patterns().emoji.match(word) is not None


_EDGES = "-.:@+#~$%&=[]"  # at the end of a run, these belong to the sentence; slashes and underscores do not


def _words(folded: str) -> Iterator[str]:
    patterns = _patterns()
    for match in (patterns.runs if folded.isascii() else patterns.words).finditer(folded):
        if match.lastgroup == "emoji":
            yield from _emoji_words(match.group())
        else:
            yield from _run_words(match.group(), patterns)


def _emoji_words(sequence: str) -> Iterator[str]:
    emoji = _SELECTORS.sub("", sequence)
    yield emoji
    plain = _TONES.sub("", emoji)
    if plain and plain != emoji:
        yield plain


def _run_words(text: str, patterns: _Patterns) -> Iterator[str]:
    if text.isascii() and text.isalpha():  # most runs are one plain word
        yield text[:MAX_LENGTH]
        return
    run = text.strip(_EDGES)
    pieces = [_POSSESSIVE.sub("", piece) for piece in patterns.parts.findall(run)]
    if not pieces:
        return
    if _LANGUAGE.fullmatch(text):
        yield text
    run = _POSSESSIVE.sub("", run)
    if len(pieces) == 1 and pieces[0] == run:
        yield from _plain(run, patterns)
        return
    if len(run) <= MAX_LENGTH and (len(pieces) > 1 or run != pieces[0]):
        yield run
    for piece in pieces:
        if piece != run:
            yield from _plain(piece, patterns)


def _plain(word: str, patterns: _Patterns) -> Iterator[str]:
    """Yield a word without joiners: whole, or as characters and bigrams if its script has no spaces."""
    if word.isascii():
        yield word[:MAX_LENGTH]
        return
    for stretch in patterns.unspaced.split(word):
        if not stretch:
            continue
        if not patterns.unspaced.fullmatch(stretch):
            yield stretch[:MAX_LENGTH]
            continue
        letters = patterns.letters.findall(stretch)
        for index, letter in enumerate(letters):
            yield letter
            if index + 1 < len(letters):
                yield letter + letters[index + 1]


def _is_code(run: str) -> bool:
    if run.isalpha():  # the common case
        return False
    letters, digits = any(token.isalpha() for token in run), any(token.isdigit() for token in run)
    joined = any(character in "_/\\.@:#" for character in run[1:])
    return MIN_CODE_LENGTH <= len(run) <= MAX_LENGTH and (
        (letters and (digits or joined)) or (digits and run.count(".") > 1)
    )


class _Patterns(NamedTuple):
    """The compiled patterns of the tokenizer.

    In order: runs of word characters and joiners; those and emoji; words within a run; unspaced parts of words, and their letters; emoji;
    joiners that only change the look of a letter.
    """

    runs: re.Pattern[str]
    words: re.Pattern[str]
    parts: re.Pattern[str]
    unspaced: re.Pattern[str]
    letters: re.Pattern[str]
    emoji: re.Pattern[str]
    joined: re.Pattern[str]


_MARK_BLOCKS = (
    (0x300, 0x1E00), (0x2CEF, 0x2E00), (0x302A, 0x309B), (0xA66F, 0xAC00), (0x10A00, 0x12000), (0x16AF0, 0x17000), (0x1E000, 0x1E950),
)  # fmt: skip
"""Blocks with the combining marks of scripts in Unicode."""


@lru_cache(maxsize=1)
def _patterns() -> _Patterns:
    """Return the patterns. Python's ``\\w`` lacks combining marks, without which Indian scripts are split, so they are added."""
    points = [point for block in _MARK_BLOCKS for point in range(*block)]
    marks = _ranges([point for point in points if unicodedata.category(chr(point)).startswith("M")])
    word = rf"[^\W_]|[{marks}]"
    runs = rf"(?:{word}|[{re.escape(_JOINER_CHARS)}]|(?<=\w)'(?=\w))+"
    return _Patterns(
        re.compile(runs),
        re.compile(rf"(?P<emoji>{_EMOJI})|(?:{runs})"),
        re.compile(rf"(?:{word}|(?<=\w)'(?=\w))+"),
        re.compile(f"([{_UNSPACED}]+)"),
        re.compile(f"[^{marks}][{marks}]*|[{marks}]+"),
        re.compile(_EMOJI),
        re.compile(f"(?<=[\\w{marks}]){_ZWJ}"),
    )


def _ranges(points: list[int]) -> str:
    ranges, start = [], None
    for point in [*points, sys.maxunicode + 1]:
        if start is None:
            start = last = point
        elif point == last + 1:
            last = point
        else:
            ranges.append(f"{chr(start)}-{chr(last)}")
            start = last = point
    return "".join(ranges)
