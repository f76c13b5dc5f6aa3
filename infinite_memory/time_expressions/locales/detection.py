"""Which language a text is in, by ``py3langid``: asked only for texts in which a locale has found a time word.

Its model takes about a second of processor time to load, so it is loaded by the first such text and by nothing else.
"""

from __future__ import annotations

from functools import lru_cache

from infinite_memory.time_expressions.languages import CODES

_MARGIN = 12.0  # between the likeliest language and one that is still believed; near relatives lie within ten
_MARGIN_OF_OURS = 4.0  # where the likeliest has a table here and the grammar found nothing
_MAX_RANK = 5
_SAME = {"nb": "no", "fil": "tl", "he": "he", "iw": "he", "in": "id", "sh": "hr"}
"""Codes of ours that the model calls otherwise."""


@lru_cache(maxsize=64)
def rank(text: str) -> tuple[tuple[str, float], ...]:
    """Return the languages that *text* may be in, likeliest first, with their scores."""
    import py3langid

    return tuple((code, float(score)) for code, score in py3langid.rank(text)[:_MAX_RANK])


def likeliest(text: str) -> tuple[str, ...]:
    """Return the two languages that *text* is most likely in."""
    return tuple(code for code, _ in rank(text)[:2])


def likelihood(text: str, language: str) -> float | None:
    """Return how far *language* lies behind the likeliest language of *text* (0.0 is the likeliest); None if it is out."""
    ranked = rank(text)
    if not ranked:
        return None
    names = {language, _SAME.get(language, language)}
    best = ranked[0]
    for code, score in ranked:
        if code in names:
            behind = best[1] - score
            return behind if behind <= (_MARGIN_OF_OURS if best[0] in CODES else _MARGIN) else None
    return None
