"""Storing, changing, reading and listing memories: check the scope, embed, store, index; in that order.

The document is durable before it is indexed and before the call returns. If the model fails nothing is lost: the memory is stored
without vectors, marked as pending, and embedded later.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

from infinite_memory.engine.access import Access
from infinite_memory.engine.moving import Moved, Moves
from infinite_memory.engine.quotations import Quotations
from infinite_memory.engine.records import RecordMaker, changed, says_the_same
from infinite_memory.engine.types import MemoryPage, MemoryUpdate, NewMemory, RestoreResult, ScopedFilter, StoreResult
from infinite_memory.engine.upsert import Upserted, Upserts
from infinite_memory.errors import (
    AlreadyExistsError,
    InfiniteMemoryError,
    InvalidRequestError,
    MemoryChangedError,
    MemoryNotFoundError,
    NotFoundError,
    ScopeNotFoundError,
    StoreError,
)
from infinite_memory.index.base import call
from infinite_memory.index.embedding_backlog import embedded_text
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import Filter, MemoryId, MemoryRecord, Scope, TimeRange
from infinite_memory.store.base import RevisionPage, Store
from infinite_memory.store.belongings import Use
from infinite_memory.store.scope_cache import ScopeCache

# Errors of a single memory, not of the store.
_REFUSALS = (InvalidRequestError, AlreadyExistsError, NotFoundError)
SCOPE_TRIES = 3  # attempts to store while the scope is being merged or removed
WRITE_TRIES = 20  # attempts to write a memory that others are changing; each failure means another write succeeded


class Memories:
    """The memories that a caller may see, by id or in order of time."""

    def __init__(
        self, *, access: Access, store: Store, index: IndexSync, scopes: ScopeCache, records: RecordMaker,
        upserts: Upserts, moves: Moves, quotations: Quotations,
    ) -> None:  # fmt: skip
        self._access, self._store, self._index, self._scopes = access, store, index, scopes
        self._records, self._upserts, self._moves, self._quotations = records, upserts, moves, quotations

    async def store(self, new: NewMemory, *, create_scope: bool = True) -> StoreResult:
        """Store one memory.

        Raises:
            ScopeNotFoundError: the scope does not exist and is not to be created.
            ScopeArchivedError: the scope is archived.
            StoreUnavailableError: probably nothing was stored.
        """
        return (await self.store_all([new], create_scope=create_scope))[0]

    async def store_all(self, new: Sequence[NewMemory], *, create_scope: bool = True) -> list[StoreResult]:
        """Store several memories, all or none; errors as in `store`.

        A scope created for them stays if they fail: others may have stored into it by then, and removing it would remove their
        memories.
        """
        self._access.check_new(new)
        await self._index.connected()  # the index may still be loading: it picks up writes later
        create = self._access.creates(is_wanted=create_scope)
        names = dict.fromkeys(draft.scope for draft in new)
        for tries_left in reversed(range(SCOPE_TRIES)):
            scopes = {name: await self._scopes.get_open(name, create=create) for name in names}
            try:
                return await self._keep(await self._records.make_all(new, scopes))
            except ScopeNotFoundError:  # a scope was merged or removed just now; nothing was stored
                if not tries_left:
                    raise
                await self._scopes.refresh()
        raise AssertionError("unreachable")

    async def store_each(
        self, new: Sequence[NewMemory], *, create_scope: bool = True
    ) -> list[StoreResult | InfiniteMemoryError]:
        """Store several memories independently; the result has the error of each one that failed.

        Raises:
            StoreUnavailableError: probably nothing was stored.
        """
        self._access.check_new(new)
        create = self._access.creates(is_wanted=create_scope)
        scopes: dict[str, Scope | InfiniteMemoryError] = {}
        await self._index.connected()
        for name in dict.fromkeys(draft.scope for draft in new):
            try:
                scopes[name] = await self._scopes.get_open(name, create=create)
            except InfiniteMemoryError as exc:
                scopes[name] = exc
        good = [draft for draft in new if isinstance(scopes[draft.scope], Scope)]
        open_scopes = {name: scope for name, scope in scopes.items() if isinstance(scope, Scope)}
        stored = iter(await self._keep_each(await self._records.make_all(good, open_scopes)) if good else [])
        results: list[StoreResult | InfiniteMemoryError] = []
        for draft in new:
            scope = scopes[draft.scope]
            result = next(stored) if isinstance(scope, Scope) else scope
            if isinstance(scope, Scope) and isinstance(result, ScopeNotFoundError):  # merged or removed just now
                await self._scopes.refresh()
                try:
                    result = await self.store(draft, create_scope=create_scope)
                except InfiniteMemoryError as exc:
                    result = exc
            results.append(result)
        return results

    async def upsert(self, new: NewMemory, *, create_scope: bool = True) -> Upserted:
        """Store a memory with structured content, or merge it into the one with the same content; see `Upserts.upsert`."""
        return await self._upserts.upsert(new, create_scope=create_scope)

    async def update(
        self, memory_id: MemoryId, changes: MemoryUpdate, *, check: Callable[[MemoryRecord], None] | None = None
    ) -> StoreResult:
        """Change parts of a memory, unless it already has these values.

        The previous text stays in its revisions, but in no digest that quotes it.

        Args:
            check: Called with the memory before the change, and may raise; the change applies to that revision or not at all.

        Raises:
            MemoryNotFoundError: there is no live memory with that id.
            InvalidRequestError: the caller would no longer see the memory.
        """
        self._access.visibility.check_update(changes)
        for number in range(WRITE_TRIES):
            old = await self._get(memory_id, from_store=number > 0)
            if check is not None:
                check(old)
            new = changed(old, changes)
            if says_the_same(old, new):
                return StoreResult(old, await self._scope_of(old, None), is_changed=False)
            if embedded_text(new) == embedded_text(old):
                full = await self._store.fetch({memory_id: old.scope_id}, vectors=True)
                new = dataclasses.replace(new, embedding=full[memory_id].embedding if memory_id in full else None)
            record, pending = await self._records.update(old, new)
            former, quoting = self._scopes.find_by_id(old.scope_id), list[MemoryRecord]()
            try:
                with self._quotations.under_way():
                    if new.text != old.text:
                        quoting += await self._quotations.remove({memory_id: old.scope_id}, hard=False)
                    stored = await self._store.replace(record, keep_revision=True)
            except (MemoryChangedError, MemoryNotFoundError):  # changed or moved: look it up again
                await self._scopes.refresh()
                continue
            finally:
                self._quotations.report(quoting)
            await self._index.on_written([stored])
            return StoreResult(stored, await self._scope_of(stored, former), pending)
        raise StoreError(f"memory {memory_id} is being changed by others all the time; try again")

    async def move(self, memory_id: MemoryId, scope: str) -> Moved:
        """Move a memory to another scope, with its id, versions and links; see `Moves.move`."""
        return await self._moves.move(memory_id, scope)

    async def write_batch(
        self,
        new: Sequence[NewMemory],
        changes: Mapping[MemoryId, MemoryUpdate],
        check: Callable[[MemoryRecord], None],
    ) -> tuple[list[MemoryRecord], list[MemoryRecord]]:
        """Store *new* memories and apply *changes* atomically; changed memories that were soft-forgotten become live.

        Args:
            check: Called with each memory before its change, and may raise.

        Returns:
            The new memories and the changed ones, each in the given order.

        Raises:
            MemoryNotFoundError: a memory to change is gone.
            AlreadyExistsError: a new memory has an existing id.
        """
        self._access.visibility.check_everything()
        await self._index.sidecar()
        names = dict.fromkeys(draft.scope for draft in new)
        scopes = {name: await self._scopes.get_open(name, create=True) for name in names}
        records = [result.memory for result in await self._records.make_all(new, scopes)] if new else []
        for _ in range(WRITE_TRIES):
            after = [await self._after(memory_id, change, check) for memory_id, change in changes.items()]
            try:
                stored = await self._store.write_batch(records, after)
            except MemoryChangedError:
                continue
            await self._index.on_written([*records, *stored])
            return records, stored
        raise StoreError("these memories are being changed by others all the time; try again")

    async def restore(self, memory_id: MemoryId) -> RestoreResult:
        """Restore a soft-forgotten memory; a live one stays as it is.

        Raises:
            MemoryNotFoundError: it never existed, or was permanently removed.
        """
        await self._index.sidecar()
        if not self._access.sees_everything and not await self._access.locate(memory_id):
            raise MemoryNotFoundError(memory_id)
        located = await self._store.locate([memory_id])
        restored = await self._store.undelete(located)
        memories = await self._store.fetch(located, vectors=True)
        if memory_id not in memories and located:  # moved or merged just now
            memories = await self._store.fetch(await self._store.locate([memory_id]), vectors=True)
        if memory_id not in memories:
            raise MemoryNotFoundError(memory_id)
        await self._index.on_written([memories[memory_id]])
        return RestoreResult(memories[memory_id], memory_id in restored)

    async def get(self, memory_id: MemoryId) -> MemoryRecord:
        """Read one live memory.

        Raises:
            MemoryNotFoundError: there is no memory with that id, it was forgotten, or its scope is archived.
        """
        return await self._get(memory_id, from_store=False)

    async def _get(self, memory_id: MemoryId, *, from_store: bool) -> MemoryRecord:
        """Read as `get` does; *from_store* as in `Access.locate`."""
        if not self._access.sees_everything:
            await self._index.sidecar()
        located = await self._access.locate(memory_id, from_store=from_store)
        if located.get(memory_id) in self._scopes.archived_ids():
            raise MemoryNotFoundError(memory_id)
        memories = await self._access.fetch(located)
        if memory_id not in memories and located and self._access.sees_everything:  # it may have moved just now
            memories = await self._access.fetch(await self._access.locate(memory_id, from_store=True))
        if memory_id not in memories:
            raise MemoryNotFoundError(memory_id)
        return memories[memory_id]

    async def fetch(
        self, scope: Scope, memory_ids: Sequence[MemoryId], *, deleted: bool | None
    ) -> dict[MemoryId, MemoryRecord]:
        """Read some memories of a scope; *deleted* as in `Store.fetch`."""
        return await self._access.fetch(dict.fromkeys(memory_ids, scope.scope_id), deleted=deleted)

    async def find_taken(self, scope: Scope, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryRecord | None]:
        """Return the ids that are taken in a scope, live or soft-forgotten, with their memory, or None if it is not visible.

        The id of a memory that moved to another scope counts as taken.
        """
        memories = await self._store.fetch(dict.fromkeys(memory_ids, scope.scope_id), deleted=None)
        stored = {memory_id: memory if self._access.allows(memory) else None for memory_id, memory in memories.items()}
        rest = [memory_id for memory_id in memory_ids if memory_id not in stored]
        return dict.fromkeys(await self._store.find_moved(rest) if rest else ()) | stored

    async def find(
        self, memory_ids: Sequence[MemoryId], *, deleted: bool | None = False
    ) -> dict[MemoryId, MemoryRecord]:
        """Read the visible ones of some memories, in any scope; *deleted* as in `Store.fetch`."""
        if deleted is False:
            return await self._access.fetch(await self._access.locate_each(memory_ids))
        return await self._access.fetch(await self._store.locate(memory_ids), deleted=deleted)

    async def stream(self, scope: Scope) -> AsyncIterator[MemoryRecord]:
        """Yield every live memory of a scope; for unrestricted callers."""
        self._access.visibility.check_everything()
        async for memory in self._store.stream([scope.scope_id]):
            yield memory

    async def make_ids(self, content: str) -> list[MemoryId]:
        """Return the possible ids of a memory with *content*, that of a new one first; see `IdKeys.ids`."""
        return (await self._index.id_keys.get()).ids(content)

    async def keep_digests(self, memories: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        """Return those of *memories* that are visible, genuine digests of this database, and not imitations by a client."""
        return await self._quotations.keep_digests(memory for memory in memories if self._access.allows(memory))

    async def history(self, memory_id: MemoryId, before: int | None = None) -> RevisionPage:
        """Return the latest earlier versions of a memory (*before* a revision; None: all), oldest first.

        At most a hundred, and a million characters of text.

        Raises:
            MemoryNotFoundError: the memory is not visible.
        """
        if self._access.sees_everything:
            return await self._store.get_revisions(memory_id, before)
        memory = await self.get(memory_id)
        page = await self._store.get_revisions(memory_id, before)
        hidden = {version.revision for version in page.revisions if not self._access.allows(version)}
        here = memory.scope_id  # replaces earlier scopes that the caller does not see
        seen = (
            dataclasses.replace(version, scope_id=here) if version.revision in hidden else version
            for version in page.revisions
        )
        moves = {revision: instant for revision, instant in page.moved_at.items() if revision not in hidden}
        return dataclasses.replace(page, revisions=tuple(seen), moved_at=moves)

    async def list_page(
        self, where: ScopedFilter, limit: int, cursor: str | None = None, *, newest_first: bool = True
    ) -> MemoryPage:
        """Return the memories that pass *where* by ``occurred_at``; fewer than *limit* if their texts fill a page (`PAGE_CHARS`).

        Raises:
            ScopeNotFoundError: a scope of *where* does not exist.
            InvalidRequestError: *cursor* is not one of ours.
        """
        sidecar = await self._index.sidecar()
        scopes, filter_ = await self._access.resolve(where)
        note = self._access.behind_note or ""
        page = await call(sidecar, lambda: sidecar.list_page(filter_, limit, cursor, newest_first))
        read, looked_at = await self._access.read_page(sidecar, page.memory_ids)
        if looked_at < len(page.memory_ids):
            page = await call(sidecar, lambda: sidecar.list_page(filter_, looked_at, cursor, newest_first))
        return MemoryPage(tuple(read.values()), page.total, page.next_cursor, scopes, note)

    async def list_ids(self, where: ScopedFilter, limit: int, *, newest_first: bool = True) -> Sequence[MemoryId]:
        """Return the ids of the memories that `list_page` returns, from the index; for unrestricted callers."""
        self._access.visibility.check_everything()
        sidecar = await self._index.sidecar()
        _, filter_ = await self._access.resolve(where)
        return (await call(sidecar, lambda: sidecar.list_page(filter_, limit, None, newest_first))).memory_ids

    async def count(self, where: ScopedFilter) -> int:
        """Return the number of memories that pass *where*.

        Raises:
            ScopeNotFoundError: a scope of *where* does not exist.
        """
        sidecar = await self._index.for_words()
        _, filter_ = await self._access.resolve(where)
        if sidecar is self._index.partial and (words := self._index.words) is not None:
            return words.count(filter_)  # the text index is complete while the rest is rebuilt or unavailable
        return await call(sidecar, lambda: sidecar.count(filter_))

    async def count_by_time(self, where: ScopedFilter, edges: Sequence[dt.datetime]) -> list[int]:
        """Return the number of memories that pass *where* between each pair of consecutive *edges*, which ascend.

        Raises:
            ScopeNotFoundError: a scope of *where* does not exist.
        """
        sidecar = await self._index.sidecar()
        _, filter_ = await self._access.resolve(where)
        return await asyncio.to_thread(sidecar.count_by_time, filter_, edges)

    async def find_use(self, memory_id: MemoryId) -> Use | None:
        """Return how often a memory was recalled, and when last; None if never.

        Raises:
            MemoryNotFoundError: there is no live memory with that id.
        """
        await self.get(memory_id)
        return await self._store.uses.find(memory_id)

    async def last_conversation_start(self, before: dt.datetime) -> dt.datetime | None:
        """Return when the newest conversation before *before* started; None if there is none."""
        until = TimeRange(None, before)
        newest = (await self.list_page(ScopedFilter(None, Filter(time=until)), 1)).memories
        if not newest or newest[0].conversation_id is None:
            return newest[0].occurred_at if newest else None
        where = ScopedFilter(None, Filter(conversation_id=newest[0].conversation_id, time=until))
        first = (await self.list_page(where, 1, newest_first=False)).memories
        return (first or newest)[0].occurred_at

    async def _after(
        self, memory_id: MemoryId, changes: MemoryUpdate, check: Callable[[MemoryRecord], None]
    ) -> MemoryRecord:
        memories = await self._store.fetch(await self._store.locate([memory_id]), deleted=None, vectors=True)
        if (old := memories.get(memory_id)) is None:
            raise MemoryNotFoundError(memory_id)
        check(old)
        new = dataclasses.replace(changed(old, changes), deleted_at=None, is_pruned=False)
        return (await self._records.update(old, new))[0]

    async def _keep(self, created: Sequence[StoreResult]) -> list[StoreResult]:
        memories = [result.memory for result in created]
        await self._store.insert(memories)
        await self._index.on_written(memories)
        return list(created)

    async def _keep_each(self, created: Sequence[StoreResult]) -> list[StoreResult | InfiniteMemoryError]:
        """Store all at once; if the store refuses one of them, one by one."""
        try:
            return list(await self._keep(created))
        except _REFUSALS:
            pass
        results: list[StoreResult | InfiniteMemoryError] = []
        for result in created:
            try:
                results += await self._keep([result])
            except InfiniteMemoryError as exc:
                results.append(exc)
        return results

    async def _scope_of(self, memory: MemoryRecord, former: Scope | None) -> Scope:
        """Return the scope of a changed memory; *former*, its previous scope, if the current one was merged or removed just now."""
        if (scope := await self._scopes.find_again(memory.scope_id) or former) is None:
            raise MemoryNotFoundError(memory.memory_id)
        return scope
