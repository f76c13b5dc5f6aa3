"""The embedded vector index: a `MetadataTable` and a `VectorTable` behind one lock.

The lock is held for reading and writing rows and for computing masks, a few milliseconds at a million memories. Longer operations
(FAISS, compaction, files) work on snapshots: slots and vectors are appended and marked dead, never changed.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from infinite_memory.errors import SidecarNotReadyError
from infinite_memory.index.base import Hit, ImportanceDecay, Neighbours, Page
from infinite_memory.index.batches import in_columns, usable_vectors
from infinite_memory.index.filters import TableFilter, to_conditions
from infinite_memory.index.id_map import Slots, in_id_order, to_ids
from infinite_memory.index.metadata_table import Mask, MetadataTable, marks
from infinite_memory.index.pagination import Cursor, first_in_order, weigh
from infinite_memory.index.vector.search import RowFilter, find_nearest
from infinite_memory.index.vector.table import VectorSnapshot, VectorTable, numbered
from infinite_memory.models import Filter, IndexBatch, IndexRow, MemoryId, ScopeId

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

log = logging.getLogger(__name__)

BATCH_ROWS = 512
"""Rows written per acquisition of the lock: a few milliseconds, so that a search during an import is not delayed."""

COMPACT_AT_LEAST, COMPACT_SHARE = 1024, 0.25
"""With fewer dead slots than this, or than this share of all, compaction costs more than it saves."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A consistent state of the index: later writes are beyond the end of ``alive``."""

    space: str
    metadata: MetadataTable
    alive: Mask
    vectors: VectorSnapshot


