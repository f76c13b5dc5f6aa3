"""Cuts a text into the words by which it is searched: folded, identifiers whole and in parts, unspaced scripts in pairs.

Why not the index's own tokenizers: they cut ``ERR_CONN_RESET`` and ``v2.14.3-rc1`` into pieces only, make one word of
a whole Chinese sentence, and split Indian scripts at their vowel signs. Here

- letters are compared in one form: compatibility forms unified, case folded, accents taken off ("Núñez" is found by
  "nunez");
- a run such as ``src/app/main.py`` or ``v2.14.3-rc1`` is one word, followed by its parts, so that it is found by its letters
  and by each part;
- Chinese, Japanese, Korean and Thai runs give their characters and pairs of characters, for no blank tells their
  words apart.

The same text always gives the same words in the same order, so a quoted phrase is found as a run of words.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

LONGEST = 200
"""A run of more characters is an encoded blob, not a word; only its parts are kept, cut to this."""

SHORTEST_CODE = 4  # characters; "v2" or "a1" stands everywhere

_UNSPACED = (  # Thai and Lao, Burmese, Khmer, kana, Han, Hangul
    r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    r"\U00020000-\U0003ffff"
)
_ACCENTS = re.compile("[\u0300-\u036f]+")
_POSSESSIVE = re.compile("['’]s$")
_JOINER_CHARS = r"_\-./\\:@+#~$%&=[]"


def fold_word(text: str) -> str:
    """Bring *text* to the form in which words are compared."""
    plain = text.casefold()
    if plain.isascii():
        return plain
    apart = unicodedata.normalize("NFD", unicodedata.normalize("NFKC", plain))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart)).casefold()


def words_of(text: str) -> list[str]:
    """Cut *text* into words, in order; an identifier is followed by its parts."""
    return list(_words(fold_word(text)))


def codes_of(text: str) -> list[str]:
    """List the codes, paths, versions and addresses in *text*: digits among letters, parts joined by more than hyphens."""
    runs = (_POSSESSIVE.sub("", match.group().strip(_EDGES)) for match in _patterns()[0].finditer(fold_word(text)))
    return [run for run in runs if _is_code(run)]


_EDGES = "-.:@+#~$%&=[]"  # belong to a sentence when they stand at the end of a run; slashes and underscores do not


def _words(folded: str) -> Iterator[str]:
    runs, parts, unspaced = _patterns()
    for match in runs.finditer(folded):
        run = match.group().strip(_EDGES)
        pieces = [_POSSESSIVE.sub("", piece) for piece in parts.findall(run)]
        if not pieces:
            continue
        run = _POSSESSIVE.sub("", run)
        if len(pieces) == 1 and pieces[0] == run:
            yield from _plain(run, unspaced)
            continue
        if len(run) <= LONGEST and (len(pieces) > 1 or run != pieces[0]):
            yield run
        for piece in pieces:
            if piece != run:
                yield from _plain(piece, unspaced)


def _plain(word: str, unspaced: re.Pattern[str]) -> Iterator[str]:
    """Give a word without joiners: whole, or where its script has no blanks, its characters and pairs."""
    if word.isascii():
        yield word[:LONGEST]
        return
    for stretch in unspaced.split(word):
        if not stretch:
            continue
        if not unspaced.fullmatch(stretch):
            yield stretch[:LONGEST]
            continue
        for at, letter in enumerate(stretch):
            yield letter
            if at + 1 < len(stretch):
                yield stretch[at : at + 2]


def _is_code(run: str) -> bool:
    letters, digits = any(one.isalpha() for one in run), any(one.isdigit() for one in run)
    joined = any(one in "_/\\.@:#" for one in run[1:])
    return SHORTEST_CODE <= len(run) <= LONGEST and (
        (letters and (digits or joined)) or (digits and run.count(".") > 1)
    )


@lru_cache(maxsize=1)
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Make the patterns: runs of word characters and joiners, words within them, unspaced stretches within those.

    Python's ``\\w`` lacks the combining marks without which Indian scripts fall to pieces, so they are collected here.
    """
    marks = _ranges([point for point in range(0x300, 0x1100) if unicodedata.category(chr(point)).startswith("M")])
    word = rf"[^\W_]|[{marks}\u200d]"
    return (
        re.compile(rf"(?:{word}|[{re.escape(_JOINER_CHARS)}]|(?<=\w)['’](?=\w))+"),
        re.compile(rf"(?:{word}|(?<=\w)['’](?=\w))+"),
        re.compile(f"([{_UNSPACED}]+)"),
    )


def _ranges(points: list[int]) -> str:
    made, start = [], None
    for point in [*points, sys.maxunicode + 1]:
        if start is None:
            start = last = point
        elif point == last + 1:
            last = point
        else:
            made.append(f"{chr(start)}-{chr(last)}")
            start = last = point
    return "".join(made)
