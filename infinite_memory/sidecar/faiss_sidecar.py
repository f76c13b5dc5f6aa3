"""The sidecar of filters, times and vectors: a `Catalog` and a `VectorTable` behind one lock.

The lock is held for looking up and writing rows and for making masks, a few milliseconds at a million memories. What
takes longer (FAISS, compaction, files) works on snapshots: slots and vectors are appended and marked dead, never
changed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from infinite_memory.models import Filter, MemoryId, Row, Rows, ScopeId
from infinite_memory.sidecar.base import Hit, Neighbours, Page
from infinite_memory.sidecar.catalog import Catalog, Mask, marks
from infinite_memory.sidecar.keys import KeyedNumbers, Slots, ids_of
from infinite_memory.sidecar.listing import Cursor, ListedIds, first_in_order
from infinite_memory.sidecar.rows import VECTOR_DTYPE, in_columns
from infinite_memory.sidecar.vector_table import Allowed, VectorSnapshot, VectorTable, numbered
from infinite_memory.sidecar.weighing import Weigh

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

log = logging.getLogger(__name__)

BATCH_ROWS = 512
"""Rows written under one hold of the lock: a few milliseconds, so that a search during an import does not wait for it."""

COMPACT_AT_LEAST = 1024
"""With fewer dead slots than this, or than a quarter of all, a compaction costs more than it saves."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Everything at one moment: what of it is still written to later lies beyond the ends of ``alive``."""

    space: str
    catalog: Catalog
    alive: Mask
    vectors: VectorSnapshot


