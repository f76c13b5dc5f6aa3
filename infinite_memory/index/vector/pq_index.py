"""When and how a table of vectors gets a coarse index in front of the exact search, and how many of its hits to rescore.

Why from 65,536 rows on: at 384 dimensions exact search takes 1.9 ms of CPU there, coarse search with exact rescoring of its pool
0.9 ms; at 32,768 both take the same.

Why the pool has no fixed size: how many rows must be rescored depends on how close their scores are. A query close to some memories
finds them with 300 rows of a million. One far from all candidates (a topic's tag and a question about something else) needs 1,000 to
5,000 for the same recall. So rows are rescored in order of their coarse score, and the observed error of the codes determines when
no further row is expected among the best (`rows_needed`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from infinite_memory.index.id_map import Slots
from infinite_memory.index.vector.faiss_search import (
    SAMPLE_ROWS,
    CoarseCodes,
    Codes,
    FastScanIndex,
    Mask,
    Quantiser,
    Ranked,
)
from infinite_memory.malloc_tuning import release_freed

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

FROM_ROWS = 65_536  # see above
REFRESH_ROWS = 16_384  # rows beyond the coarse index before it is extended: half a millisecond of exact search
RETRAIN_GROWTH = 8  # a quantiser trained on a table this many times smaller is retrained
MIN_POOL, POOL_FACTOR = 300, 10  # minimum rows rescored, in total and per hit: they estimate the error of the codes
ERRORS = 3.5  # standard deviations: one row in four thousand has a larger error
PACKED_SHARE = 20  # if less than one row in this many passes a filter, those rows are repacked, which is then cheaper


@dataclass(frozen=True, slots=True, eq=False)
class PQIndex:
    """A coarse index over the first ``count`` rows of a table. ``trained_on`` is the number of rows when it was trained."""

    quantiser: Quantiser
    trained_on: int
    codes: CoarseCodes
    packed: FastScanIndex

    @classmethod
    def of(cls, quantiser: Quantiser, trained_on: int, codes: CoarseCodes) -> PQIndex:
        """Create one from the codes of all rows."""
        index = cls(quantiser, trained_on, codes, quantiser.pack(codes))
        release_freed()
        return index

    @property
    def count(self) -> int:
        """Number of rows covered."""
        return len(self.codes)

    def among(self, marks: Mask) -> Callable[[Vectors, int], Ranked]:
        """Return a search function over the marked rows only; it takes a vector and the number of rows."""
        rows = np.flatnonzero(marks)
        if len(rows) == self.count:
            return self.packed.search
        if len(rows) * PACKED_SHARE > self.count:
            return partial(self.packed.search, selected=marks)
        repacked = self.quantiser.pack(self.codes[rows])

        def search(vector: Vectors, count: int) -> Ranked:
            positions, scores = repacked.search(vector, count)
            return rows[positions], scores

        return search


def pool_size(count: int) -> int:
    """Return the minimum number of rows to rescore for the best *count*."""
    return max(MIN_POOL, POOL_FACTOR * count)


def rows_needed(coarse: NDArray[np.float32], exact: NDArray[np.float32], count: int) -> int:
    """Return how many rows to rescore so that hardly any of the best *count* is missed.

    Args:
        coarse: The coarse scores, descending.
        exact: The exact scores of the first of these rows, at least *count*.
    """
    errors = exact - coarse[: len(exact)]
    bound = np.partition(exact, -count)[-count] - errors.mean() - ERRORS * errors.std()
    return int(np.count_nonzero(coarse >= bound))


def is_due(coarse: PQIndex | None, dim: int, rows: int) -> bool:
    """True if a table of *rows* vectors needs a coarse index, or an extension of its own."""
    covered = coarse.count if coarse is not None else 0
    return rows >= FROM_ROWS and rows - covered >= REFRESH_ROWS and Quantiser.suits(dim)


def extended(coarse: PQIndex | None, rows: int, read_vectors: Callable[[Slots], Codes]) -> PQIndex:
    """Return a coarse index over the first *rows* rows, reusing the codes of *coarse* unless it has to be retrained.

    Args:
        read_vectors: Returns the vectors of rows, which are passed in ascending order.
    """
    if coarse is None or rows > RETRAIN_GROWTH * coarse.trained_on:
        sample = np.sort(np.random.default_rng(rows).choice(rows, min(rows, SAMPLE_ROWS), replace=False))
        quantiser, trained_on = Quantiser.trained(read_vectors(sample)), rows
        encoded = np.empty((0, quantiser.code_bytes), np.uint8)
    else:
        quantiser, trained_on, encoded = coarse.quantiser, coarse.trained_on, coarse.codes
    codes = np.empty((rows, quantiser.code_bytes), np.uint8)
    codes[: len(encoded)] = encoded
    for start in range(len(encoded), rows, REFRESH_ROWS):
        end = min(rows, start + REFRESH_ROWS)
        codes[start:end] = quantiser.encode(read_vectors(np.arange(start, end)))
    return PQIndex.of(quantiser, trained_on, codes)
