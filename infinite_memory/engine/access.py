"""Applies a `Visibility` to the store, the index and the scopes. Every use case reads, finds and names memories through it.

An id is looked up only in visible scopes: no more is read for another user's memory than for one that does not exist, so refusing
either id takes the same time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence

from infinite_memory.engine.types import NewMemory, ScopedFilter
from infinite_memory.engine.visibility import ANYBODYS, Visibility
from infinite_memory.errors import MemoryNotFoundError, ScopeNotFoundError
from infinite_memory.index.base import VectorIndex, call
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import Filter, MemoryId, MemoryRecord, Scope, ScopeId, fold
from infinite_memory.store.base import Located, Store
from infinite_memory.store.scope_cache import ScopeCache

PAGE_CHARS = 16_000_000
"""Maximum size of texts and metadata in one page or result list, not counting the memory that exceeds it."""

FIRST_READ = 32  # memories read first for a page, each up to a megabyte; later batches are sized to fit


class Access:
    """Access to the memories that one caller may see. Use from one event loop only."""

    def __init__(self, visibility: Visibility, *, store: Store, index: IndexSync, scopes: ScopeCache) -> None:
        self.visibility = visibility
        self._store, self._index, self._scopes = store, index, scopes

    @property
    def sees_everything(self) -> bool:
        """Whether the caller sees every memory."""
        return self.visibility.sees_everything

    @property
    def behind_note(self) -> str | None:
        """Note for a list while the index lacks recent memories; None if it is up to date."""
        return f"{reason}: what was stored since may be missing" if (reason := self._index.why_behind) else None

    # scopes

    def scope_names(self) -> tuple[str, ...]:
        """Return the current names of the visible scopes; for restricted callers."""
        by_id = (self._scopes.find_by_id(scope_id) for scope_id in self.visibility.scope_ids)
        return (*self.visibility.scope_names, *(scope.name for scope in by_id if scope is not None))

    def allows_name(self, name: str) -> bool:
        """True if a scope of that name would be visible."""
        return self.sees_everything or fold(name) in map(fold, self.scope_names())

    def check_scope(self, name: str) -> None:
        """Raise for an invisible scope as for a missing one, without suggesting similar names.

        Raises:
            ScopeNotFoundError: the scope is not visible.
        """
        if not self.allows_name(name):
            raise ScopeNotFoundError(name)

    async def existing_scopes(self, names: Iterable[str]) -> tuple[Scope, ...]:
        """Return those of the scopes that exist and are not archived."""
        return await self._scopes.get_visible(names, lenient=True)

    async def resolve(self, where: ScopedFilter) -> tuple[tuple[Scope, ...], Filter]:
        """Resolve scope names to ids, and narrow the filter to what is visible; archived scopes are hidden.

        Raises:
            ScopeNotFoundError: a scope of *where* does not exist, or is not visible.
        """
        if self.sees_everything:
            if where.scopes is None:
                return tuple(scope for scope in self._scopes.all() if scope.archived_at is None), where.rest
            return await self._resolve(where.scopes, where.rest, lenient=where.lenient)
        names = self.scope_names() if where.scopes is None else where.scopes
        if where.lenient:
            names = tuple(name for name in names if self.allows_name(name))
        for name in names:
            self.check_scope(name)
        lenient = where.lenient or where.scopes is None
        scopes, filter_ = await self._resolve(names, self.visibility.narrow(where.rest), lenient=lenient)
        for scope in scopes:
            if not self.visibility.allows_scope(scope):  # renamed to this name just now
                raise ScopeNotFoundError(scope.name)
        exact = self.visibility.exact_owners
        if self.visibility.is_filtered or not exact:
            return scopes, filter_
        among = await self._list_ids(scopes)
        ids = among if filter_.memory_ids is None else among & filter_.memory_ids
        return scopes, dataclasses.replace(filter_, memory_ids=ids)

    async def _resolve(self, names: Sequence[str], rest: Filter, *, lenient: bool) -> tuple[tuple[Scope, ...], Filter]:
        scopes = await self._scopes.get_visible(names, lenient=lenient)
        return scopes, dataclasses.replace(rest, scope_ids=frozenset(scope.scope_id for scope in scopes))

    async def _list_ids(self, scopes: Iterable[Scope]) -> frozenset[MemoryId]:
        """Return the ids of memories whose owners filters cannot express."""
        visibility, ids = self.visibility, frozenset[MemoryId]()
        for scope in scopes:
            ids |= await self._store.owners.live_ids_of(
                scope.scope_id, visibility.exact_owners, leave_out_status=visibility.unlisted_statuses
            )
        return ids

    # memories

    def allows(self, memory: MemoryRecord) -> bool:
        """True if *memory*, live or soft-forgotten, is visible."""
        if self.sees_everything:
            return True
        scope = self._scopes.find_by_id(memory.scope_id)
        return scope is not None and self.visibility.allows_scope(scope) and self.visibility.allows(memory)

    def check(self, memory: MemoryRecord) -> None:
        """Raise for an invisible memory as for a missing one.

        Raises:
            MemoryNotFoundError: the memory is not visible.
        """
        if not self.allows(memory):
            raise MemoryNotFoundError(memory.memory_id)

    def check_new(self, memories: Iterable[NewMemory]) -> None:
        """Raise if a new memory would not be visible to the caller.

        Raises:
            ScopeNotFoundError: its scope is not visible.
            ForbiddenError: it has other owners or another source.
        """
        if not self.sees_everything:
            for memory in memories:
                self.check_scope(memory.scope)
                self.visibility.check_new(memory)

    def creates(self, *, is_wanted: bool) -> bool:
        """True if a missing scope is created on storing if *is_wanted* and allowed."""
        return is_wanted and (self.sees_everything or self.visibility.creates_scopes)

    async def read(self, sidecar: VectorIndex, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryRecord]:
        """Read live memories that passed a filter, and check each one: filters are less precise than `allows`.

        Without any ids, check that the store is available, as reading would.
        """
        if not memory_ids:
            await self._store.ping()
            return {}
        located = dict(await call(sidecar, lambda: sidecar.locate(memory_ids)))
        # The index may not contain all of them yet.
        if sidecar is self._index.partial or self._index.why_behind is not None:
            located |= await self._store.locate([memory_id for memory_id in memory_ids if memory_id not in located])
        return self._allowed(await self._fetch_moved(sidecar, located))

    async def _fetch_moved(self, sidecar: VectorIndex, located: Located) -> dict[MemoryId, MemoryRecord]:
        """Read live memories; those that are not where they were are read from where the index finds them now, as a scope may be merged."""
        live = await self._store.fetch(located)
        if missing := [memory_id for memory_id in located if memory_id not in live]:  # mostly forgotten a moment ago
            places = await call(sidecar, lambda: sidecar.locate(missing))
            moved = {memory_id: scope_id for memory_id, scope_id in places.items() if scope_id != located[memory_id]}
            live |= await self._store.fetch(moved) if moved else {}
        return live

    async def read_page(
        self, sidecar: VectorIndex, memory_ids: Sequence[MemoryId]
    ) -> tuple[dict[MemoryId, MemoryRecord], int]:
        """Read live memories, as `read` does, in the given order until they fill a page (`PAGE_CHARS`).

        Returns:
            The memories, and how many of *memory_ids* were processed; those after them were not read.
        """
        memories: dict[MemoryId, MemoryRecord] = {}
        begin = chars = 0
        size = FIRST_READ
        while begin < len(memory_ids) or not begin:
            ids = memory_ids[begin : begin + size]
            batch = await self.read(sidecar, ids)
            for processed, memory_id in enumerate(ids, begin + 1):
                memory = batch.get(memory_id)
                if memory is not None:
                    memories[memory_id] = memory
                    chars += _chars(memory)
                    if chars >= PAGE_CHARS:
                        return memories, processed
            begin += size
            size = max(1, min(len(memory_ids), (PAGE_CHARS - chars) * begin // (chars + 1)))
        return memories, len(memory_ids)

    async def fetch(self, located: Located, *, deleted: bool | None = False) -> dict[MemoryId, MemoryRecord]:
        """Read the visible ones of some memories; *deleted* as in `Store.fetch`."""
        return self._allowed(await self._store.fetch(located, deleted=deleted))

    def _allowed(self, memories: dict[MemoryId, MemoryRecord]) -> dict[MemoryId, MemoryRecord]:
        if self.sees_everything:
            return memories
        return {memory_id: memory for memory_id, memory in memories.items() if self.allows(memory)}

    async def locate(self, memory_id: MemoryId, *, from_store: bool = False) -> Located:
        """Return the scope of a memory, live or soft-forgotten; empty if it is not visible. Reads no invisible memory.

        The index may lag behind: if the memory was not where it said, pass *from_store* to query the store only.
        """
        if self.sees_everything:
            if from_store:
                return await self._store.locate([memory_id])
            sidecar = await self._index.for_words()
            located = await call(sidecar, lambda: sidecar.locate([memory_id]))
            return dict(located) or await self._store.locate([memory_id])
        for scope in await self.existing_scopes(self.scope_names()):
            owners = (await self._store.owners.read(scope.scope_id, [memory_id])).get(memory_id)
            if owners is not None and self.visibility.allows_owners(owners):
                return {memory_id: scope.scope_id}
        return {}

    async def locate_each(self, memory_ids: Collection[MemoryId]) -> Located:
        """Return the scopes of memories, for unrestricted callers; the store is queried for those that the index does not know (yet)."""
        sidecar = await self._index.sidecar()
        located = await call(sidecar, lambda: sidecar.locate(memory_ids))
        unknown = [memory_id for memory_id in memory_ids if memory_id not in located]
        return {**located, **(await self._store.locate(unknown) if unknown else {})}

    async def keep_allowed(self, located: Located) -> Located:
        """Drop invisible memories without reading any of them."""
        if self.sees_everything or not located:
            return located
        visible: dict[MemoryId, ScopeId] = {}
        for scope in await self.existing_scopes(self.scope_names()):
            memory_ids = [memory_id for memory_id, scope_id in located.items() if scope_id == scope.scope_id]
            allowed = await self._allowed_ids(scope.scope_id, memory_ids)
            visible |= {memory_id: scope.scope_id for memory_id in memory_ids if memory_id in allowed}
        return visible

    async def _allowed_ids(self, scope_id: ScopeId, memory_ids: Sequence[MemoryId]) -> Collection[MemoryId]:
        if not memory_ids or self.visibility.owners == ANYBODYS:
            return memory_ids
        if exact := self.visibility.exact_owners:
            return await self._store.owners.ids_of(scope_id, exact)
        owners = await self._store.owners.read(scope_id, memory_ids)
        return {
            memory_id
            for memory_id in memory_ids
            if memory_id in owners and self.visibility.allows_owners(owners[memory_id])
        }


def _chars(memory: MemoryRecord) -> int:
    """Return the approximate size of a memory in a reply, in characters."""
    details = len(repr(memory.metadata)) if memory.metadata else 0
    return len(memory.text) + details + (len(repr(memory.structured)) if memory.structured else 0)
