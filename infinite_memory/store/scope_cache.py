"""Scopes by name: a cache over the store used by all other parts, and the rules for names.

`Global` always exists and can only be emptied. `ALL` and `null` are reserved words, in any case.
"""

from __future__ import annotations

import asyncio
import difflib
import heapq
from collections.abc import Iterable, Sequence

from infinite_memory.clock import Clock
from infinite_memory.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    ScopeArchivedError,
    ScopeNotFoundError,
    check_printable,
)
from infinite_memory.models import Scope, ScopeId, fold
from infinite_memory.store.base import Store
from infinite_memory.store.document_checks import RESERVED_SCOPE_NAMES

GLOBAL = "Global"
ALL = "ALL"
RESERVED = RESERVED_SCOPE_NAMES
MAX_COMPARED = 50  # scopes whose names are compared with an unknown one
COMPARED_CHARS = 64  # characters of their names


class ScopeCache:
    """All scopes, including archived ones. Changes by other processes arrive with `refresh`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._by_name: dict[str, Scope] = {}
        self._by_id: dict[ScopeId, Scope] = {}
        self._hidden: frozenset[ScopeId] = frozenset()
        self._making = asyncio.Lock()

    async def refresh(self) -> None:
        """Reload the scopes from the store."""
        scopes = await self._store.list_scopes()
        self._by_name = {fold(scope.name): scope for scope in scopes}
        self._by_id = {scope.scope_id: scope for scope in scopes}
        self._hidden = self._store.hidden_scopes

    def all(self) -> list[Scope]:
        """List all scopes, including archived ones, oldest first."""
        return list(self._by_id.values())

    def archived_ids(self) -> frozenset[ScopeId]:
        """Return the ids of archived scopes, and of those that are set aside."""
        return self._hidden | {scope.scope_id for scope in self._by_id.values() if scope.archived_at}

    def hidden_ids(self) -> frozenset[ScopeId]:
        """Return the ids of scopes whose documents are set aside, as of the last refresh."""
        return self._hidden

    def find_by_id(self, scope_id: ScopeId) -> Scope | None:
        """Return the scope with that id, or None."""
        return self._by_id.get(scope_id)

    async def find_again(self, scope_id: ScopeId) -> Scope | None:
        """Return the scope with that id or None, rereading the store in case another process has just created it."""
        if scope_id not in self._by_id:
            await self.refresh()
        return self._by_id.get(scope_id)

    async def find(self, name: str) -> Scope | None:
        """Return the scope with that name, archived or not; None if there is none."""
        if fold(name) not in self._by_name:
            await self.refresh()  # another process may have just created it
        return self._by_name.get(fold(name))

    async def get(self, name: str) -> Scope:
        """Return the scope with that name, archived or not.

        Raises:
            ScopeNotFoundError: there is none; carries the most similar names.
        """
        if (scope := await self.find(name)) is None:
            raise await self._not_found(name)
        return scope

    async def _not_found(self, name: str) -> ScopeNotFoundError:
        scopes = dict(self._by_name)
        near = await asyncio.to_thread(find_similar_names, fold(name), list(scopes))
        return ScopeNotFoundError(name, [scopes[key].name for key in near])

    async def get_visible(self, names: Iterable[str], *, lenient: bool) -> tuple[Scope, ...]:
        """Return the scopes to read from, by name, without duplicates, in order.

        Raises:
            ScopeNotFoundError: one of them does not exist or is archived, and *lenient* does not leave it out.
        """
        visible: dict[ScopeId, Scope] = {}
        for name in names:
            scope = await self.find(name)
            if scope is not None and scope.archived_at is None:
                visible[scope.scope_id] = scope
            elif not lenient:
                raise await self._not_found(name) if scope is None else ScopeNotFoundError(name, archived=True)
        return tuple(visible.values())

    async def get_open(self, name: str, *, create: bool) -> Scope:
        """Return the scope to store into; with *create* it is created if it does not exist.

        Raises:
            ScopeArchivedError: it is archived.
            ScopeNotFoundError: there is none, and *create* is false.
        """
        check_name(name)
        scope = await self.find(name)
        if scope is None:
            if not create:
                raise await self._not_found(name)
            try:
                scope = await self.create(name, "")
            except AlreadyExistsError:  # created concurrently
                await self.refresh()
                scope = await self.get(name)
        if scope.archived_at:
            raise ScopeArchivedError(scope.name)
        return scope

    async def create(self, name: str, description: str) -> Scope:
        """Create a scope.

        Raises:
            ScopeExistsError: one with that name exists.
            InvalidRequestError: the name is reserved, or holds control characters.
        """
        check_name(name)
        check_printable(name.strip(), "scope")
        async with self._making:
            scope = await self._store.create_scope(name.strip(), description, self._clock())
        await self.refresh()
        return scope


def find_similar_names(name: str, names: Sequence[str]) -> list[str]:
    """Return up to three of *names* similar to *name*, the most similar first.

    `difflib` takes a millisecond for two names of a hundred letters, so only the beginnings of the names that share the most letter pairs
    with *name* are compared: 5,000 scopes with the longest names take 50 ms.
    """
    pairs = _pairs(name)
    likely = heapq.nlargest(MAX_COMPARED, names, key=lambda one: len(pairs & _pairs(one)))
    beginnings = {candidate[:COMPARED_CHARS]: candidate for candidate in reversed(likely)}
    near = difflib.get_close_matches(name[:COMPARED_CHARS], list(beginnings), n=3, cutoff=0.5)
    return [beginnings[beginning] for beginning in near]


def _pairs(name: str) -> set[str]:
    beginning = name[:COMPARED_CHARS]
    return set(map(str.__add__, beginning, beginning[1:]))


def check_name(name: str, field: str = "scope") -> None:
    """Reject reserved names.

    Raises:
        InvalidRequestError: *name* is one of them.
    """
    if fold(name) in RESERVED:
        raise InvalidRequestError(field, f"{name!r} is reserved and cannot be a name")


def is_all(name: str) -> bool:
    """True if *name* stands for every scope."""
    return fold(name) == fold(ALL)


def is_global(scope: Scope) -> bool:
    """True if *scope* is Global."""
    return fold(scope.name) == fold(GLOBAL)
