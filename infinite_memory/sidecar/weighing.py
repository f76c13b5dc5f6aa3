"""How memories are weighed in bulk: the caller brings the rule, the sidecar the columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Weigh: TypeAlias = "Callable[[Floats, Floats], Floats]"
"""Gets importances (NaN where none) and creation times (milliseconds since 1970), gives a weight for each."""
