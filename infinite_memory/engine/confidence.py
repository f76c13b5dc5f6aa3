"""What a match is worth: how sure it is that a memory answers, between 0 and 1, the same in every mode and contract.

Why a curve and no raw cosine: with all-MiniLM-L6-v2 unrelated short texts lie at 0.0 to 0.2, related ones at 0.4 to 0.7 and only
rewordings above 0.8, so a raw cosine reads as doubt where there is none.
"""

from __future__ import annotations

import math

SAME_TEXT = 0.99  # the question is what the memory says, but for case and white space

_MIDDLE = 0.42  # cosine at which a hit is as likely wanted as not
_STEEPNESS = 8.0


def confidence_of(score: float) -> float:
    """Map a cosine (-1 to 1) to a confidence (0 to 1), rising with it, four decimals; for what has no words to go by."""
    curve = 1.0 / (1.0 + math.exp(-_STEEPNESS * (score - _MIDDLE)))
    top = 1.0 / (1.0 + math.exp(-_STEEPNESS * (1.0 - _MIDDLE)))
    return round(min(1.0, max(0.0, curve / top)), 4)


def confidence_in(cosine: float | None, coverage: float, *, verbatim: float = 0.0, lifted: bool = False) -> float:
    """Tell how sure it is that a memory answers a question.

    Args:
        cosine: Nearness in meaning, discounted for windows; None where it is not known.
        coverage: Share of the question's words that the memory has.
        verbatim: Weight of what it has letter for letter.
        lifted: Whether it bears a tag that the question names.
    """
    known = cosine if cosine is not None else 0.15 + 0.4 * coverage
    return round(1.0 / (1.0 + math.exp(-(-4.2 + 6.0 * known + 2.5 * coverage + 1.5 * verbatim + 0.5 * lifted))), 4)
