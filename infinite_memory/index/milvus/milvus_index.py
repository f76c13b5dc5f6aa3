"""The vector index on a Milvus server; implements `VectorIndex`.

Writes of this process are serialised, and each first reads the server's rows: an older revision is skipped. Two processes that write one
memory at the same moment may still leave the older one; followers of the store's feed detect that and rewrite it.

Why reads by id do not wait: the server shows a write to readers of the same session only at its next time tick, up to .2 s later. Every
write reads by id, so recent writes of this process are kept here instead (`RecentWrites`). Searches, listings and counts wait for the
tick if there was a write just before.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice, pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from infinite_memory.index.base import Hit, ImportanceDecay, Neighbours, Page
from infinite_memory.index.batches import in_columns, usable_vectors
from infinite_memory.index.filters import Field, Within, to_conditions
from infinite_memory.index.id_map import to_key
from infinite_memory.index.metadata_table import milliseconds_up
from infinite_memory.index.milvus import notes, schema
from infinite_memory.index.milvus.collection import Collection
from infinite_memory.index.milvus.connection import MAX_ROWS, Row
from infinite_memory.index.milvus.expressions import among, to_expression
from infinite_memory.index.milvus.notes import Notes
from infinite_memory.index.milvus.ordering import FETCHED, first_by_time, first_by_weight
from infinite_memory.index.milvus.recent_writes import CONVERSATION, FIELDS, Known, RecentWrites
from infinite_memory.index.pagination import Cursor
from infinite_memory.models import Filter, IndexBatch, IndexRow, MemoryId, ScopeId

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

BATCH_ROWS = 512  # memories written at a time
IDS_AT_ONCE = 4096  # ids in one expression: a hundred kilobytes
MIN_HITS, GROWTH_FACTOR = 32, 4
COUNTERS = 8  # scopes counted in parallel
COUNTED_S = 1.0  # how long scope sizes are cached if nothing is written here

_VECTORS = f"{schema.WINDOWS} > 0"
_PENDING = f"{schema.MEMORIES} and {schema.WINDOWS} == 0"


class MilvusIndex:
    """One collection with its notes. Methods may be called from several threads; each may raise `IndexUnavailableError`."""

    is_remote: ClassVar[bool] = True

    def __init__(self, rows: Collection, noted: Notes, space: str, dim: int) -> None:
        self._rows, self._notes, self.space, self.dim = rows, noted, space, dim
        self._archived: frozenset[ScopeId] = frozenset()
        self._writing = threading.Lock()
        self._recent = RecentWrites()
        self._sizes: tuple[float, Mapping[ScopeId, int]] | None = None
        self._mark = schema.make_mark(dim)

    @property
    def name(self) -> str:
        """The name of its collection."""
        return self._rows.name

    @property
    def notes(self) -> Notes:
        """The notes stored beside the rows."""
        return self._notes

    # writing

    def upsert(self, rows: Iterable[IndexRow]) -> None:
        """Add rows, or replace those with an older revision; see `VectorIndex.upsert`."""
        for batch in in_columns(rows, BATCH_ROWS):
            self.upsert_batch(batch)

    def upsert_batch(self, rows: IndexBatch) -> None:
        """Like `upsert`; blocks other writers while it runs."""
        counts, vectors = usable_vectors(rows, self.space, self.dim)
        with self._writing:
            indexed = self._find(rows.memory_ids())
            is_news = np.array(
                [
                    _is_news(indexed.get(memory_id), *brought)
                    for memory_id, *brought in zip(rows.memory_ids(), rows.revisions, counts, strict=True)
                ],
                np.bool_,
            )
            vectors, counts = vectors[np.repeat(is_news, counts)], counts[is_news]
            rows = rows.take(np.flatnonzero(is_news).tolist())
            if not len(rows):
                return
            written = list(schema.to_rows(rows, counts.tolist(), vectors))
            self._rows.upsert(written)
            self._delete(_surplus(indexed, rows.memory_ids(), counts.tolist()))
            self._recent.wrote(Known.of(row) for row in written if row[schema.WINDOW] == 0)
            self._sizes = None
        self._notes.add(notes.TAG, (key for keys in rows.tag_keys for key in keys))
        self._notes.add(notes.SCOPE, rows.scope_ids)

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Remove memories; unknown ids are ignored."""
        remaining = iter(memory_ids)
        while batch := list(islice(remaining, IDS_AT_ONCE)):
            with self._writing:
                indexed = self._find(batch)
                self._delete(
                    [
                        schema.window_key(memory_id, window)
                        for memory_id, was in indexed.items()
                        for window in range(max(was.windows, 1))
                    ]
                )
                self._recent.removed(indexed)

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Remove all memories of a scope."""
        with self._writing:
            every = among(schema.SCOPE, [scope_id])
            for page in self._rows.iterate(every, [schema.KEY, schema.MEMORY]):
                self._delete([row[schema.KEY] for row in page])
                self._recent.removed(schema.to_memory_id(row) for row in page)

    def move_scope(self, source: ScopeId, target: ScopeId) -> None:
        """Do nothing: Milvus can only rewrite whole rows, and reloading the memories from the store does that."""

    def _delete(self, keys: Sequence[str]) -> None:
        if keys:
            self._rows.delete(keys, self._mark)
            self._sizes = None

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Exclude these scopes if a filter names no scopes."""
        self._archived = frozenset(scope_ids)

    # finding

    def _expression(self, where: Filter, base: str = schema.MEMORIES) -> str:
        return to_expression(to_conditions(where, self._archived), base)

    def search(self, vector: Vectors, k: int, where: Filter) -> list[Hit]:
        """Return the memories nearest to *vector* among those that match *where*; see `VectorIndex.search`.

        Memories already found are excluded from the next search, so that many windows of a few memories do not hide others.

        Raises:
            ValueError: *vector* is not of shape ``(dim,)``.
        """
        if vector.shape != (self.dim,):
            raise ValueError(f"a vector of shape {vector.shape} cannot be sought among vectors of {self.dim}")
        self._rows.check_open()
        if k <= 0:
            return []
        padded = vector.tolist() + [0.0] * (schema.MIN_DIM - self.dim)
        expression = self._expression(where, _VECTORS)
        fields = [schema.MEMORY, schema.WINDOW, schema.WINDOWS, schema.OCCURRED]
        best_rows: dict[str, Row] = {}
        limit = min(MAX_ROWS, max(MIN_HITS, 2 * k))
        while True:
            others = f" and {among(schema.MEMORY, best_rows, is_negated=True)}" if best_rows else ""
            rows = self._rows.search(padded, expression + others, fields, limit)
            for row in rows:
                best_rows.setdefault(row[schema.MEMORY], row)
            if len(rows) < limit or _is_settled(best_rows, k, rows[-1]):
                break
            limit = min(MAX_ROWS, limit * GROWTH_FACTOR)
        return [_to_hit(row) for row in sorted(best_rows.values(), key=_rank)[:k]]

    def list_page(self, where: Filter, limit: int, cursor: str | None, newest_first: bool) -> Page:
        """List memories that match *where* by time of occurrence, then by id; see `VectorIndex.list_page`.

        Raises:
            InvalidRequestError: *cursor* was not returned by this method, or belongs to the other direction.
        """
        after = None if cursor is None else Cursor.parse(cursor, newest_first)
        expression = self._expression(where)
        total = None if _are_few(where, limit) and after is None else self._rows.count(expression)
        if after is not None:
            sign, field = "<" if newest_first else ">", schema.OCCURRED
            same_time = f'{field} == {after.occurred_ms} and {schema.MEMORY} {sign} "{after.key.hex()}"'
            expression += f" and ({field} {sign} {after.occurred_ms} or ({same_time}))"
        max_rows = len(where.memory_ids or ()) if total is None else total
        listed = first_by_time(
            self._rows, expression, schema.OCCURRED, limit + 1, newest_first=newest_first, at_most=max_rows
        )
        total = len(listed) if total is None else total
        if limit <= 0:
            return Page((), total, cursor if listed else None)
        page, following = listed[:limit], None
        if len(listed) > limit:
            last = page[-1]
            following = Cursor(newest_first, last[schema.OCCURRED], bytes.fromhex(last[schema.MEMORY])).format()
        return Page(tuple(map(schema.to_memory_id, page)), total, following)

    def top_by_weight(self, where: Filter, limit: int, decay: ImportanceDecay) -> list[MemoryId]:
        """List the memories that match *where* by descending weight; see `VectorIndex.top_by_weight`."""
        return first_by_weight(self._rows, self._expression(where), limit, decay)

    def count(self, where: Filter) -> int:
        """Count the memories that match *where*."""
        return self._rows.count(self._expression(where))

    def count_by_time(self, where: Filter, edges: Sequence[dt.datetime]) -> list[int]:
        """Count the memories that match *where* in each half-open interval between consecutive *edges*, which are ascending."""
        conditions = to_conditions(where, self._archived)
        bounds = [milliseconds_up(edge) for edge in edges]
        return [
            self._rows.count(to_expression([*conditions, Within(Field.OCCURRED, start, end)]))
            for start, end in pairwise(bounds)
        ]

    def count_by_scope(self) -> Mapping[ScopeId, int]:
        """Count the memories of each non-empty scope, archived ones included."""
        counted, now = self._sizes, time.monotonic()
        if counted is not None and now - counted[0] < COUNTED_S:
            self._rows.check_open()
            return counted[1]
        with ThreadPoolExecutor(COUNTERS) as pool:
            scope_ids = [ScopeId(scope_id) for scope_id in self._notes.list(notes.SCOPE)]
            counts = pool.map(
                lambda scope_id: self._rows.count(f"{schema.MEMORIES} and {among(schema.SCOPE, [scope_id])}"), scope_ids
            )
            sizes = {scope_id: count for scope_id, count in zip(scope_ids, counts, strict=True) if count}
        self._sizes = now, sizes
        return sizes

    def count_conversations(self, where: Filter) -> int:
        """Count the distinct conversation ids, ignoring case, of memories that match *where*; reads that field of all of them."""
        expression = f'{self._expression(where)} and {CONVERSATION} != ""'
        pages = self._rows.iterate(expression, [CONVERSATION], MAX_ROWS)
        return len({row[CONVERSATION] for page in pages for row in page})

    # memories by id

    def _find(self, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, Known]:
        """Return the indexed metadata of memories, without waiting for the server's clock."""
        recent = self._recent.among(memory_ids)
        indexed = {memory_id: entry for memory_id, entry in recent.items() if entry is not None}
        requested = [memory_id for memory_id in memory_ids if memory_id not in recent and to_key(memory_id) is not None]
        for first in range(0, len(requested), IDS_AT_ONCE):
            ids = among(schema.KEY, requested[first : first + IDS_AT_ONCE])
            rows = self._rows.query(ids, FIELDS, eventually=True)
            indexed |= {entry.memory_id: entry for entry in map(Known.of, rows)}
        self._rows.check_open()
        return indexed

    def locate(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, ScopeId]:
        """Return the scopes of memories; unknown ids are omitted."""
        return {memory_id: entry.scope_id for memory_id, entry in self._find(list(memory_ids)).items()}

    def get_revisions(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, int]:
        """Return the indexed revisions of memories; unknown ids are omitted."""
        return {memory_id: entry.revision for memory_id, entry in self._find(list(memory_ids)).items()}

    def neighbours(self, memory_ids: Iterable[MemoryId], max_turns: int | None = None) -> Mapping[MemoryId, Neighbours]:
        """Return the memories before and after each one in its conversation; see `VectorIndex.neighbours`."""
        asked = {memory_id: entry for memory_id, entry in self._find(list(memory_ids)).items() if entry.conversation}
        turns: dict[tuple[str, str, str], list[tuple[int, MemoryId]]] = defaultdict(list)
        for turn in self._said(
            {entry.conversation for entry in asked.values()}, {entry.scope_id for entry in asked.values()}
        ):
            turns[turn.scope_id, turn.conversation, turn.source].append((turn.occurred_ms, turn.memory_id))
        neighbours: dict[MemoryId, Neighbours] = {}
        for named, conversation in turns.items():
            if max_turns is not None and len(conversation) > max_turns:
                continue
            ordered = [None, *(memory_id for _, memory_id in sorted(conversation)), None]
            for before, memory_id, after in zip(ordered, ordered[1:], ordered[2:], strict=False):
                if memory_id in asked:
                    neighbours[memory_id] = Neighbours(before, after, "/".join(named))
        return neighbours

    def _said(self, conversations: Iterable[str], scope_ids: Iterable[ScopeId]) -> Iterator[Known]:
        """Yield all memories of conversations in scopes, with recent writes applied."""
        named = set(conversations)
        if not named:
            return
        recent = self._recent.all()
        yield from (entry for entry in recent.values() if entry is not None and entry.conversation in named)
        expression = f"{schema.MEMORIES} and {among(CONVERSATION, named)} and {among(schema.SCOPE, scope_ids)}"
        rows = self._rows.query(expression, FIELDS, eventually=True)
        pages = [rows] if len(rows) < MAX_ROWS else self._rows.iterate(expression, FIELDS)
        yield from (Known.of(row) for page in pages for row in page if row[schema.MEMORY] not in recent)

    def pending(self, limit: int) -> Sequence[MemoryId]:
        """List at most *limit* memories without a vector of the current space, oldest first."""
        oldest = first_by_time(self._rows, _PENDING, schema.CREATED, limit, newest_first=False)
        return list(map(schema.to_memory_id, oldest))

    def count_pending(self) -> int:
        """Count the memories without a vector of the current space."""
        return self._rows.count(_PENDING)

    def iter_revisions(self) -> Iterator[Mapping[MemoryId, int]]:
        """Yield the revision of every memory, by ascending id."""
        for page in self._rows.iterate(schema.MEMORIES, [schema.MEMORY, schema.REVISION]):
            revisions = {schema.to_memory_id(row): int(row[schema.REVISION]) for row in page}
            yield dict(sorted(revisions.items()))

    def tags(self, start: int, limit: int) -> Sequence[str]:
        """List tag keys in order of first use."""
        self._rows.check_open()
        return self._notes.list(notes.TAG)[start : start + limit]

    # upkeep

    @property
    def dead_count(self) -> int:
        """Always 0: the server compacts by itself."""
        return 0

    def compact(self, *, all_rows: bool = False) -> int:
        """Return 0: the server compacts by itself."""
        self._rows.check_open()
        return 0

    def close(self) -> None:
        """Refuse further calls; writes are already on the server."""
        self._rows.close()


