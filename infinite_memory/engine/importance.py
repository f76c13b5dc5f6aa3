"""Importance decay: a memory's importance decreases with age, but never to zero.

Importance is stored as given (0 to 10, None if not given) and decays at read time, so nothing is rewritten. Age takes half of it at
most: an important old fact stays ahead of a trivial new one.
"""

from __future__ import annotations

import datetime as dt

from infinite_memory.index.base import ImportanceDecay
from infinite_memory.models import MemoryRecord

FULL = 10.0  # maximum importance
UNSAID = 0.5  # weight of a memory without importance, out of 1.0
HALF_LIFE_DAYS = 90.0  # after three months, half of the decaying part is gone
LASTING_SHARE = 0.5  # part that does not decay


def decay_at(now: dt.datetime) -> ImportanceDecay:
    """Return the decay rule as of *now*."""
    return ImportanceDecay(now, FULL, UNSAID, HALF_LIFE_DAYS, LASTING_SHARE)


def importance_now(memory: MemoryRecord, now: dt.datetime) -> float:
    """Return the weight of *memory* at *now*, 0.0 to 1.0, four decimals."""
    return round(decay_at(now).weight(memory.importance, memory.created_at), 4)
