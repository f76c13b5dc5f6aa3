"""Filtered vector search.

Large tables have a `PQIndex` in front: it returns a pool of rows that are rescored exactly. Rows beyond it, or all rows if there is
none, are searched exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from infinite_memory.index.id_map import Slots
from infinite_memory.index.vector.faiss_search import FEW_ROWS, Mask, Ranked, score, search_exactly
from infinite_memory.index.vector.pq_index import PQIndex, pool_size, rows_needed
from infinite_memory.index.vector.table import VectorSnapshot

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

SCORE_DECIMALS = 6
"""Decimals of scores: below the error of half precision, so that equal texts have equal scores."""

ASKED, MAX_ASKED = 4096, 16_384
"""Rows requested from the coarse index: initially, and at most. Rescoring 16,384 takes 5 ms; no vector of a text needs more."""

SCORED_AT_ONCE = 512
"""Rows copied at a time: memory for more has to be requested from the system, which takes longer than scoring them."""

ALL_SHARE = 4
"""A pool of more than one row in this many saves nothing over an exact search."""

GROWTH_FACTOR = 4
"""Factor by which a search that returned too few is widened."""

Scores = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """Distinct slots by descending score: the score of the slot's best vector, and its number within the slot."""

    slots: Slots
    scores: Scores
    windows: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class RowFilter:
    """Which slots a search may return.

    ``test`` returns a mask for the given slots, ``mask`` one for all slots (a pass over all of them), ``listed`` are the allowed
    slots, ascending, if known in advance. With ``is_open`` all slots are allowed.
    """

    test: Callable[[NDArray[Any]], Mask]
    mask: Callable[[], Mask]
    listed: Slots | None = None
    is_open: bool = False


def find_nearest(table: VectorSnapshot, vector: Vectors, k: int, allowed: RowFilter) -> Nearest:
    """Return the allowed slots nearest to *vector*.

    Args:
        vector: float32, shape ``(dim,)``, unit length.
        k: Number of slots, at least 1; all slots that tie with the k-th are included, so that the caller can order ties.
    """
    search = _Search(table, np.ascontiguousarray(vector, np.float32), allowed)
    count = k + 8
    while True:
        rows, scores = search.best(count)
        slots = table.slots[rows].astype(np.int64)
        _, firsts = np.unique(slots, return_index=True)
        firsts.sort()
        is_complete = len(firsts) >= k and scores[-1] < scores[firsts[k - 1]]
        if is_complete or len(rows) < count:
            table.release_pages()
            return Nearest(slots[firsts], scores[firsts], table.windows[rows[firsts]].astype(np.int64))
        count *= GROWTH_FACTOR


class _Search:
    """A search over a snapshot; the evaluated filter is reused by wider rounds."""

    def __init__(self, table: VectorSnapshot, query: Vectors, allowed: RowFilter) -> None:
        self._table, self._query, self._allowed = table, query, allowed
        self._marked: Mask | None = None

    def best(self, count: int) -> tuple[Slots, Scores]:
        """Return the best *count* rows by descending score, then row; all allowed rows if there are fewer."""
        few = self._few_rows()
        if few is not None:
            scores = score(self._table.read(few), self._query[None]) if len(few) else np.empty(0, np.float32)
            return _ordered(few, _rounded(scores), count)
        coarse = self._table.coarse
        if coarse is None or pool_size(count) * ALL_SHARE > len(self._table.slots):
            return self._exact(0, count)
        near, scores = self._coarsely(coarse, count)
        beyond, beyond_scores = self._exact(coarse.count, count)
        return _ordered(np.concatenate((near, beyond)), np.concatenate((_rounded(scores), beyond_scores)), count)

    def _few_rows(self) -> Slots | None:
        """Return the allowed rows if they are listed and few, so that no other row has to be read."""
        listed = self._allowed.listed
        if listed is None or len(listed) > FEW_ROWS:
            return None
        rows = self._table.rows_of(listed)
        return rows if len(rows) <= FEW_ROWS else None

    def _coarsely(self, coarse: PQIndex, count: int) -> Ranked:
        """Return rows covered by *coarse*, unordered, with exact scores: the best *count* are among them."""
        candidates = max(ASKED, 2 * pool_size(count))
        if self._marked is None and self._allowed.listed is None:
            rows, scores = coarse.packed.search(self._query, candidates)
            passing = self._allowed.test(self._table.slots[rows])
            scored, is_enough = self._scored((rows[passing], scores[passing]), count)
            if is_enough:
                return scored
            if passing.all():  # otherwise it would return the same rows
                candidates *= GROWTH_FACTOR
        marks = self._marks()[: coarse.count]
        search = coarse.among(marks)
        while True:
            ranked = search(self._query, candidates)
            scored, is_enough = self._scored(ranked, count)
            if is_enough or len(ranked[0]) < candidates or candidates >= MAX_ASKED:
                return scored
            candidates *= GROWTH_FACTOR

    def _scored(self, ranked: Ranked, count: int) -> tuple[Ranked, bool]:
        """Rescore as many of *ranked* as needed; the second value is whether there were enough."""
        rows, coarse = ranked
        exact = np.empty(len(rows), np.float32)
        done, needed, least = 0, 0, pool_size(count)
        while done < (aim := min(max(needed, least), len(rows))):
            end = min(aim, done + SCORED_AT_ONCE)
            order = np.argsort(rows[done:end])
            exact[done + order] = score(self._table.read(rows[done + order]), self._query[None])
            done = end
            if done >= count:
                needed = rows_needed(coarse, exact[:done], count)
        return (rows[:done], exact[:done]), 0 < needed < len(rows)

    def _marks(self) -> Mask:
        """Return a mask of all rows."""
        if self._marked is None:
            self._marked = self._allowed.mask().take(self._table.slots)  # twice as fast as indexing
        return self._marked

    def _marks_from(self, start: int) -> Mask | None:
        """Return a mask of the rows from *start* on; None if all are allowed."""
        if self._allowed.is_open:
            return None
        has_marks = self._marked is not None or start == 0
        allowed = self._marks()[start:] if has_marks else self._allowed.test(self._table.slots[start:])
        return None if allowed.all() else allowed

    def _exact(self, start: int, count: int) -> tuple[Slots, Scores]:
        """Search all rows from *start* on exactly."""
        allowed = self._marks_from(start)
        all_rows: list[Slots] = [np.empty(0, np.int64)]
        all_scores: list[Scores] = [np.empty(0, np.float64)]
        first = 0
        for part in self._table.parts:
            codes = part[max(0, start - first) :]
            offset = max(first, start)
            first += len(part)
            if not len(codes):
                continue
            selected = None if allowed is None else allowed[offset - start : offset - start + len(codes)]
            if selected is None or selected.any():
                scores, rows = search_exactly(codes, self._query[None], min(count, len(codes)), selected)
                all_rows.append(rows[rows >= 0] + offset)
                all_scores.append(_rounded(scores[rows >= 0]))
        return _ordered(np.concatenate(all_rows), np.concatenate(all_scores), count)


def _rounded(scores: NDArray[np.float32]) -> Scores:
    return np.clip(scores.astype(np.float64), -1.0, 1.0).round(SCORE_DECIMALS)


def _ordered(rows: Slots, scores: Scores, count: int) -> tuple[Slots, Scores]:
    """Return the first *count* rows by descending score, then row."""
    order = np.lexsort((rows, -scores))[:count]
    return rows[order], scores[order]