class FaissIndex:
    """Holds the scope, tags, times and vectors of one space of every live memory; implements `VectorIndex`.

    Vectors of another space, of the wrong length or with invalid values are dropped, and the memory is pending.
    Archived scopes are not saved; the owner sets them after each start (`set_archived`).
    """

    is_remote: ClassVar[bool] = False

    def __init__(self, space: str, dim: int) -> None:
        self._space, self._dim = space, dim
        self._tables: tuple[MetadataTable, VectorTable] | None = MetadataTable(), VectorTable(dim)
        self._archived: frozenset[ScopeId] = frozenset()
        self._lock = threading.Lock()
        self._maintenance = threading.Lock()

    @classmethod
    def of(cls, space: str, metadata: MetadataTable, vectors: VectorTable) -> FaissIndex:
        """Create an index from matching tables."""
        index = cls(space, vectors.dim)
        index._tables = metadata, vectors
        return index

    @property
    def space(self) -> str:
        """Name of its vector space."""
        return self._space

    @property
    def dim(self) -> int:
        """Dimension of its vectors."""
        return self._dim

    @property
    def _metadata(self) -> MetadataTable:
        return self._opened()[0]

    @property
    def _vectors(self) -> VectorTable:
        return self._opened()[1]

    def _opened(self) -> tuple[MetadataTable, VectorTable]:
        if (tables := self._tables) is None:
            raise SidecarNotReadyError("the index is closed")
        return tables

    # writing

    def upsert(self, rows: Iterable[IndexRow]) -> None:
        """Add rows, or replace those with an older revision; a row older than the stored one is ignored.

        A row of the same revision replaces a pending one if it brings vectors of the current space.

        Raises:
            ValueError: an id is not 24 hexadecimal digits; earlier rows may have been added.
        """
        for batch in in_columns(rows, BATCH_ROWS):
            self.upsert_batch(batch)

    def upsert_batch(self, rows: IndexBatch) -> None:
        """Like `upsert`, holding the lock once."""
        counts, vectors = usable_vectors(rows, self._space, self._dim)
        with self._lock:
            slots = self._metadata.find_all(rows.keys)
            is_news = self._are_news(rows, counts, slots)
            if not is_news.all():
                vectors, counts = vectors[np.repeat(is_news, counts)], counts[is_news]
                rows, slots = rows.take(np.flatnonzero(is_news).tolist()), slots[is_news]
            if not len(rows):
                return
            first = len(self._metadata)
            self._metadata.append(rows, counts, slots)
            owners = np.repeat(np.arange(first, first + len(rows)), counts)
            self._vectors.append(owners, numbered(counts), vectors)

    def _are_news(self, rows: IndexBatch, counts: NDArray[np.int64], slots: Slots) -> Mask:
        """Return a mask of rows that are newer than the row in *slots*, or bring its missing vectors."""
        is_known = slots >= 0
        is_news = ~is_known
        if is_known.any():
            stored, incoming = slots[is_known], np.asarray(rows.revisions, np.int64)[is_known]
            revisions, lacks = self._metadata.column("revision")[stored], self._metadata.column("windows")[stored] == 0
            is_news[is_known] = (incoming > revisions) | ((incoming == revisions) & lacks & (counts[is_known] > 0))
        return is_news

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Remove memories; unknown ids are ignored."""
        remaining = iter(memory_ids)
        while batch := list(islice(remaining, BATCH_ROWS)):
            with self._lock:
                self._metadata.remove(batch)

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Remove all memories of a scope."""
        with self._lock:
            self._metadata.remove_scope(scope_id)

    def move_scope(self, source: ScopeId, target: ScopeId) -> None:
        """Move all memories of a scope to another; see `VectorIndex.move_scope`."""
        with self._lock:
            self._metadata.move_scope(source, target)

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Set the archived scopes, which a filter without scopes excludes."""
        self._archived = frozenset(scope_ids)

    # reading

    def search(self, vector: Vectors, k: int, where: Filter) -> list[Hit]:
        """Return the memories nearest to *vector* among those that match *where*; see `VectorIndex.search`.

        Scores are rounded to six decimals, and "newer" refers to the time of occurrence.

        Raises:
            ValueError: *vector* is not of shape ``(dim,)``.
        """
        if vector.shape != (self.dim,):
            raise ValueError(f"a vector of shape {vector.shape} cannot be sought among vectors of {self.dim}")
        with self._lock:
            metadata, table = self._metadata, self._vectors.snapshot()
            allowed = self._allowed(metadata, where)
        if k <= 0:
            return []
        hits = find_nearest(table, vector, k, allowed)
        keys = metadata.column("key")[hits.slots]
        order = np.lexsort((keys, -metadata.column("occurred_ms")[hits.slots], -hits.scores))[:k]
        counts = metadata.column("windows")[hits.slots[order]].tolist()
        return list(map(Hit, to_ids(keys[order]), hits.scores[order].tolist(), hits.windows[order].tolist(), counts))

    def _filter(self, where: Filter) -> TableFilter:
        return TableFilter(self._metadata, to_conditions(where, self._archived))

    def _allowed(self, metadata: MetadataTable, where: Filter) -> RowFilter:
        """Return the row filter for *where*; call it under the lock, which the filter acquires itself."""
        passing = self._filter(where)
        if (listed := passing.listed()) is not None:
            count = len(metadata)
            return RowFilter(lambda slots: np.isin(slots, listed), lambda: marks([listed], count), listed)

        def test(slots: NDArray[Any]) -> Mask:
            with self._lock:
                return passing.test(slots)

        def every() -> Mask:
            with self._lock:
                return passing.mask()

        return RowFilter(test, every, is_open=passing.passes_all())

    def list_page(self, where: Filter, limit: int, cursor: str | None, newest_first: bool) -> Page:
        """List memories that match *where* by time of occurrence, then by id; *newest_first* reverses both.

        Raises:
            InvalidRequestError: *cursor* was not returned by this method, or belongs to the other direction.
        """
        after = None if cursor is None else Cursor.parse(cursor, newest_first)
        with self._lock:
            metadata, passing = self._metadata, self._filter(where).slots()
        keys, times = metadata.column("key"), metadata.column("occurred_ms")
        slots, has_more = first_in_order(passing, times, keys, limit, after=after, newest_first=newest_first)
        memory_ids = to_ids(keys[slots])
        following = cursor if has_more else None
        if has_more and memory_ids:
            following = Cursor(newest_first, int(times[slots[-1]]), bytes.fromhex(memory_ids[-1])).format()
        return Page(tuple(memory_ids), len(passing), following)

    def top_by_weight(self, where: Filter, limit: int, decay: ImportanceDecay) -> list[MemoryId]:
        """List the memories that match *where* by descending weight; see `VectorIndex.top_by_weight`."""
        with self._lock:
            metadata, slots = self._metadata, self._filter(where).slots()
        created_ms = metadata.column("created_ms")
        weights = weigh(decay, metadata.column("importance")[slots], created_ms[slots])
        if 0 < limit < len(slots):  # partition first: only a few of many are returned
            bound = np.partition(weights, -limit)[-limit]
            slots, weights = slots[weights >= bound], weights[weights >= bound]
        keys = metadata.column("key")[slots]
        order = np.lexsort((keys, created_ms[slots], weights))[::-1][:limit]
        return to_ids(keys[order])

    def count(self, where: Filter) -> int:
        """Count the memories that match *where*."""
        with self._lock:
            return self._filter(where).count()

    def count_by_time(self, where: Filter, edges: Sequence[dt.datetime]) -> list[int]:
        """Count the memories that match *where* in each half-open interval between consecutive *edges*, which are ascending."""
        with self._lock:
            return self._filter(where).count_by_time(edges)

    def count_by_scope(self) -> Mapping[ScopeId, int]:
        """Count the live memories of each non-empty scope, archived ones included."""
        with self._lock:
            return self._metadata.count_by_scope()

    def count_conversations(self, where: Filter) -> int:
        """Count the distinct conversation ids, ignoring case, of memories that match *where*."""
        with self._lock:
            conversations = self._metadata.column("conversation")[self._filter(where).slots()]
            is_there = np.zeros(len(self._metadata.interned["conversation"]) + 1, np.bool_)
        is_there[conversations] = True  # memories without one mark the last entry
        return int(np.count_nonzero(is_there[:-1]))

    def locate(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, ScopeId]:
        """Return the scopes of memories; unknown ids are omitted."""
        located: dict[MemoryId, ScopeId] = {}
        remaining = iter(memory_ids)
        while batch := list(islice(remaining, BATCH_ROWS)):
            with self._lock:
                scopes, names = self._metadata.column("scope"), self._metadata.interned["scope"]
                for memory_id, slot in self._metadata.find_many(batch).items():
                    located[memory_id] = ScopeId(names.string(int(scopes[slot])))
        return located

    def get_revisions(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, int]:
        """Return the indexed revisions of memories; unknown ids are omitted."""
        with self._lock:
            revisions, slots = self._metadata.column("revision"), self._metadata.find_many(memory_ids)
            return {memory_id: int(revisions[slot]) for memory_id, slot in slots.items()}

    def iter_revisions(self) -> Iterator[Mapping[MemoryId, int]]:
        """Yield the revision of every memory, by ascending id."""
        with self._lock:
            alive = self._metadata.alive()
            keys, numbers = self._metadata.column("key"), self._metadata.column("revision")
        yield from in_id_order(keys[alive], numbers[alive])

    def pending(self, limit: int) -> Sequence[MemoryId]:
        """List at most *limit* memories without a vector of the current space, oldest first."""
        with self._lock:
            waiting = self._metadata.alive() & (self._metadata.column("windows") == 0)
            keys, created = self._metadata.column("key"), self._metadata.column("created_ms")
        slots = np.flatnonzero(waiting)
        if len(slots) > limit > 0:  # others created at the time of the last may precede it by id
            bound = np.partition(created[slots], limit - 1)[limit - 1]
            slots = slots[created[slots] <= bound]
        return to_ids(keys[slots][np.lexsort((keys[slots], created[slots]))][: max(limit, 0)])

    def count_pending(self) -> int:
        """Count the memories without a vector of the current space."""
        with self._lock:
            return int(np.count_nonzero(self._metadata.alive() & (self._metadata.column("windows") == 0)))

    def neighbours(self, memory_ids: Iterable[MemoryId], max_turns: int | None = None) -> Mapping[MemoryId, Neighbours]:
        """Return the memories before and after each one in its conversation; see `VectorIndex.neighbours`."""
        with self._lock:
            metadata = self._metadata
            hit_slots, slots = metadata.find_turns(memory_ids, max_turns)
        return metadata.neighbours(hit_slots, slots)

    def tags(self, start: int, limit: int) -> Sequence[str]:
        """List all tag keys ever used."""
        with self._lock:
            return self._metadata.interned["tag"].strings_from(start, limit)

    # upkeep

    @property
    def dead_count(self) -> int:
        with self._lock:
            return self._metadata.dead_count

    def compact(self, *, all_rows: bool = False) -> int:
        """Compact into a copy that is swapped in; return the number of dead slots reclaimed, 0 while they are few (`COMPACT_AT_LEAST`).

        Args:
            all_rows: Whether to compact however few they are.
        """
        with self._maintenance:
            return self._compact(1 if all_rows else COMPACT_AT_LEAST, 0.0 if all_rows else COMPACT_SHARE)

    def _compact(self, least: int = COMPACT_AT_LEAST, share: float = COMPACT_SHARE) -> int:
        with self._lock:
            dead = self._metadata.dead_count
            if dead < max(least, len(self._metadata) * share):
                return 0
            before = self._snapshot()
        metadata, vectors = MetadataTable(), VectorTable(before.vectors.dim)
        _copy_living(before, 0, metadata, vectors)
        vectors.coarse = before.vectors.coarse_of(before.alive)
        with self._lock:
            now = self._snapshot()
            seen = len(before.alive)
            for memory_id in to_ids(now.metadata.column("key")[:seen][before.alive & ~now.alive[:seen]]):
                metadata.remove([memory_id])
            _copy_living(now, seen, metadata, vectors)
            self._tables = metadata, vectors
        log.info("compacted the sidecar: %d dead slots", dead, extra={"event": "sidecar_compacted"})
        return dead

    def close(self) -> None:
        """Release the tables and the mapped files; running searches complete."""
        with self._maintenance, self._lock:
            self._tables = None

    def refine(self) -> bool:
        """Build or extend the coarse index if due; return whether it did."""
        with self._maintenance:
            return self._refine()

    def _refine(self) -> bool:
        with self._lock:
            table, before = self._vectors, self._vectors.snapshot()
        coarse = before.refined()
        if coarse is None:
            return False
        with self._lock:  # rows are only appended, so it still fits the table
            table.coarse = coarse
        log.info("the coarse index covers %d vectors", coarse.count, extra={"event": "coarse_index"})
        return True

    def frozen(self) -> Snapshot:
        """Return a snapshot for saving; compacts and refines the coarse index first, if due."""
        with self._maintenance:
            self._compact()
            self._refine()
            with self._lock:
                return self._snapshot()

    def _snapshot(self) -> Snapshot:
        return Snapshot(self._space, self._metadata, self._metadata.alive(), self._vectors.snapshot())


def _copy_living(source: Snapshot, first: int, metadata: MetadataTable, vectors: VectorTable) -> None:
    """Append the live slots from *first* on to another metadata table and its vectors."""
    keep = source.alive.copy()
    keep[:first] = False
    target = np.cumsum(keep) - 1 + len(metadata)
    metadata.extend_from(source.metadata, np.flatnonzero(keep))
    for block in source.vectors.blocks(keep):
        vectors.append(target[block.slots], block.windows, block.codes)
