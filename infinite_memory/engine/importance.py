"""What a memory's importance is worth by now: it decays with age, but never to nothing.

Importance is kept as it was given (0 to 10, None when nobody said) and decays when it is read, so nothing is rewritten. Age takes
half of it at most: an old fact of weight stays ahead of a trifle of today.
"""

from __future__ import annotations

import datetime as dt
import math
from typing import TYPE_CHECKING

from infinite_memory.models import MemoryRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

FULL = 10.0  # the highest importance that can be given
UNSAID = 0.5  # weight of a memory that nobody gave an importance, of 1.0
HALF_LIFE_DAYS = 90.0  # after a season, half of what age can take is gone
_DAY_MS = 86_400_000.0
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def importance_now(memory: MemoryRecord, now: dt.datetime) -> float:
    """Give the weight of *memory* at *now*, 0.0 to 1.0, four decimals."""
    age_days = max(0.0, (now - memory.created_at) / dt.timedelta(days=1))
    given = UNSAID if memory.importance is None else min(1.0, memory.importance / FULL)
    return round(given * (0.5 + 0.5 * math.exp2(-age_days / HALF_LIFE_DAYS)), 4)


def weights_now(importance: Floats, created_ms: Floats, now: dt.datetime) -> Floats:
    """Give the weights of many memories at *now*, by the same rule.

    Args:
        importance: 0 to 10 each, NaN where nobody said.
        created_ms: Milliseconds since 1970 of their creation.
    """
    import numpy as np  # beside the model, never at the start of a process

    now_ms = (now - _EPOCH) / dt.timedelta(milliseconds=1)
    age_days = np.maximum(0.0, now_ms - created_ms) / _DAY_MS
    given = np.where(np.isnan(importance), UNSAID, np.minimum(1.0, importance / FULL))
    weights: Floats = given * (0.5 + 0.5 * np.exp2(-age_days / HALF_LIFE_DAYS))
    return weights
