"""Keeps the text index in sync with the store while the vector index's server is unreachable, so that new memories can be found.

Only the vector index knows the previous turn of a memory; memories are indexed here without it, and reloaded once the server is back:
the change feed delivers them again, because its token is left where the vector index was in sync.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sequence

from infinite_memory.errors import FeedLostError
from infinite_memory.index.feed import gather_changes
from infinite_memory.index.offline import OfflineIndex
from infinite_memory.index.text_sync import TextSync
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId
from infinite_memory.store.base import Change, ChangeKind, Located, Store
from infinite_memory.store.scope_cache import ScopeCache

log = logging.getLogger(__name__)

BATCH = 500  # memories of the store indexed at a time


class WordsAlone:
    """Follows the store with the text index alone. Used from one event loop."""

    def __init__(self, store: Store, scopes: ScopeCache, words: TextSync) -> None:
        self._store, self._scopes, self._words = store, scopes, words
        self.token = b""  # up to which the text index is in sync; empty while it follows the vector index

    def end(self) -> None:
        """Stop: the text index follows the vector index again."""
        self.token = b""

    async def open(self, reason: str) -> bool:
        """Open the text index without a vector index; True once it can be searched.

        Loads the saved index, or else reads the store, in the background if that takes longer.
        """
        if self._words.index is None and not await self._words.open_early():
            await self._words.open_alone(lambda: _memories(self._store, reason))
        return self._words.index is not None

    async def follow(self, offline: OfflineIndex, token: bytes, seconds: float) -> None:
        """Apply changes of the store after *token*, or after the last call's end, for some seconds; *token* may be empty."""
        end, token = time.monotonic() + seconds, self.token or token or await self._words.open_early()
        if self._words.index is None or not token:
            await asyncio.sleep(seconds)
            return
        try:
            async with contextlib.aclosing(gather_changes(self._store, token, is_level=True)) as batches:
                async for batch in batches:
                    if batch.changes:
                        await self._apply(offline, batch.changes)
                        token = batch.changes[-1].token
                    self.token = token
                    if time.monotonic() >= end:
                        return
        except FeedLostError:  # made up for by comparing, once there is a vector index
            self.token = await self._store.change_token()

    async def _apply(self, offline: OfflineIndex, changes: Sequence[Change]) -> None:
        """Index memories as the store has them now, and remove those it no longer has."""
        written: dict[MemoryId, ScopeId] = {}
        removed: set[MemoryId] = set()
        for change in changes:
            if change.kind is ChangeKind.SCOPES_CHANGED:
                await self._scopes.refresh()
                self._words.set_archived(self._scopes.archived_ids())
            elif change.kind is ChangeKind.SCOPE_REMOVED and change.scope_id:
                self._words.scope_removed(change.scope_id)
            elif change.kind is ChangeKind.REMOVED and change.memory_id:
                removed.add(change.memory_id)
            elif change.memory_id and change.scope_id:
                written[change.memory_id] = change.scope_id
        await self._enter(offline, written | await self._store.locate(removed) if removed else written, removed)

    async def _enter(self, offline: OfflineIndex, located: Located, removed: set[MemoryId]) -> None:
        memories = await self._store.fetch(located, latest=True)
        news = [hit for hit in memories.values() if not self._words.is_current(hit.memory_id, hit.revision)]
        if news:
            await self._words.on_upserted(OfflineIndex(offline.reason, news), news)
        if missing := [memory_id for memory_id in (*located, *removed) if memory_id not in memories]:
            await self._words.removed(offline, missing)


async def _memories(store: Store, reason: str) -> AsyncIterator[tuple[OfflineIndex, Sequence[MemoryRecord]]]:
    """Yield all memories of a store in batches, each with a stand-in for their index."""
    batch: list[MemoryRecord] = []
    async for memory in store.stream():
        batch.append(memory)
        if len(batch) >= BATCH:
            yield OfflineIndex(reason, batch), batch
            batch = []
    if batch:
        yield OfflineIndex(reason, batch), batch