class FaissSidecar:
    """Knows every live memory's scope, tags, times and vectors of one space; implements `Sidecar`.

    Vectors of another space, of a wrong length or with impossible values are left out: the memory is pending.
    Which scopes are archived is not saved; the owner says so after each start (`set_archived`).
    """

    def __init__(self, space: str, dim: int) -> None:
        self._space = space
        self._catalog = Catalog()
        self._vectors = VectorTable(dim)
        self._lock = threading.Lock()
        self._maintenance = threading.Lock()

    @classmethod
    def of(cls, space: str, catalog: Catalog, vectors: VectorTable) -> FaissSidecar:
        """Put a sidecar together from parts that belong to each other."""
        made = cls(space, vectors.dim)
        made._catalog, made._vectors = catalog, vectors
        return made

    @property
    def space(self) -> str:
        """Name of the vector space it holds."""
        return self._space

    @property
    def dim(self) -> int:
        """Length of its vectors."""
        return self._vectors.dim

    # writing

    def upsert(self, rows: Iterable[Row]) -> None:
        """Add rows, or replace those whose revision is older than the given one; an older row changes nothing.

        A row of the same revision replaces one that is pending, if it brings vectors of the current space.

        Raises:
            ValueError: an id is not 24 hexadecimal digits; rows before it may have been taken.
        """
        for batch in in_columns(rows, BATCH_ROWS):
            self.enter(batch)

    def enter(self, rows: Rows) -> None:
        """Add or replace as `upsert` does, under one hold of the lock."""
        counts, vectors = self._usable_vectors(rows)
        with self._lock:
            slots = self._catalog.find_all(rows.keys)
            is_news = self._are_news(rows, counts, slots)
            if not is_news.all():
                vectors, counts = vectors[np.repeat(is_news, counts)], counts[is_news]
                rows, slots = rows.take(np.flatnonzero(is_news).tolist()), slots[is_news]
            if not len(rows):
                return
            first = len(self._catalog)
            self._catalog.append(rows, counts, slots)
            owners = np.repeat(np.arange(first, first + len(rows)), counts)
            self._vectors.append(owners, numbered(counts), vectors)

    def _usable_vectors(self, rows: Rows) -> tuple[NDArray[np.int64], Vectors]:
        """Give the number of each row's vectors, and all of them in order, float32 of shape ``(sum, dim)``.

        The number is 0 where there are none of this space, or unusable ones.
        """
        row_bytes = VECTOR_DTYPE.itemsize * self.dim
        counts = [count if space == self._space else 0 for count, space in zip(rows.windows, rows.spaces, strict=True)]
        given = [vectors if count else b"" for vectors, count in zip(rows.vectors, counts, strict=True)]
        together = b"".join(given)
        is_whole = all(len(one) == row_bytes * count for one, count in zip(given, counts, strict=True))
        if not is_whole or not _fits_half(together):
            for at, one in enumerate(given):
                if len(one) != row_bytes * counts[at] or not _fits_half(one):
                    key = rows.keys[at].hex()
                    log.warning("the vectors of memory %s are unusable", key, extra={"event": "vectors_unusable"})
                    given[at], counts[at] = b"", 0
            together = b"".join(given)
        return np.array(counts, np.int64), np.frombuffer(together, VECTOR_DTYPE).reshape(-1, self.dim)

    def _are_news(self, rows: Rows, counts: NDArray[np.int64], slots: Slots) -> Mask:
        """Mark the rows that are newer than what is known in *slots*, or bring the vectors that it lacks."""
        is_known = slots >= 0
        is_news = ~is_known
        if is_known.any():
            known, given = slots[is_known], np.asarray(rows.revisions, np.int64)[is_known]
            revisions, lacks = self._catalog.column("revision")[known], self._catalog.column("windows")[known] == 0
            is_news[is_known] = (given > revisions) | ((given == revisions) & lacks & (counts[is_known] > 0))
        return is_news

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Take memories out; unknown ids are ignored."""
        remaining = iter(memory_ids)
        while batch := list(islice(remaining, BATCH_ROWS)):
            with self._lock:
                for memory_id in batch:
                    self._catalog.remove(memory_id)

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Take all memories of a scope out."""
        with self._lock:
            self._catalog.remove_scope(scope_id)

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Say which scopes are archived: a filter without scopes leaves them out."""
        with self._lock:
            self._catalog.set_archived(scope_ids)

    # reading

    def search(self, vector: Vectors, k: int, where: Filter) -> list[Hit]:
        """Find the memories nearest to *vector* among those that pass *where*; see `Sidecar.search`.

        Scores are rounded to six decimals, and "newer" is by the time a memory happened.

        Raises:
            ValueError: *vector* is not of shape ``(dim,)``.
        """
        if vector.shape != (self.dim,):
            raise ValueError(f"a vector of shape {vector.shape} cannot be sought among vectors of {self.dim}")
        with self._lock:
            catalog, table = self._catalog, self._vectors.snapshot()
            allowed = self._allowed(catalog, where)
        if k <= 0:
            return []
        found = table.nearest(vector, k, allowed)
        keys = catalog.column("key")[found.slots]
        order = np.lexsort((keys, -catalog.column("occurred_ms")[found.slots], -found.scores))[:k]
        counts = catalog.column("windows")[found.slots[order]].tolist()
        places = zip(
            ids_of(keys[order]), found.scores[order].tolist(), found.windows[order].tolist(), counts, strict=True
        )
        return [Hit(memory_id, score, window, count) for memory_id, score, window, count in places]

    def _allowed(self, catalog: Catalog, where: Filter) -> Allowed:
        """Say what passes *where*, under the lock; what is returned takes the lock itself."""
        if (listed := catalog.listed(where)) is not None:
            mask = marks([listed], len(catalog))
            return Allowed(mask.__getitem__, lambda: mask, len(listed))

        def test(slots: NDArray[Any]) -> Mask:
            with self._lock:
                return catalog.test(where, slots)

        def every() -> Mask:
            with self._lock:
                return catalog.mask(where)

        return Allowed(test, every)

    def list_page(self, where: Filter, limit: int, cursor: str | None, newest_first: bool) -> Page:
        """List memories that pass *where* by the time they happened, then by id; newest first turns both around.

        Raises:
            InvalidRequestError: *cursor* was not made by this method, or for the other direction.
        """
        after = None if cursor is None else Cursor.parse(cursor, newest_first)
        with self._lock:
            catalog, passing = self._catalog, self._catalog.slots(where)
        keys, times = catalog.column("key"), catalog.column("occurred_ms")
        slots, more = first_in_order(passing, times, keys, limit, after=after, newest_first=newest_first)
        memory_ids = ids_of(keys[slots])
        following = cursor if more else None
        if more and memory_ids:
            following = Cursor(newest_first, int(times[slots[-1]]), bytes.fromhex(memory_ids[-1])).format()
        return Page(tuple(memory_ids), len(passing), following)

    def heaviest(self, where: Filter, limit: int, weigh: Weigh) -> list[MemoryId]:
        """List the memories that pass *where* by falling weight; see `Sidecar.heaviest`."""
        with self._lock:
            catalog, slots = self._catalog, self._catalog.slots(where)
        created_ms = catalog.column("created_ms")
        weights = weigh(catalog.column("importance")[slots], created_ms[slots].astype(np.float64))
        if 0 < limit < len(slots):  # partition first: few are wanted of many
            bound = np.partition(weights, -limit)[-limit]
            slots, weights = slots[weights >= bound], weights[weights >= bound]
        keys = catalog.column("key")[slots]
        order = np.lexsort((keys, created_ms[slots], weights))[::-1][:limit]
        return ids_of(keys[order])

    def count(self, where: Filter) -> int:
        """Count the memories that pass *where*."""
        with self._lock:
            return self._catalog.count(where)

    def count_by_scope(self) -> Mapping[ScopeId, int]:
        """Count live memories of each scope that has any, archived ones too."""
        with self._lock:
            return self._catalog.count_by_scope()

    def count_conversations(self, where: Filter) -> int:
        """Count the distinct conversation ids (ignoring case) of memories that pass *where*."""
        with self._lock:
            conversations = self._catalog.column("conversation")[self._catalog.slots(where)]
            is_there = np.zeros(len(self._catalog.interned["conversation"]) + 1, np.bool_)
        is_there[conversations] = True  # those of none at the end
        return int(np.count_nonzero(is_there[:-1]))

    def locate(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, ScopeId]:
        """Find the scope of memories; unknown ids are left out."""
        located: dict[MemoryId, ScopeId] = {}
        with self._lock:
            scopes, names = self._catalog.column("scope"), self._catalog.interned["scope"]
            for memory_id in memory_ids:
                if (slot := self._catalog.find(memory_id)) is not None:
                    located[memory_id] = ScopeId(names.string(int(scopes[slot])))
        return located

    def is_current(self, memory_id: MemoryId, revision: int) -> bool:
        """Tell whether the memory is known at *revision* or a later one."""
        with self._lock:
            slot = self._catalog.find(memory_id)
            return slot is not None and int(self._catalog.column("revision")[slot]) >= revision

    def revisions(self) -> Mapping[MemoryId, int]:
        """Give the revision of every memory known, as of now, without a Python object for each."""
        with self._lock:
            alive = self._catalog.alive()
            keys, numbers = self._catalog.column("key"), self._catalog.column("revision")
        return KeyedNumbers(keys[alive], numbers[alive])

    def pending(self, limit: int | None = None) -> Sequence[MemoryId]:
        """List the memories without a vector of the current space, oldest first; with *limit* at most so many."""
        with self._lock:
            waiting = self._catalog.alive() & (self._catalog.column("windows") == 0)
            keys, created = self._catalog.column("key"), self._catalog.column("created_ms")
        slots = np.flatnonzero(waiting)
        if limit is not None and len(slots) > limit:
            slots = slots[np.argpartition(created[slots], limit - 1)[:limit]]
        return ids_of(keys[slots][np.lexsort((keys[slots], created[slots]))])

    def count_pending(self) -> int:
        """Count the memories without a vector of the current space."""
        with self._lock:
            return int(np.count_nonzero(self._catalog.alive() & (self._catalog.column("windows") == 0)))

    def turns(self) -> Sequence[MemoryId]:
        """List every memory known by scope, conversation and time."""
        with self._lock:
            slots = np.flatnonzero(self._catalog.alive())
            catalog = self._catalog
        return ListedIds(catalog.column("key")[slots[_in_turn(catalog, slots)]])

    def neighbours(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, Neighbours]:
        """Tell what was said before and after memories in their conversations."""
        with self._lock:
            catalog = self._catalog
            found = {one: slot for one in memory_ids if (slot := catalog.find(one)) is not None}
            asked = np.array(list(found.values()), np.int64)
            _, firsts = np.unique(_conversations(catalog, asked), return_index=True)
            turns = [catalog.in_conversation(slot) for slot in asked[firsts].tolist()]
        slots = np.concatenate(turns) if turns else np.empty(0, np.int64)
        slots = slots[_in_turn(catalog, slots)]
        ids, groups = ids_of(catalog.column("key")[slots]), _conversations(catalog, slots).tolist()
        made: dict[MemoryId, Neighbours] = {}
        for at, memory_id in enumerate(ids):
            if memory_id in found:
                before = ids[at - 1] if at and groups[at - 1] == groups[at] else None
                after = ids[at + 1] if at + 1 < len(ids) and groups[at + 1] == groups[at] else None
                made[memory_id] = Neighbours(before, after)
        return made

    def tags(self) -> Sequence[str]:
        """List the tag keys that were ever seen."""
        with self._lock:
            return self._catalog.interned["tag"].strings

    # upkeep

    def compact(self) -> bool:
        """Give back the room of dead slots if they are many, in a copy that is swapped in; says whether it did."""
        with self._maintenance:
            return self._compact()

    def _compact(self) -> bool:
        with self._lock:
            dead = self._catalog.dead_count
            if dead < max(COMPACT_AT_LEAST, len(self._catalog) // 4):
                return False
            before = self._snapshot()
        catalog, vectors = Catalog(), VectorTable(before.vectors.dim)
        _copy_living(before, 0, catalog, vectors)
        vectors.coarse = before.vectors.coarse_of(before.alive)
        with self._lock:
            now = self._snapshot()
            seen = len(before.alive)
            for memory_id in ids_of(now.catalog.column("key")[:seen][before.alive & ~now.alive[:seen]]):
                catalog.remove(memory_id)
            _copy_living(now, seen, catalog, vectors)
            self._catalog, self._vectors = catalog, vectors
        log.info("compacted the sidecar: %d dead slots", dead, extra={"event": "sidecar_compacted"})
        return True

    def refine(self) -> bool:
        """Make the coarse index over the vectors, or extend it, if that is due; says whether it did."""
        with self._maintenance:
            return self._refine()

    def _refine(self) -> bool:
        with self._lock:
            table, before = self._vectors, self._vectors.snapshot()
        coarse = before.refined()
        if coarse is None:
            return False
        with self._lock:  # rows are only appended, so it fits what the table holds by now
            table.coarse = coarse
        log.info("the coarse index covers %d vectors", coarse.count, extra={"event": "coarse_index"})
        return True

    def frozen(self) -> Snapshot:
        """Fix everything as it is now, for saving; compacts first and brings the coarse index along, where due."""
        with self._maintenance:
            self._compact()
            self._refine()
            with self._lock:
                return self._snapshot()

    def _snapshot(self) -> Snapshot:
        return Snapshot(self._space, self._catalog, self._catalog.alive(), self._vectors.snapshot())


def _fits_half(vectors: bytes) -> bool:
    """Tell whether all values are numbers that half precision holds: those of unit vectors are at most 1, 2 leaves room."""
    return bool((abs(np.frombuffer(vectors, VECTOR_DTYPE)) < 2).all())


def _conversations(catalog: Catalog, slots: Slots) -> NDArray[np.int64]:
    """Number the conversations of *slots*, over all scopes; -1 where there is none."""
    scopes, conversations = catalog.column("scope")[slots], catalog.column("conversation")[slots]
    numbers = scopes.astype(np.int64) << 32 | conversations
    return np.where(conversations >= 0, numbers, -1)


def _in_turn(catalog: Catalog, slots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Order *slots* by scope, conversation, time and id."""
    columns = (catalog.column(name)[slots] for name in ("key", "occurred_ms", "conversation", "scope"))
    return np.lexsort(tuple(columns))


def _copy_living(source: Snapshot, first: int, catalog: Catalog, vectors: VectorTable) -> None:
    """Append the living slots from *first* on to another catalog and its vectors."""
    keep = source.alive.copy()
    keep[:first] = False
    target = np.cumsum(keep) - 1 + len(catalog)
    catalog.extend_from(source.catalog, np.flatnonzero(keep))
    for block in source.vectors.blocks(keep):
        vectors.append(target[block.slots], block.windows, block.codes)
