"""Puts candidates in order: nearness in meaning and in words on one scale, and a lift for what the question names.

Why the parts are divided by their best and not spread between best and worst: the worst depends on how many
candidates were looked at, the best does not; on two public sets pools of 30 and of everything then give the same
order. Why the constants: each stands in the middle of a plateau where its neighbours differ by less than a point on
both sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from infinite_memory.models import MemoryId

MEANING_SHARE = 0.6  # of meaning against words in a hybrid recall; 0.5 to 0.7 are alike
TAG_LIFT = 0.3  # for bearing a tag that the question names; 0.2 to 0.4 are alike
WINDOW_DISCOUNT = 0.06  # the best of n windows is a luckier draw than one: cosine less this for each e-fold of windows
MOST_DISCOUNT = 0.12  # reached at eight windows; more was measured to change nothing where texts have that many, and hides longer ones
LEAST_COSINE = 0.3  # a best cosine under this is noise and is not blown up to full size
LEAST_COVERAGE = 0.3  # the same for words: a best match with less than this share of the question


@dataclass(slots=True)
class Candidate:
    """One memory that may answer, and what speaks for it. ``cosine`` is discounted for windows; None without a vector."""

    memory_id: MemoryId
    cosine: float | None = None
    windows: int = 1
    words: float = 0.0
    coverage: float = 0.0
    verbatim: float = 0.0
    lifted: bool = False


def discounted(cosine: float, windows: int) -> float:
    """Take off what the best of several windows owes to their number."""
    return cosine - min(MOST_DISCOUNT, WINDOW_DISCOUNT * math.log(max(1, windows)))


def rank(candidates: Iterable[Candidate], meaning_share: float) -> list[tuple[Candidate, float]]:
    """Order candidates by falling score, equal ones by newer id first.

    Args:
        meaning_share: 1 for meaning alone, 0 for words alone.
    """
    known = list(candidates)
    best_cosine = max((one.cosine for one in known if one.cosine is not None), default=0.0)
    best_words = max(known, key=lambda one: one.words, default=None)
    cosine_unit = max(best_cosine, LEAST_COSINE)
    words_unit = 0.0
    if best_words is not None and best_words.words > 0:
        words_unit = best_words.words * max(1.0, LEAST_COVERAGE / max(best_words.coverage, 1e-6))
    scored = [(one, _score(one, meaning_share, cosine_unit, words_unit)) for one in known]
    scored.sort(key=lambda pair: pair[0].memory_id, reverse=True)
    scored.sort(key=lambda pair: -pair[1])
    return scored


def _score(one: Candidate, meaning_share: float, cosine_unit: float, words_unit: float) -> float:
    meaning = max(0.0, one.cosine or 0.0) / cosine_unit
    words = one.words / words_unit if words_unit else 0.0
    # A letter-for-letter match is of words: it counts wherever words do.
    letters = one.verbatim if meaning_share < 1 else 0.0
    return round(meaning_share * meaning + (1 - meaning_share) * words + TAG_LIFT * one.lifted + letters, 9)