def _are_few(where: Filter, limit: int) -> bool:
    """True if a filter names few enough ids that all matches are fetched without counting them first."""
    return where.memory_ids is not None and len(where.memory_ids) <= min(limit, FETCHED)


def _is_news(known: Known | None, revision: int, count: int) -> bool:
    """True if a row is newer than the indexed one, or brings its missing vectors."""
    return (
        known is None or revision > known.revision or (revision == known.revision and not known.windows and count > 0)
    )


def _surplus(known: Mapping[MemoryId, Known], memory_ids: Sequence[MemoryId], counts: Sequence[int]) -> list[str]:
    """Return the keys of windows that memories no longer have."""
    return [
        schema.window_key(memory_id, window)
        for memory_id, count in zip(memory_ids, counts, strict=True)
        if (was := known.get(memory_id)) is not None
        for window in range(max(count, 1), was.windows)
    ]


def _score(row: Row) -> float:
    return round(min(1.0, max(-1.0, float(row["distance"]))), 6)


def _rank(row: Row) -> tuple[float, int, str]:
    return -_score(row), -row[schema.OCCURRED], row[schema.MEMORY]


def _to_hit(row: Row) -> Hit:
    return Hit(schema.to_memory_id(row), _score(row), row[schema.WINDOW], row[schema.WINDOWS])


def _is_settled(candidates: Mapping[str, Row], k: int, last: Row) -> bool:
    """True if no row beyond the returned ones can be among the best *k*: all of them follow *last*."""
    return len(candidates) > k and _score(sorted(candidates.values(), key=_rank)[k - 1]) > _score(last)
