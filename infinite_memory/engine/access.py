"""Applies a `Visibility` to the store, the index and the scopes. Every use case reads, finds and names memories through it.

An id is looked for in the scopes that are seen alone: of a memory that somebody else has no more is read than of one that nobody has,
so its id takes as long to be refused.
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
"""Of texts and metadata in one page or one list of results, but for the memory that fills it."""

FIRST_READ = 32  # memories of a page, each of which may be a megabyte; then as many as are likely to fit


class Access:
    """What one caller may reach. Used from one event loop."""

    def __init__(self, visibility: Visibility, *, store: Store, index: IndexSync, scopes: ScopeCache) -> None:
        self.visibility = visibility
        self._store, self._index, self._scopes = store, index, scopes

    @property
    def sees_everything(self) -> bool:
        """Whether nothing is kept from the caller."""
        return self.visibility.sees_everything

    @property
    def behind_note(self) -> str | None:
        """What is to be said of a list while the index lacks what was stored of late; None where it lacks nothing."""
        return f"{reason}: what was stored since may be missing" if (reason := self._index.why_behind) else None

    # scopes

    def scope_names(self) -> tuple[str, ...]:
        """Return the scopes that are seen, by the names that they have now; for who sees less than everything."""
        by_id = (self._scopes.find_by_id(scope_id) for scope_id in self.visibility.scope_ids)
        return (*self.visibility.scope_names, *(scope.name for scope in by_id if scope is not None))

    def allows_name(self, name: str) -> bool:
        """True if a scope of that name would be seen."""
        return self.sees_everything or fold(name) in map(fold, self.scope_names())

    def check_scope(self, name: str) -> None:
        """Refuse a scope that is not seen as one that is not there; no names near it are told.

        Raises:
            ScopeNotFoundError: it is not seen.
        """
        if not self.allows_name(name):
            raise ScopeNotFoundError(name)

    async def existing_scopes(self, names: Iterable[str]) -> tuple[Scope, ...]:
        """Return those of the scopes that exist and are not archived."""
        return await self._scopes.get_visible(names, lenient=True)

    async def resolve(self, where: ScopedFilter) -> tuple[tuple[Scope, ...], Filter]:
        """Turn scope names into ids, and narrow the filter to what is seen; archived scopes are hidden.

        Raises:
            ScopeNotFoundError: a scope of *where* does not exist, or is not seen.
        """
        if self.sees_everything:
            if where.scopes is None:
                return tuple(one for one in self._scopes.all() if one.archived_at is None), where.rest
            return await self._resolve(where.scopes, where.rest, lenient=where.lenient)
        names = self.scope_names() if where.scopes is None else where.scopes
        if where.lenient:
            names = tuple(one for one in names if self.allows_name(one))
        for name in names:
            self.check_scope(name)
        lenient = where.lenient or where.scopes is None
        scopes, narrow = await self._resolve(names, self.visibility.narrow(where.rest), lenient=lenient)
        for scope in scopes:
            if not self.visibility.allows_scope(scope):  # it took the name in this moment
                raise ScopeNotFoundError(scope.name)
        exact = self.visibility.exact_owners
        if self.visibility.is_filtered or not exact:
            return scopes, narrow
        among = await self._list_ids(scopes)
        ids = among if narrow.memory_ids is None else among & narrow.memory_ids
        return scopes, dataclasses.replace(narrow, memory_ids=ids)

    async def _resolve(self, names: Sequence[str], rest: Filter, *, lenient: bool) -> tuple[tuple[Scope, ...], Filter]:
        scopes = await self._scopes.get_visible(names, lenient=lenient)
        return scopes, dataclasses.replace(rest, scope_ids=frozenset(scope.scope_id for scope in scopes))

    async def _list_ids(self, scopes: Iterable[Scope]) -> frozenset[MemoryId]:
        """List the memories of owners that no filter knows."""
        visibility, ids = self.visibility, frozenset[MemoryId]()
        for scope in scopes:
            ids |= await self._store.owners.live_ids_of(
                scope.scope_id, visibility.exact_owners, leave_out_status=visibility.unlisted_statuses
            )
        return ids

    # memories

    def allows(self, memory: MemoryRecord) -> bool:
        """True if *memory*, live or hidden, is seen."""
        if self.sees_everything:
            return True
        scope = self._scopes.find_by_id(memory.scope_id)
        return scope is not None and self.visibility.allows_scope(scope) and self.visibility.allows(memory)

    def check(self, memory: MemoryRecord) -> None:
        """Refuse a memory that is not seen as one that is not there.

        Raises:
            MemoryNotFoundError: it is not seen.
        """
        if not self.allows(memory):
            raise MemoryNotFoundError(memory.memory_id)

    def check_new(self, memories: Iterable[NewMemory]) -> None:
        """Refuse to store what would not be seen.

        Raises:
            ScopeNotFoundError: into a scope that is not seen.
            ForbiddenError: of other owners.
        """
        if not self.sees_everything:
            for memory in memories:
                self.check_scope(memory.scope)
                self.visibility.check_new(memory)

    def creates(self, *, wanted: bool) -> bool:
        """True if a scope to store into is made where it is *wanted*."""
        return wanted and (self.sees_everything or self.visibility.creates_scopes)

    async def read(self, sidecar: VectorIndex, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryRecord]:
        """Read live memories that a filter let through, and look at each again: filters know less than `allows`.

        Where there are none to read, make sure that the store is there: only it can say so.
        """
        if not memory_ids:
            await self._store.ping()
            return {}
        located = dict(await call(sidecar, lambda: sidecar.locate(memory_ids)))
        if sidecar is self._index.partial or self._index.why_behind is not None:  # it does not know all of them yet
            located |= await self._store.locate([memory_id for memory_id in memory_ids if memory_id not in located])
        return self._allowed(await self._store.fetch(located))

    async def read_page(
        self, sidecar: VectorIndex, memory_ids: Sequence[MemoryId]
    ) -> tuple[dict[MemoryId, MemoryRecord], int]:
        """Read live memories, as `read` does, in the order given and until they fill a page (`PAGE_CHARS`).

        Returns:
            What was read, and how many of *memory_ids* were looked at; those after them were not.
        """
        found: dict[MemoryId, MemoryRecord] = {}
        begin = chars = 0
        size = FIRST_READ
        while begin < len(memory_ids) or not begin:
            ids = memory_ids[begin : begin + size]
            part = await self.read(sidecar, ids)
            for place, memory_id in enumerate(ids, begin + 1):
                memory = part.get(memory_id)
                if memory is not None:
                    found[memory_id] = memory
                    chars += _chars(memory)
                    if chars >= PAGE_CHARS:
                        return found, place
            begin += size
            size = max(1, min(len(memory_ids), (PAGE_CHARS - chars) * begin // (chars + 1)))
        return found, len(memory_ids)

    async def fetch(self, located: Located, *, deleted: bool | None = False) -> dict[MemoryId, MemoryRecord]:
        """Read those of some memories that are seen; *deleted* as in `Store.fetch`."""
        return self._allowed(await self._store.fetch(located, deleted=deleted))

    def _allowed(self, memories: dict[MemoryId, MemoryRecord]) -> dict[MemoryId, MemoryRecord]:
        if self.sees_everything:
            return memories
        return {memory_id: memory for memory_id, memory in memories.items() if self.allows(memory)}

    async def locate(self, memory_id: MemoryId, *, again: bool = False) -> Located:
        """Find where a memory, live or hidden, is; empty where it is not seen. Reads none that is not.

        The index may be a moment behind: who found no memory where it said asks *again*, and the store alone answers.
        """
        if self.sees_everything:
            if again:
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
        """Return where memories are, for who sees everything; those that the index does not know (yet) the store may."""
        sidecar = await self._index.sidecar()
        located = await call(sidecar, lambda: sidecar.locate(memory_ids))
        unknown = [one for one in memory_ids if one not in located]
        return {**located, **(await self._store.locate(unknown) if unknown else {})}

    async def keep_allowed(self, located: Located) -> Located:
        """Leave out what is not seen, before any of it is read."""
        if self.sees_everything or not located:
            return located
        kept: dict[MemoryId, ScopeId] = {}
        for scope in await self.existing_scopes(self.scope_names()):
            there = [memory_id for memory_id, scope_id in located.items() if scope_id == scope.scope_id]
            allowed = await self._allowed_ids(scope.scope_id, there)
            kept |= {one: scope.scope_id for one in there if one in allowed}
        return kept

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
    """Return about how much room a memory takes in a reply, in characters."""
    details = len(repr(memory.metadata)) if memory.metadata else 0
    return len(memory.text) + details + (len(repr(memory.structured)) if memory.structured else 0)
