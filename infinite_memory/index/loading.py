"""Where a vector index comes from: its files, or the store if there are no usable files."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from infinite_memory.embedding.service import EmbeddingService
from infinite_memory.errors import EmbeddingError
from infinite_memory.gc_tuning import seldom_searched
from infinite_memory.index.base import VectorIndex, VectorIndexFiles, call
from infinite_memory.index.recent_ids import RecentIds
from infinite_memory.store.base import Store

NO_SPACE = "none"  # the space if there is no model: everything is pending


class IndexLoader:
    """Loads, creates, fills and saves vector indexes of one store, in the space of the current model."""

    def __init__(
        self, store: Store, embeddings: EmbeddingService, files: VectorIndexFiles, removals: RecentIds
    ) -> None:
        """Take the collaborators; *removals* are ids that must not reappear while an index is filled."""
        self._store, self._embeddings, self.files, self._removals = store, embeddings, files, removals

    async def load(self) -> tuple[VectorIndex, bytes]:
        """Return the saved index and its change token.

        Raises:
            SidecarError: there is no usable one.
        """
        space, dim = self._space()
        with seldom_searched():  # a garbage collection over the loaded objects may run in the loop's thread
            return await asyncio.to_thread(lambda: self.files.load(self._store.identity, space, dim))

    async def create(self) -> VectorIndex:
        """Return an empty index."""
        space, dim = self._space()
        return await asyncio.to_thread(lambda: self.files.create(space, dim))

    async def fill(self, index: VectorIndex, report: Callable[[int], None]) -> None:
        """Add every memory of the store, except those removed meanwhile.

        Args:
            report: Called with the number of memories read so far.

        Raises:
            StoreError: the store cannot be read.
        """
        count, began = 0, self._removals.count
        with seldom_searched():
            async with contextlib.aclosing(self._store.rows()) as pages:
                async for rows in pages:
                    count += len(rows)
                    report(count)
                    await asyncio.to_thread(index.upsert_batch, rows)
                    if self._removals.count > began:
                        removed = self._removals.since(began, rows.memory_ids())
                        await call(index, lambda gone=removed: index.remove(gone))  # type: ignore[misc]

    async def save(self, index: VectorIndex, token: bytes) -> None:
        """Save *index*, with the change token up to which it is in sync with the store.

        Raises:
            SidecarError: it could not be written; the previous files are kept.
        """
        await asyncio.to_thread(lambda: self.files.save(index, self._store.identity, token))

    def _space(self) -> tuple[str, int]:
        try:
            return self._embeddings.space, self._embeddings.dim
        except EmbeddingError:
            return NO_SPACE, 1
