"""What a similarity is worth: cosine of the embedding model to a confidence between 0 and 1.

Why a curve and no raw cosine: with all-MiniLM-L6-v2 unrelated short texts lie at 0.0 to 0.2, related ones at 0.4 to 0.7 and only
rewordings above 0.8, so a raw cosine reads as doubt where there is none.
"""

from __future__ import annotations

import math

_MIDDLE = 0.42  # cosine at which a hit is as likely wanted as not
_STEEPNESS = 8.0


def confidence_of(score: float) -> float:
    """Map a cosine (-1 to 1) to a confidence (0 to 1), rising with it, four decimals."""
    curve = 1.0 / (1.0 + math.exp(-_STEEPNESS * (score - _MIDDLE)))
    top = 1.0 / (1.0 + math.exp(-_STEEPNESS * (1.0 - _MIDDLE)))
    return round(min(1.0, max(0.0, curve / top)), 4)
