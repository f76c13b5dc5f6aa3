"""All changes to the indexes: own writes, changes from the store, and removals.

There may be several vector indexes at a time: the current one, one being rebuilt at start, and one being built to replace the current
one. The text index follows the current one (`TextSync`). Own writes are indexed before their request is answered, so that a memory just
stored is found by the next request.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence, Set
from functools import partial

from infinite_memory.errors import IndexUnavailableError, InfiniteMemoryError
from infinite_memory.index.base import VectorIndex, call
from infinite_memory.index.listing import batches
from infinite_memory.index.offline import OfflineIndex
from infinite_memory.index.readiness import Readiness
from infinite_memory.index.recent_ids import RecentIds
from infinite_memory.index.save_policy import SavePolicy
from infinite_memory.index.second_space import SecondSpace
from infinite_memory.index.soundness import memories_among
from infinite_memory.index.text_sync import TextSync
from infinite_memory.models import IndexRow, MemoryId, MemoryRecord, ScopeId
from infinite_memory.store.base import UNKNOWN_REVISION, Change, ChangeKind, Located, Store
from infinite_memory.store.set_aside import SetAsideDocument

FEW_ROWS = 4  # indexed without a thread: faster than a thread, and far below the limit for blocking the loop
REMOVED_AT_ONCE = 500  # memories per batch: some ten milliseconds
EARLY_CAPACITY = 1000  # memories written before the index was open that the next request can find
EARLY_WAIT_S = 2.0  # wait for the index once MongoDB is connected: a new home has its files before a write is answered


class IndexWriter:
    """The open indexes, and all changes to them. Used from one event loop; index operations run in threads."""

    def __init__(
        self, store: Store, text: TextSync, second: SecondSpace, save_policy: SavePolicy, opened: Readiness
    ) -> None:
        """Take the collaborators; *opened* opens when there is an index in use."""
        self._store, self._text, self._second = store, text, second
        self._save_policy, self._opened = save_policy, opened
        self.current: VectorIndex | None = None
        self.partial: VectorIndex | None = None  # being rebuilt at start, while only words can be searched
        self.next: VectorIndex | None = None  # being built to replace the current one; own writes go to both
        self._early: dict[MemoryId, MemoryRecord] = {}  # written before there was an index
        self._early_until = 0.0
        self.behind: str | None = None  # why the index in use lacks recent writes, if it does
        self._not_entered = RecentIds()
        self.removals, self._writes = RecentIds(), RecentIds()
        self.on_entered: Callable[[Sequence[MemoryRecord]], None] = lambda _: None  # called with indexed memories

    # own writes

    def wait_for_early_writes(self) -> None:
        """Make writes wait a short time for the index from now on."""
        self._early_until = time.monotonic() + EARLY_WAIT_S

    async def on_written(self, memories: Sequence[MemoryRecord]) -> None:
        """Index memories that this process just wrote; they can be found from now on, or once there is an index."""
        memory_ids = [memory.memory_id for memory in memories]
        self.removals.discard(memory_ids)
        self._writes.add(memory_ids)
        offline: OfflineIndex | None = None
        for index in (self.next, self.current):
            if index is not None:
                offline = await _try_upsert(index, memories) or offline
        if offline is not None:
            self.behind = offline.reason
            self._not_entered.add(memory_ids)
        else:
            self._not_entered.discard(memory_ids)
        if isinstance(self.partial, OfflineIndex) and self.current is None:
            await self._text.on_upserted(OfflineIndex(self.partial.reason, memories), memories)
        if self.current is None:
            self._early |= {memory.memory_id: memory for memory in memories}
            while len(self._early) > EARLY_CAPACITY:  # bulk writes are left to the feed
                self._early.pop(next(iter(self._early)))
            if (remaining_s := self._early_until - time.monotonic()) > 0 and self.partial is None:
                with contextlib.suppress(InfiniteMemoryError):  # it is stored, and will be found later
                    await self._opened.passed(remaining_s)
        else:
            await self._text.on_upserted(offline or self.current, memories)
            await self._second.on_upserted(memories)
            self._save_policy.changed()
            self.on_entered(memories)

    async def enter_early(self, index: VectorIndex) -> None:
        """Index memories written before there was an index: the feed may lag behind, and their writer may ask for them next."""
        while self._early:
            early, self._early = list(self._early.values()), {}
            began = self.removals.count
            await _upsert(index, early)
            await self._text.on_upserted(index, early)
            await self._second.on_upserted(early)
            await self.remove(index, self.removals.since(began, [memory.memory_id for memory in early]))

    async def enter_early_words(self, reason: str) -> None:
        """Index the words of memories written before words could be searched; the vector index is unreachable for *reason*."""
        if early := list(self._early.values()):
            await self._text.on_upserted(OfflineIndex(reason, early), early)

    @contextlib.asynccontextmanager
    async def removing(self, located: Located) -> AsyncIterator[set[MemoryId]]:
        """Remove memories that this process soft- or hard-forgets inside the block; they are not found from then on.

        Memories written meanwhile, because they were restored, are reloaded afterwards. Ids added to the yielded set are kept.
        """
        began, spared = self._writes.count, set[MemoryId]()
        yield spared
        if spared:
            located = {memory_id: scope_id for memory_id, scope_id in located.items() if memory_id not in spared}
        for some in batches(located, REMOVED_AT_ONCE):
            for memory_id in some:
                self._early.pop(memory_id, None)
            self.removals.add(some)
            await asyncio.sleep(0)
        if (following := self.next) is not None:
            for some in batches(located, REMOVED_AT_ONCE):
                await call(following, partial(following.remove, some))
                await asyncio.sleep(0)
        if self.current is not None:
            try:
                await self.remove(self.current, located)
                if again := self._writes.since(began, located):
                    await self.reload(self.current, {memory_id: located[memory_id] for memory_id in again})
            except IndexUnavailableError as exc:  # the feed delivers it again; until then its hits are dropped on read
                await self._text.removed(OfflineIndex(str(exc)), list(located))
            self._save_policy.changed()

    async def scope_merged(self, source: ScopeId, target: ScopeId) -> None:
        """Move the memories of a scope to the one it was just merged into, until they are reloaded from there."""
        for index in (self.next, self.current):
            if index is not None:
                with contextlib.suppress(IndexUnavailableError):  # the feed delivers it
                    await call(index, partial(index.move_scope, source, target))
        self._second.scope_merged(source, target)

    async def scope_removed(self, scope_id: ScopeId) -> None:
        """Remove a whole scope that this process just dropped."""
        self._early = {memory_id: memory for memory_id, memory in self._early.items() if memory.scope_id != scope_id}
        if (following := self.next) is not None:
            await call(following, lambda: following.remove_scope(scope_id))
        if self.current is not None:
            with contextlib.suppress(IndexUnavailableError):  # the feed delivers it again
                await self.remove_scope(self.current, scope_id)

    async def exclude_unreadable(self, document: SetAsideDocument) -> None:
        """Remove a memory that turned out to be unreadable."""
        unreadable = list(memories_among([document]))
        if (following := self.next) is not None:
            await call(following, lambda: following.remove(unreadable))
        if (index := self.current or self.partial) is not None:
            located = await call(index, partial(index.locate, unreadable))
            if located:
                await self.remove(index, unreadable)
                self._save_policy.changed()

    # changes from the store

    async def apply(self, index: VectorIndex, changes: Sequence[Change]) -> None:
        """Apply changes of memories and removed scopes from the change feed to *index* and the text index.

        Raises:
            StoreError: the store cannot be read.
        """
        to_reload: dict[MemoryId, ScopeId] = {}
        written_ids = [change.memory_id for change in changes if change.kind is ChangeKind.WRITTEN and change.memory_id]
        revisions = await call(index, lambda: index.get_revisions(written_ids))
        removed: dict[MemoryId, set[ScopeId | None]] = {}
        for change in changes:
            if change.kind is ChangeKind.SCOPE_REMOVED and change.scope_id:
                await self._remove_where_told(index, removed)
                removed = {}
                await self.remove_scope(index, change.scope_id)
                to_reload = {memory_id: scope for memory_id, scope in to_reload.items() if scope != change.scope_id}
            elif change.kind is ChangeKind.REMOVED and change.memory_id:
                if to_reload.get(change.memory_id) == change.scope_id:
                    del to_reload[change.memory_id]
                removed.setdefault(change.memory_id, set()).add(change.scope_id)
            elif change.memory_id and change.scope_id:
                # Restored memories, or those moved back and forth, are reloaded: the index may have their current or an earlier state.
                is_back = removed.pop(change.memory_id, None) is not None
                if is_back or not self._knows(revisions, change.memory_id, change.revision):
                    to_reload[change.memory_id] = change.scope_id
        await self._remove_where_told(index, removed)
        if to_reload:
            await self.reload(index, to_reload)
        self._not_entered.discard(written_ids)

    async def _remove_where_told(self, index: VectorIndex, removed: Mapping[MemoryId, Set[ScopeId | None]]) -> None:
        """Remove memories that were removed from scopes, except those now in another one: they were moved."""
        if not removed:
            return
        located = await call(index, partial(index.locate, list(removed)))
        removed_ids = [
            memory_id
            for memory_id, scopes in removed.items()
            if memory_id not in located or located[memory_id] in scopes
        ]
        if removed_ids:
            await self.remove(index, removed_ids)
            self._save_policy.changed()

    def level(self) -> None:
        """Record that the index in use has all changes from the feed; own writes that failed may still be delivered."""
        if not len(self._not_entered):
            self.behind = None

    def _knows(self, revisions: Mapping[MemoryId, int], memory_id: MemoryId, revision: int) -> bool:
        """True if both indexes have a memory: they are saved one after the other, so one may lack changes of the other."""
        if revision == UNKNOWN_REVISION or memory_id not in revisions:
            return False
        return revisions[memory_id] >= revision and self._text.is_current(memory_id, revision)

    async def reload(self, index: VectorIndex, located: Located) -> None:
        """Reload memories from the store into *index*; those not live there are removed.

        Raises:
            StoreError: the store cannot be read.
        """
        began, writes_began = self.removals.count, self._writes.count
        memories = await self._store.fetch(located, vectors=True)
        if absent := {memory_id: scope_id for memory_id, scope_id in located.items() if memory_id not in memories}:
            memories |= await self._store.fetch(absent, vectors=True, latest=True)
        for memory_id in self.removals.since(began, list(memories)):  # the version read may be older
            del memories[memory_id]
        absent_ids = located.keys() - memories.keys()
        await self.remove(index, absent_ids.difference(self._writes.since(writes_began, absent_ids)))
        live = list(memories.values())
        self._writes.add(memories)
        await _upsert(index, live)
        await self._text.on_upserted(index, live)
        await self._second.on_upserted(live)
        self._save_policy.changed()
        self.on_entered(live)

    async def remove(self, index: VectorIndex, memory_ids: Iterable[MemoryId]) -> None:
        """Remove memories from *index* and the text index in batches, so that the loop stays responsive."""
        for batch in batches(memory_ids, REMOVED_AT_ONCE):
            await self._text.removed(index, batch)
            self._second.removed(batch)
            await call(index, partial(index.remove, batch))
            await asyncio.sleep(0)

    async def remove_scope(self, index: VectorIndex, scope_id: ScopeId) -> None:
        """Remove a scope from *index* and the text index."""
        self._text.scope_removed(scope_id)
        self._second.scope_removed(scope_id)
        await call(index, lambda: index.remove_scope(scope_id))
        self._save_policy.changed()

    async def count_by_scope(self) -> Mapping[ScopeId, int]:
        """Count the memories of each scope in the index in use; empty before there is one."""
        index = self.current
        return await call(index, index.count_by_scope) if index is not None else {}


async def _try_upsert(index: VectorIndex, memories: Sequence[MemoryRecord]) -> OfflineIndex | None:
    """Index memories; if the server of *index* does not answer, return a stand-in: the feed delivers them again."""
    try:
        await _upsert(index, memories)
    except IndexUnavailableError as exc:
        return OfflineIndex(str(exc), memories)
    return None


async def _upsert(index: VectorIndex, memories: Sequence[MemoryRecord]) -> None:
    def upsert() -> None:
        index.upsert([IndexRow.of(memory) for memory in memories])

    if len(memories) <= FEW_ROWS and not index.is_remote:
        upsert()
    else:
        await asyncio.to_thread(upsert)
