"""Language detection with ``py3langid``, only for texts in which a locale has found a time word.

Loading its model takes about a second of processor time, so it is loaded on first use.
"""

from __future__ import annotations

from functools import lru_cache

from infinite_memory.time_expressions.languages import CODES

_MARGIN = 12.0  # maximum distance from the likeliest language; near relatives are within ten
_MARGIN_OF_OURS = 4.0  # the same if the likeliest has a table here and the grammar found nothing
_MAX_RANK = 5
_SAME = {"nb": "no", "fil": "tl", "he": "he", "iw": "he", "in": "id", "sh": "hr"}
"""Codes that differ between us and the model."""


@lru_cache(maxsize=64)
def rank(text: str) -> tuple[tuple[str, float], ...]:
    """Return the possible languages of *text*, likeliest first, with their scores."""
    import py3langid

    return tuple((code, float(score)) for code, score in py3langid.rank(text)[:_MAX_RANK])


def likeliest(text: str) -> tuple[str, ...]:
    """Return the two likeliest languages of *text*."""
    return tuple(code for code, _ in rank(text)[:2])


def likelihood(text: str, language: str) -> float | None:
    """Return the distance of *language* from the likeliest language of *text* (0.0 is the likeliest); None if it is too far."""
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
