"""Fills an index of another engine from the store, beside the one in use, and compares both before switching over.

A build may be interrupted: an index on a server stays there under a separate name (`BUILDING`), and the next build resumes it by
comparing every memory's revision with the store. An index in files is rebuilt, which takes seconds. The memory stays in use during a
build; writes made meanwhile are picked up by comparing again, and after the switch by the change feed, from the token that is saved
with the index.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from infinite_memory.embedding.service import EmbeddingService
from infinite_memory.errors import SidecarDamagedError, SidecarError, SidecarNotReadyError
from infinite_memory.index.base import VectorIndex, VectorIndexFiles, call
from infinite_memory.index.loading import IndexLoader
from infinite_memory.index.recent_ids import RecentIds
from infinite_memory.index.reconcile import compare
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import Filter, IndexRow, MemoryId, ScopeId
from infinite_memory.store.base import Located, Store
from infinite_memory.store.scope_cache import ScopeCache

log = logging.getLogger(__name__)

BUILDING = "building "  # prefix of the database's identity, in the header of an incomplete index
ROUNDS = 5  # comparisons at most, with a store that is written all the time
SAMPLED = 50  # memories whose vectors both indexes are queried with
NEAREST = 10  # hits per query
SAME = 0.002  # scores that differ by less are the same: half precision
MIN_AGREEMENT = 0.95  # share of hits: an approximate index may miss a few


@dataclass(frozen=True, slots=True)
class EngineChange:
    """The result of a build.

    ``faults`` counts the memories that still differed at the last comparison, ``agreement`` (0 to 1) is the share of sampled hits that are
    the same, None if the index in use could not be queried.
    """

    count: int
    stored: int
    was_resumed: bool
    faults: int
    sampled: int
    agreement: float | None

    @property
    def is_good(self) -> bool:
        """Whether the new index may replace the old one."""
        agrees = self.agreement is None or self.agreement >= MIN_AGREEMENT
        return self.count == self.stored and not self.faults and agrees


class EngineBuild:
    """One build. Used from one event loop; the indexes' work runs in threads.

    Args:
        index: The index in use.
        files: Where the index of the other engine is stored.
    """

    def __init__(
        self, store: Store, scopes: ScopeCache, embeddings: EmbeddingService, index: IndexSync, files: VectorIndexFiles
    ) -> None:
        self._store, self._scopes, self._embeddings = store, scopes, embeddings
        self._current, self._files = index, files

    async def run(self, progress: Callable[[int, int], None]) -> EngineChange:
        """Fill and compare; a good index is saved, and the next daemon with that engine opens it.

        Args:
            progress: Called with the number of memories indexed and the total.

        Raises:
            EmbeddingError: the model cannot be used, so the space of the vectors is unknown.
            SidecarError: the index of the other engine cannot be written.
            StoreError: the store cannot be read.
        """
        await self._embeddings.ready()
        new_index, was_resumed = await self._open()
        try:
            if not was_resumed:
                await self._fill(new_index, progress)
            token, faults = await self._level(new_index)
            report = await self._compare(new_index, faults, was_resumed=was_resumed)
            if report.is_good:
                await asyncio.to_thread(lambda: self._files.save(new_index, self._store.identity, token))
                log.info("an index of another engine is built", extra={"event": "engine_built"})
            return report
        finally:
            new_index.close()

    async def _open(self) -> tuple[VectorIndex, bool]:
        """Return the index of an interrupted build, or a new one, and whether it was resumed."""
        space, dim, name = self._embeddings.space, self._embeddings.dim, BUILDING + self._store.identity
        if self._files.is_shared:
            try:
                return (await asyncio.to_thread(lambda: self._files.load(name, space, dim)))[0], True
            except SidecarDamagedError:
                pass
        new_index = await asyncio.to_thread(lambda: self._files.create(space, dim))
        if self._files.is_shared:
            await asyncio.to_thread(lambda: self._files.save(new_index, name, b""))
        return new_index, False

    async def _fill(self, other: VectorIndex, progress: Callable[[int, int], None]) -> None:
        total = sum((await self._store.count_live()).values())
        loader = IndexLoader(self._store, self._embeddings, self._files, RecentIds())
        await loader.fill(other, lambda count: progress(min(count, total), total))

    async def _level(self, other: VectorIndex) -> tuple[bytes, int]:
        """Repair differences until there are none; return the change token up to which it is current, and the number still differing."""

        async def take_over(located: Located) -> None:
            memories = await self._store.fetch(located, vectors=True)
            await asyncio.to_thread(lambda: other.upsert([IndexRow.of(memory) for memory in memories.values()]))

        async def remove(memory_ids: Iterable[MemoryId]) -> None:
            await call(other, lambda: other.remove(memory_ids))

        faults, token = 1, b""
        for _ in range(ROUNDS):
            token = await self._store.change_token()
            if not (faults := (await compare(self._store, other, take_over, remove)).faults):
                break
        return token, faults

    async def _compare(self, other: VectorIndex, faults: int, *, was_resumed: bool) -> EngineChange:
        other.set_archived(self._scopes.archived_ids())
        stored = sum((await self._store.count_live()).values())
        count = sum((await call(other, other.count_by_scope)).values())
        sample = await self._sample()
        try:
            current = await self._current.sidecar()
            agreement: float | None = await asyncio.to_thread(lambda: self._agreement(current, other, sample))
        except (SidecarNotReadyError, SidecarError):
            agreement = None
        return EngineChange(count, stored, was_resumed, faults, len(sample), agreement)

    async def _sample(self) -> list[IndexRow]:
        """Return a uniform random sample of memories that have vectors."""
        chosen: dict[MemoryId, ScopeId] = {}
        seen = 0
        async for version in self._store.versions():
            seen += 1
            if len(chosen) < SAMPLED:
                chosen[version.memory_id] = version.scope_id
            elif random.randrange(seen) < SAMPLED:
                del chosen[random.choice(list(chosen))]
                chosen[version.memory_id] = version.scope_id
        rows = map(IndexRow.of, (await self._store.fetch(chosen, vectors=True)).values())
        space = self._embeddings.space
        return [row for row in rows if row.embedding is not None and row.embedding.space == space]

    def _agreement(self, current: VectorIndex, other: VectorIndex, sample: list[IndexRow]) -> float:
        """Return the share of hits for the vectors of *sample* that score the same in both: hits of equal score may be in any order."""
        same = total = 0
        for row in sample:
            assert row.embedding is not None
            vector = row.embedding.vectors[0]
            ours, theirs = (
                [hit.score for hit in index.search(vector, NEAREST, Filter())] for index in (current, other)
            )
            same += sum(abs(a - b) <= SAME for a, b in zip(ours, theirs, strict=False))
            total += max(len(ours), len(theirs))
        return same / total if total else 1.0
