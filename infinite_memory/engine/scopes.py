"""Managing scopes: create, list, rename, unarchive and merge."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from infinite_memory.engine.access import Access
from infinite_memory.engine.agreement import Agreement
from infinite_memory.errors import InvalidRequestError, ScopeNotFoundError, check_printable, truncated_repr
from infinite_memory.index.base import call
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import Filter, Scope, ScopeId
from infinite_memory.store.base import Store
from infinite_memory.store.copies import retry_while_away
from infinite_memory.store.scope_cache import ScopeCache, check_name, is_global

PAGE = 1000  # memories restored at a time


@dataclass(frozen=True, slots=True)
class Merged:
    """Result of merging one scope into another."""

    source: Scope
    target: Scope
    count: int


@dataclass(frozen=True, slots=True)
class ChangedScope:
    """A scope after a change, and before it."""

    scope: Scope
    previous: Scope

    @property
    def outcome(self) -> str:
        """The outcome of the change."""
        is_same = (self.scope.name, self.scope.description) == (self.previous.name, self.previous.description)
        return "unchanged" if is_same else "updated"


class Scopes:
    """The scopes that a caller may see."""

    def __init__(self, *, access: Access, store: Store, index: IndexSync, scopes: ScopeCache) -> None:
        self._access, self._store, self._index, self._scopes = access, store, index, scopes

    def find_by_id(self, scope_id: ScopeId) -> Scope | None:
        """Return the cached scope with that id, even if it is not visible: the id comes from a visible memory."""
        return self._scopes.find_by_id(scope_id)

    async def create(self, name: str, description: str) -> Scope:
        """Create a scope.

        Raises:
            ScopeExistsError: a scope exists whose name folds to the same.
            InvalidRequestError: the name is reserved.
        """
        self._access.visibility.check_everything()
        await self._index.sidecar()
        return await self._scopes.create(name, description)

    async def open(self, name: str) -> Scope:
        """Return the scope with that name to store into, created if necessary; waits only for the database.

        Raises:
            ScopeArchivedError: the scope is archived.
        """
        self._access.check_scope(name)
        await self._index.connected()
        return await self._scopes.get_open(name, create=self._access.creates(is_wanted=True))

    async def find(self, name: str) -> Scope | None:
        """Return the scope with that name, archived or not; None if there is none. Waits only for the database."""
        self._access.check_scope(name)
        await self._index.connected()
        return await self._scopes.find(name)

    async def list_all(self) -> list[Scope]:
        """Return every visible scope, archived ones too, oldest first."""
        await self._index.sidecar()
        await self._scopes.refresh()
        return [scope for scope in self._scopes.all() if self._access.allows_name(scope.name)]

    async def get(self, name: str) -> Scope:
        """Return the scope with that name, archived or not.

        Raises:
            ScopeNotFoundError: there is none; the error has similar names.
        """
        self._access.check_scope(name)
        await self._index.sidecar()
        return await self._scopes.get(name)

    async def refresh(self) -> None:
        """Reload the scopes, which another process may have changed; waits only for the database."""
        await self._index.connected()
        await self._scopes.refresh()

    async def find_by_ids(self, scope_ids: Sequence[ScopeId]) -> list[Scope]:
        """Return the existing ones of the scopes, in order; reloads if one is unknown, as another process may have just created it."""
        if any(self._scopes.find_by_id(scope_id) is None for scope_id in scope_ids):
            await self._scopes.refresh()
        return [scope for scope_id in scope_ids if (scope := self._scopes.find_by_id(scope_id)) is not None]

    async def change(
        self, name: str, new_name: str | None, description: str | None, *, agreement: Agreement | None = None
    ) -> ChangedScope:
        """Rename or describe a scope; with *agreement* only the one that the user confirmed.

        Raises:
            ChangedSinceAskedError: another scope has that name now.
            ScopeNotFoundError: there is no scope with that name.
            ScopeExistsError: another scope has the new name.
            InvalidRequestError: the new name is reserved, or Global would be renamed.
        """
        self._access.visibility.check_everything()
        await self._index.sidecar()
        scope = await self._scopes.get(name)
        if agreement is not None:
            agreement.check_scopes(scope)
        if new_name is not None:
            check_name(new_name, "new_name")
            check_printable(new_name, "new_name")
            if is_global(scope):
                raise InvalidRequestError("new_name", f"{scope.name} always exists and keeps its name")
        try:
            changed = await self._store.change_scope(scope.scope_id, name=new_name, description=description)
        except ScopeNotFoundError:  # removed or merged just now; the store's error has only the id
            raise ScopeNotFoundError(scope.name) from None
        finally:
            await self._scopes.refresh()
        return ChangedScope(changed, scope)

    async def merge(self, name: str, into: str, *, dry_run: bool = False, agreement: Agreement | None = None) -> Merged:
        """Move every memory of a scope to another, and remove the empty one; ids, times and revisions stay.

        With *agreement* only the scopes that the user confirmed are merged.

        Raises:
            ChangedSinceAskedError: other scopes have those names now.
            ScopeNotFoundError: one of them does not exist.
            InvalidRequestError: they are the same, Global would be removed, or the target is archived.
        """
        self._access.visibility.check_everything()
        await self._index.sidecar()
        source, target = await self._scopes.get(name), await self._scopes.get(into)
        if agreement is not None:
            agreement.check_scopes(source, target)
        if source.scope_id == target.scope_id:
            raise InvalidRequestError("into", f"{target.name!r} is the same scope")
        if is_global(source):
            raise InvalidRequestError(
                "scope", f"{source.name} always exists; its memories can be moved one by one only"
            )
        if target.archived_at is not None:
            raise InvalidRequestError("into", f"{target.name!r} is archived; take it out first")
        if dry_run:
            return Merged(source, target, await self._count(source))
        async with self._store.copies.exclusive():
            await self._check_still_open(source, target)
            # Memories, including those stored in the meantime, are found in the source scope until they are found in the target.
            moved = partial(self._index.scope_merged, source.scope_id, target.scope_id)
            count = await self._store.copies.merge_scopes(source.scope_id, target.scope_id, moved)
            await moved()
            await retry_while_away(lambda: self._store.drop_scope(source.scope_id))
            await retry_while_away(self._scopes.refresh)
        await self._index.check()  # re-reads the moved memories: their revision and text
        await self._index.scope_removed(source.scope_id)
        self._index.scopes_changed()
        return Merged(source, target, count)

    async def _check_still_open(self, source: Scope, target: Scope) -> None:
        """Raise if another client removed or merged a scope, or archived the target, while the merge was waiting."""
        await retry_while_away(self._scopes.refresh)
        for scope in (source, target):
            if self._scopes.find_by_id(scope.scope_id) is None:
                raise ScopeNotFoundError(scope.name)
        if target.scope_id in self._scopes.archived_ids():
            raise InvalidRequestError("into", f"{target.name!r} is archived; take it out first")

    async def count(self, name: str) -> int:
        """Return the number of memories of a scope, archived or not, including soft-forgotten ones; reads none of them.

        Raises:
            ScopeNotFoundError: there is no scope with that name.
        """
        self._access.visibility.check_everything()
        return await self._count(await self._scopes.get(name))

    async def _count(self, scope: Scope) -> int:
        sidecar, inside = await self._index.sidecar(), Filter(scope_ids=frozenset({scope.scope_id}))
        live = await call(sidecar, lambda: sidecar.count(inside))
        return live + await self._store.count_deleted([scope.scope_id])

    async def restore(
        self, name: str, hidden_at: dt.datetime | None = None, *, only_archived: bool = False
    ) -> tuple[Scope, int]:
        """Unarchive a scope with its memories, or restore the soft-forgotten memories of one that is not archived (Global never is).

        With *hidden_at* only those forgotten at that instant (`ForgetResult`) are restored. *only_archived* is for the undo of
        archiving: what was forgotten in the scope after somebody else had unarchived it must not come back.

        Returns:
            The scope, and the number of memories that are visible again.

        Raises:
            ScopeNotFoundError: there is no scope with that name.
            InvalidRequestError: *only_archived*, and the scope is not archived.
        """
        self._access.visibility.check_everything()
        sidecar = await self._index.sidecar()
        if only_archived:  # another process may have unarchived it
            await self._scopes.refresh()
        scope = await self._scopes.get(name)
        if scope.archived_at is not None:
            scope = await self._store.set_scope_archived(scope.scope_id, None)
            await self._scopes.refresh()
            self._index.scopes_changed()
            inside = Filter(scope_ids=frozenset({scope.scope_id}))
            return scope, await call(sidecar, lambda: sidecar.count(inside))
        if only_archived:
            raise InvalidRequestError(
                "", f"the scope {truncated_repr(scope.name)} is not archived any more; nothing was changed"
            )
        return scope, (await self._undelete(frozenset({scope.scope_id}), hidden_at)).total()

    async def restore_hidden_at(self, hidden_at: dt.datetime) -> tuple[int, list[Scope]]:
        """Restore the memories of all scopes that were soft-forgotten at an instant (`ForgetResult`).

        Returns:
            Their number, and the archived scopes of some of them: those are not seen until their scope is unarchived.
        """
        self._access.visibility.check_everything()
        await self._index.sidecar()
        await self._scopes.refresh()
        restored = await self._undelete(None, hidden_at)
        scopes = await self.find_by_ids(list(restored))
        return restored.total(), [scope for scope in scopes if scope.archived_at is not None]

    async def _undelete(self, scope_ids: frozenset[ScopeId] | None, hidden_at: dt.datetime | None) -> Counter[ScopeId]:
        """Restore the soft-forgotten memories of some scopes, or of all; returns the number in each."""
        after = None if hidden_at is None else hidden_at + dt.timedelta(milliseconds=1)
        deleted = await self._store.deleted_ids(scope_ids, after)
        if hidden_at is not None:
            earlier = await self._store.deleted_ids(scope_ids, hidden_at)
            deleted = {memory_id: scope_id for memory_id, scope_id in deleted.items() if memory_id not in earlier}
        hidden = list(deleted.items())
        restored: Counter[ScopeId] = Counter()
        for start in range(0, len(hidden), PAGE):
            memories = await self._index.undelete(dict(hidden[start : start + PAGE]))
            restored.update(memory.scope_id for memory in memories)
        return restored
