"""Moving a memory to another scope: it keeps its id, times, versions and links; a caller needs to see both scopes.

Why memories can move at all, although contracts keep them in their scope: a person who reorganises means this very memory, with its
history. Clients that store by content (`Upserts`, AgentMem, hooks) find the id taken in its original scope, so no id is stored twice.
"""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass

from infinite_memory.embedding.service import EmbeddingService
from infinite_memory.engine.access import Access
from infinite_memory.errors import (
    EmbeddingError,
    MemoryChangedError,
    MemoryNotFoundError,
    ScopeNotFoundError,
    StoreError,
)
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import Filter, MemoryId, MemoryRecord, Scope
from infinite_memory.store.base import Store
from infinite_memory.store.scope_cache import ScopeCache

TRIES = 20  # attempts to move a memory that others are changing
NEAREST = 32  # nearest memories compared by text: equal texts are the nearest


@dataclass(frozen=True, slots=True)
class Moved:
    """A memory in its new scope, and its former scope. ``same_text`` are other live memories with the same text in the new scope."""

    memory: MemoryRecord
    scope: Scope
    former: Scope
    same_text: tuple[MemoryId, ...] = ()

    @property
    def is_moved(self) -> bool:
        """False if it was in that scope already."""
        return self.scope.scope_id != self.former.scope_id


class Moves:
    """Moves memories that a caller may see. Use from one event loop only."""

    def __init__(
        self, *, access: Access, store: Store, index: IndexSync, scopes: ScopeCache, embeddings: EmbeddingService
    ) -> None:
        self._access, self._store, self._index = access, store, index
        self._scopes, self._embeddings = scopes, embeddings

    async def move(self, memory_id: MemoryId, scope: str) -> Moved:
        """Move a live memory to another scope; no effect if it is there already.

        Raises:
            MemoryNotFoundError: there is no visible live memory with that id.
            ScopeNotFoundError: the scope does not exist, or is not visible.
            ScopeArchivedError: the scope is archived.
            StoreUnavailableError: the memory is entirely in the old scope or entirely in the new one.
        """
        await self._index.sidecar()
        for number in range(TRIES):
            memory = await self._read(memory_id, from_store=number > 0)
            target, former = await self._get_target(scope), await self._scopes.find_again(memory.scope_id)
            if former is None or former.archived_at is not None:
                raise MemoryNotFoundError(memory_id)
            if target.scope_id == former.scope_id:
                return Moved(memory, target, former)
            try:
                await self._store.move(memory, target.scope_id)
            except (MemoryChangedError, MemoryNotFoundError, ScopeNotFoundError):
                # The memory or a scope was changed or moved: resolve all of them again from the request.
                await self._scopes.refresh()
                continue
            moved = await self._enter(memory, target)
            return Moved(moved, target, former, await self._find_same_text(moved, target))
        raise StoreError(f"memory {memory_id} is being changed by others all the time; try again")

    async def _read(self, memory_id: MemoryId, *, from_store: bool) -> MemoryRecord:
        """Read a live memory from the store; *from_store* as in `Access.locate`."""
        located = await self._access.locate(memory_id, from_store=from_store)
        memory = (await self._store.fetch(located, vectors=True)).get(memory_id)
        if memory is None and located and self._access.sees_everything:
            located = await self._access.locate(memory_id, from_store=True)
            memory = (await self._store.fetch(located, vectors=True)).get(memory_id)
        if memory is None or not self._access.allows(memory):
            raise MemoryNotFoundError(memory_id)
        return memory

    async def _get_target(self, name: str) -> Scope:
        if self._access.sees_everything:
            return await self._scopes.get_open(name, create=False)
        self._access.check_scope(name)
        for scope in await self._access.existing_scopes([name]):
            if self._access.visibility.allows_scope(scope):
                return scope
        raise ScopeNotFoundError(name)  # without similar names, which are not visible

    async def _find_same_text(self, memory: MemoryRecord, scope: Scope) -> tuple[MemoryId, ...]:
        """Return other memories with the same text: by the index if the memory has a vector in it, otherwise by the store."""
        sidecar = await self._index.sidecar()
        embedding, near = memory.embedding, list[MemoryId]()
        if embedding is not None and embedding.space == self._space():
            where = Filter(scope_ids=frozenset({scope.scope_id}))
            hits = await asyncio.to_thread(sidecar.search, embedding.vectors[0], NEAREST, where)
            near = [hit.memory_id for hit in hits]
        else:
            near = await self._store.find_same_text(scope.scope_id, memory.content_hash)
        read = await self._access.fetch(dict.fromkeys(near, scope.scope_id))
        others = [read[memory_id] for memory_id in near if memory_id in read and memory_id != memory.memory_id]
        return tuple(other.memory_id for other in others if other.content_hash == memory.content_hash)

    def _space(self) -> str | None:
        try:
            return self._embeddings.space
        except EmbeddingError:
            return None

    async def _enter(self, memory: MemoryRecord, target: Scope) -> MemoryRecord:
        """Index the memory in its new scope, as read from the store."""
        read = await self._store.fetch({memory.memory_id: target.scope_id}, vectors=True)
        moved = read.get(memory.memory_id)
        if moved is None:  # forgotten or moved again just now; the change feed updates the index
            return dataclasses.replace(memory, scope_id=target.scope_id, revision=memory.revision + 1)
        await self._index.on_written([moved])
        return moved
