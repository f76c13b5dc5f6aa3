"""Keeps the words level with the store while the server of the index is away, so that they find what was stored meanwhile.

What was said before a turn is known to the index alone; a memory is entered without it here, and read again once the server answers:
the change feed tells of it then, for its token is left where the index was level.
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

BATCH = 500  # memories of the store entered at a time


class WordsAlone:
    """Follows the store with the words. Used from one event loop."""

    def __init__(self, store: Store, scopes: ScopeCache, words: TextSync) -> None:
        self._store, self._scopes, self._words = store, scopes, words
        self.token = b""  # up to which the words are level with the store; empty while they follow the index

    def end(self) -> None:
        """The index is followed again, and the words with it."""
        self.token = b""

    async def open(self, reason: str) -> bool:
        """Open the words where there is no index in use; True once they can be searched.

        What was saved is taken, else they are read from the store, in the background where that takes longer.
        """
        if self._words.index is None and not await self._words.open_early():
            await self._words.open_alone(lambda: _memories(self._store, reason))
        return self._words.index is not None

    async def follow(self, offline: OfflineIndex, token: bytes, seconds: float) -> None:
        """Enter what the store tells after *token*, or where this ended before, for some seconds; *token* may be empty."""
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
        except FeedLostError:  # told again by comparing, once there is an index
            self.token = await self._store.change_token()

    async def _apply(self, offline: OfflineIndex, changes: Sequence[Change]) -> None:
        """Enter memories as the store has them now, and take out what it has no more."""
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
        found = await self._store.fetch(located, latest=True)
        news = [hit for hit in found.values() if not self._words.is_current(hit.memory_id, hit.revision)]
        if news:
            await self._words.on_upserted(OfflineIndex(offline.reason, news), news)
        if gone := [one for one in (*located, *removed) if one not in found]:
            await self._words.removed(offline, gone)


async def _memories(store: Store, reason: str) -> AsyncIterator[tuple[OfflineIndex, Sequence[MemoryRecord]]]:
    """Yield all memories of a store, some at a time, each time with what stands for their index."""
    batch: list[MemoryRecord] = []
    async for memory in store.stream():
        batch.append(memory)
        if len(batch) >= BATCH:
            yield OfflineIndex(reason, batch), batch
            batch = []
    if batch:
        yield OfflineIndex(reason, batch), batch
