"""The first rows in an order that Milvus does not support: by time, or by weight.

Milvus neither sorts nor returns more than some thousand rows per query. If more match, a bisection finds a bound with few enough rows to
be fetched and sorted here, and at least as many as requested: one count per step, some thirty steps.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain

import numpy as np

from infinite_memory.index.base import ImportanceDecay
from infinite_memory.index.metadata_table import milliseconds
from infinite_memory.index.milvus.collection import Collection
from infinite_memory.index.milvus.connection import Row
from infinite_memory.index.milvus.schema import ABSENT, CREATED, MEMORY
from infinite_memory.index.pagination import DAY_MS, weigh
from infinite_memory.models import FILTERED, MemoryId

FETCHED = 8192
"""Maximum number of rows fetched for sorting."""

EARLIEST_MS, LATEST_MS = -(1 << 48), 1 << 48
"""Bounds of all times: the years 1 to 9999."""

IMPORTANCE = FILTERED["importance"].column
AGES = (0.0, 0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
"""Boundaries of age bands, in half-lives: within a band, the youngest age bounds all weights."""


def first_by_time(
    rows: Collection,
    expression: str,
    field: str,
    limit: int,
    *,
    newest_first: bool,
    fetched: int = FETCHED,
    at_most: int | None = None,
) -> list[Row]:
    """Return the first *limit* matching rows by *field*, then by id, both descending if *newest_first*; at most *fetched* at once.

    *at_most* is an upper bound of the matches, if known: few enough are then fetched without a count.
    """
    if limit <= 0:
        return []

    def order(row: Row) -> tuple[int, str]:
        return row[field], row[MEMORY]

    fields = [MEMORY, field]
    if (at_most is not None and at_most <= fetched) or rows.count(expression) <= fetched:
        return sorted(rows.query(expression, fields), key=order, reverse=newest_first)[:limit]
    near, edge = _split(rows, expression, field, limit, fetched, newest_first=newest_first)
    first_rows = sorted(rows.query(near, fields), key=order, reverse=newest_first) if near else []
    if len(first_rows) >= limit or edge is None:
        return first_rows[:limit]
    # More rows share this millisecond than are fetched at once.
    several: Iterable[Row] = chain.from_iterable(rows.iterate(edge, fields))
    pick = heapq.nlargest if newest_first else heapq.nsmallest
    return [*first_rows, *pick(limit - len(first_rows), several, key=order)]


def _split(
    rows: Collection, expression: str, field: str, limit: int, fetched: int, *, newest_first: bool
) -> tuple[str | None, str | None]:
    """Return an expression for few enough rows at the start of the order, and, if they are too few, one for the next timestamp."""

    def before(bound: int) -> str:
        return f"{expression} and {field} {'>=' if newest_first else '<'} {bound}"

    none, many = (LATEST_MS, EARLIEST_MS) if newest_first else (EARLIEST_MS, LATEST_MS)
    while abs(many - none) > 1:
        middle = (none + many) // 2
        count = rows.count(before(middle))
        if limit <= count <= fetched:
            return before(middle), None
        if count < limit:
            none = middle
        else:
            many = middle
    return before(none), f"{expression} and {field} == {many if newest_first else none}"


def first_by_weight(
    rows: Collection, expression: str, limit: int, decay: ImportanceDecay, fetched: int = FETCHED
) -> list[MemoryId]:
    """Return the ids of the first *limit* matching rows by descending weight; equal weights newest first, then by descending id."""
    if limit <= 0:
        return []
    fields = [MEMORY, CREATED, IMPORTANCE]
    if rows.count(expression) <= fetched:
        return [
            memory_id
            for _, _, memory_id in sorted(_weighed(rows.query(expression, fields), decay), reverse=True)[:limit]
        ]
    low, high = 0.0, 1.0
    for _ in range(30):
        bound = (low + high) / 2
        near = f"{expression} and ({_at_least(bound, decay)})"
        if rows.count(near) > fetched:
            low = bound
            continue
        weighed = sorted(_weighed(rows.query(near, fields), decay), reverse=True)
        if sum(weight >= bound for weight, _, _ in weighed) >= limit:
            return [memory_id for _, _, memory_id in weighed[:limit]]
        high = bound
    every = chain.from_iterable(_weighed(page, decay) for page in rows.iterate(expression, fields))
    return [memory_id for _, _, memory_id in heapq.nlargest(limit, every)]  # many rows of equal weight


def _weighed(rows: list[Row], decay: ImportanceDecay) -> Iterator[tuple[float, int, MemoryId]]:
    importance = np.array([row[IMPORTANCE] for row in rows], np.float64)
    created = np.array([row[CREATED] for row in rows], np.int64)
    weights = weigh(decay, np.where(importance == ABSENT, np.nan, importance), created)
    return zip(weights.tolist(), created.tolist(), (MemoryId(row[MEMORY]) for row in rows), strict=True)


def _at_least(weight: float, decay: ImportanceDecay) -> str:
    """Return an expression for all rows of at least *weight*, and some of less: each age counts as the youngest of its band."""
    now = milliseconds(decay.now)
    terms = []
    ends: list[float | None] = [*AGES[1:], None]
    for age, end in zip(AGES, ends, strict=True):
        share = decay.lasting_share + (1 - decay.lasting_share) * 2**-age
        minimum = weight / share * (1 - 1e-9)  # margin for rounding
        by_importance = [] if minimum > 1 else [f"{IMPORTANCE} >= {minimum * decay.full!r}"]
        by_importance += [f"{IMPORTANCE} < {ABSENT / 2!r}"] if decay.unset >= minimum else []
        if not by_importance:
            continue
        young = [f"{CREATED} <= {_ms_before(now, age, decay)}"] if age else []
        old = [] if end is None else [f"{CREATED} > {_ms_before(now, end, decay) - 1}"]
        terms.append(" and ".join([f"({' or '.join(by_importance)})", *young, *old]))
    return " or ".join(f"({term})" for term in terms) or f"{CREATED} > {LATEST_MS}"


def _ms_before(now_ms: int, half_lives: float, decay: ImportanceDecay) -> int:
    return now_ms - int(half_lives * decay.half_life_days * DAY_MS)
