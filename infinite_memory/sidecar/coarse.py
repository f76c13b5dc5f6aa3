"""When and how a table of vectors gets its coarse index, which stands in front of the exact search.

Why from 65,536 rows on: measured at 384 dimensions, exact search takes 1.9 ms of CPU there, coarse search with exact
scoring of its pool 0.9 ms; at 32,768 both take the same. Why a pool of ten times what is wanted: recall at 100 against
exact search is 0.66, 0.94, 0.998 with pools of 1, 3 and 10 times as many, and scoring a thousand rows takes half a
millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from infinite_memory.sidecar.keys import Slots
from infinite_memory.sidecar.vectors import SAMPLE_ROWS, CoarseCodes, Codes, Packed, Quantiser

FROM_ROWS = 65_536
REFRESH_ROWS = 16_384  # rows that lie beyond the coarse index before it is extended: half a millisecond of exact search
RETRAIN_GROWTH = 8  # a quantiser that was trained on a table this many times smaller is trained anew
LEAST_POOL, POOL_FACTOR = 300, 10


@dataclass(frozen=True, slots=True, eq=False)
class Coarse:
    """A coarse index over the first ``count`` rows of a table. ``trained_on`` is how many rows there were at its training."""

    quantiser: Quantiser
    trained_on: int
    codes: CoarseCodes
    packed: Packed

    @classmethod
    def of(cls, quantiser: Quantiser, trained_on: int, codes: CoarseCodes) -> Coarse:
        """Make one of the codes of all rows."""
        return cls(quantiser, trained_on, codes, quantiser.pack(codes))

    @property
    def count(self) -> int:
        """Rows that it covers."""
        return len(self.codes)

    def among(self, rows: Slots) -> Packed:
        """Give an index over some rows only; it numbers them by their place in *rows*."""
        return self.quantiser.pack(self.codes[rows])


def pool_size(wanted: int) -> int:
    """Tell how many rows to score exactly so that the best *wanted* are among them."""
    return max(LEAST_POOL, POOL_FACTOR * wanted)


def is_due(coarse: Coarse | None, dim: int, rows: int) -> bool:
    """Tell whether a table of *rows* vectors is to get a coarse index, or to have its own extended."""
    covered = coarse.count if coarse is not None else 0
    return rows >= FROM_ROWS and rows - covered >= REFRESH_ROWS and Quantiser.suits(dim)


def extended(coarse: Coarse | None, rows: int, read: Callable[[Slots], Codes]) -> Coarse:
    """Make a coarse index over the first *rows* rows: what *coarse* has is taken over, unless it is to be trained anew.

    Args:
        read: Gives the vectors of rows, which are given in rising order.
    """
    if coarse is None or rows > RETRAIN_GROWTH * coarse.trained_on:
        sample = np.sort(np.random.default_rng(rows).choice(rows, min(rows, SAMPLE_ROWS), replace=False))
        quantiser, trained_on = Quantiser.trained(read(sample)), rows
        known = np.empty((0, quantiser.code_bytes), np.uint8)
    else:
        quantiser, trained_on, known = coarse.quantiser, coarse.trained_on, coarse.codes
    codes = np.empty((rows, quantiser.code_bytes), np.uint8)
    codes[: len(known)] = known
    for at in range(len(known), rows, REFRESH_ROWS):
        end = min(rows, at + REFRESH_ROWS)
        codes[at:end] = quantiser.encode(read(np.arange(at, end)))
    return Coarse.of(quantiser, trained_on, codes)
