"""What a memory's importance is worth by now: it decays with age, but never to nothing.

Importance is kept as it was given (0 to 10, None when nobody said) and decays when it is read, so nothing is rewritten. Age takes
half of it at most: an old fact of weight stays ahead of a trifle of today.
"""

from __future__ import annotations

import datetime as dt

from infinite_memory.index.base import ImportanceDecay
from infinite_memory.models import MemoryRecord

FULL = 10.0  # the highest importance that can be given
UNSAID = 0.5  # weight of a memory that nobody gave an importance, of 1.0
HALF_LIFE_DAYS = 90.0  # after a season, half of what age can take is gone
LASTING_SHARE = 0.5  # what age cannot take


def decay_at(now: dt.datetime) -> ImportanceDecay:
    """Return the rule by which memories are weighed at *now*."""
    return ImportanceDecay(now, FULL, UNSAID, HALF_LIFE_DAYS, LASTING_SHARE)


def importance_now(memory: MemoryRecord, now: dt.datetime) -> float:
    """Return the weight of *memory* at *now*, 0.0 to 1.0, four decimals."""
    return round(decay_at(now).weight(memory.importance, memory.created_at), 4)
