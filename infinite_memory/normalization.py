"""Unicode normalization in linear time. The only caller of ``unicodedata.normalize``. Standard library only.

Why not that function alone: it sorts the combining marks of a letter by insertion, which is quadratic in their number and holds the
GIL, so one text of 80 kB of unordered marks blocked every client for seconds. Long runs are sorted here first. The result
is the same for every text (canonical ordering is a stable sort, UAX #15), so hashes and ids of normalized texts do not change.
The Stream-Safe Text Format (UAX #15, section 13) inserts a joiner after 30 marks instead, which would change them.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

Form = Literal["NFC", "NFD", "NFKC", "NFKD"]
_MAYBE_SEEN = ("Co", "Cn")  # private use, and unassigned: a font may display it

MAX_RUN = 30
"""Longest run of marks left to the library: no script needs more on one letter, according to the Stream-Safe Text Format."""


def normalize(form: Form, text: str) -> str:
    """Return *text* in the normalization form *form*, like ``unicodedata.normalize``."""
    if text.isascii():
        return text
    decomposition: Form = "NFKD" if form in ("NFKC", "NFKD") else "NFD"
    # Every longer run covers one of these positions; few texts have a mark at any of them.
    if any(_get_marks(character, decomposition) for character in set(text[MAX_RUN :: MAX_RUN + 1])):
        text = _sort_long_runs(text, decomposition)
    return unicodedata.normalize(form, text)


def is_blank(text: str) -> bool:
    """True if *text* has no visible characters: only white space, control and format characters, such as the zero width space."""
    return all(_is_unseen(character) for character in text[:MAX_RUN]) and all(map(_is_unseen, set(text)))


def _is_unseen(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] in "ZC" and category not in _MAYBE_SEEN


def _sort_long_runs(text: str, decomposition: Form) -> str:
    """Return *text* with its long runs of marks in canonical order."""
    parts: list[str] = []
    done = 0
    for start, end in _find_long_runs(text, decomposition):
        run = text[start:end]
        marks = run.translate({ord(character): _get_marks(character, decomposition) for character in set(run)})
        parts += text[done:start], "".join(sorted(marks, key=unicodedata.combining))
        done = end
    return "".join(parts) + text[done:]


def _find_long_runs(text: str, decomposition: Form) -> Iterator[tuple[int, int]]:
    """Yield start and end of every run of more than `MAX_RUN` marks."""
    end = 0
    for position in range(MAX_RUN, len(text), MAX_RUN + 1):
        if position < end or not _get_marks(text[position], decomposition):
            continue
        start, before, end = position, end, position + 1
        while start > before and _get_marks(text[start - 1], decomposition):
            start -= 1
        while end < len(text) and _get_marks(text[end], decomposition):
            end += 1
        if end - start > MAX_RUN:
            yield start, end


@lru_cache(maxsize=4096)
def _get_marks(character: str, decomposition: Form) -> str:
    """Return the combining marks that *character* decomposes to, or "" if the decomposition contains anything else."""
    marks = unicodedata.normalize(decomposition, character)
    return marks if all(map(unicodedata.combining, marks)) else ""
