"""Keeps unreadable memories out of the index, and detects them at start.

A memory that is set aside is removed from the index. A start that loads the index from files reads no memories, so it only compares
counts, and if they differ, compares the index with the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from infinite_memory.errors import SidecarError, StoreError
from infinite_memory.models import MemoryId, ScopeId
from infinite_memory.store.base import Located, Store
from infinite_memory.store.copies import MEMORIES_PREFIX
from infinite_memory.store.set_aside import SetAsideDocument

log = logging.getLogger(__name__)


class Soundness:
    """Checks documents. Used from one event loop.

    Args:
        counts: Returns the number of indexed memories per scope.
        compare: Compares the index with the store, and reloads what differs.
        read_again: Reloads memories from the store into the index.
    """

    def __init__(
        self, store: Store, counts: Callable[[], Awaitable[Mapping[ScopeId, int]]], compare: Callable[[], Awaitable[object]],
        read_again: Callable[[Located], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._store, self._counts, self._compare, self._read_again = store, counts, compare, read_again
        self._check_lock = asyncio.Lock()
        self._first: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start the first check in the background; a later call starts another once that is over."""
        if self._first is None or self._first.done():
            self._first = asyncio.create_task(self._look_first(), name="looking at documents")

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The running check, if any."""
        return [self._first] if self._first is not None else []

    async def looked(self, wait_s: float) -> None:
        """Return when the first check is over, or after *wait_s*."""
        if self._first is not None:
            await asyncio.wait({self._first}, timeout=wait_s)

    async def _look_first(self) -> None:
        try:
            await self.look()
            counts = await self._counts()
            stored = await self._store.count_live()
            if any(counts.get(scope_id, 0) != count for scope_id, count in stored.items()):
                await self._compare()
        except (StoreError, SidecarError) as exc:
            log.info("documents were not looked at: %s", exc, extra={"event": "documents_not_checked"})

    async def look(self, *, full: bool = False) -> None:
        """Check documents, and reload memories that are no longer set aside.

        Raises:
            StoreError: the store cannot be read.
        """
        async with self._check_lock:
            before = memories_among(self._store.set_aside.documents())
            await self._store.repairs.look(full=full)
            still = memories_among(self._store.set_aside.documents())
            if accepted := {memory_id: scope for memory_id, scope in before.items() if memory_id not in still}:
                await self._read_again(accepted)


def memories_among(documents: Sequence[SetAsideDocument]) -> dict[MemoryId, ScopeId]:
    """Return the scope of each document that is a memory, by id."""
    return {
        MemoryId(str(document.document_id)): ScopeId(document.collection.removeprefix(MEMORIES_PREFIX))
        for document in documents
        if document.collection.startswith(MEMORIES_PREFIX)
    }
