"""The scopes by name: a cache over the store that every other part asks, and the rules for names.

`Global` always exists and can only be emptied. `ALL` and `null` are reserved words, whatever their case.
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
MAX_COMPARED = 50  # scopes whose names are compared with one that does not exist
COMPARED_CHARS = 64  # of their names


class ScopeCache:
    """Every scope, archived ones too. What another process changed arrives by `refresh`."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._by_name: dict[str, Scope] = {}
        self._by_id: dict[ScopeId, Scope] = {}
        self._hidden: frozenset[ScopeId] = frozenset()
        self._making = asyncio.Lock()

    async def refresh(self) -> None:
        """Read the scopes from the store."""
        scopes = await self._store.list_scopes()
        self._by_name = {fold(scope.name): scope for scope in scopes}
        self._by_id = {scope.scope_id: scope for scope in scopes}
        self._hidden = self._store.hidden_scopes

    def all(self) -> list[Scope]:
        """List every scope, archived ones too, oldest first."""
        return list(self._by_id.values())

    def archived_ids(self) -> frozenset[ScopeId]:
        """Return the ids of archived scopes, and of those that are set aside."""
        return self._hidden | {scope.scope_id for scope in self._by_id.values() if scope.archived_at}

    def hidden_ids(self) -> frozenset[ScopeId]:
        """Return the ids of scopes whose documents are set aside, as of the last refresh."""
        return self._hidden

    def find_by_id(self, scope_id: ScopeId) -> Scope | None:
        """Return the scope of that id, or None."""
        return self._by_id.get(scope_id)

    async def find_again(self, scope_id: ScopeId) -> Scope | None:
        """Return the scope of that id, which another process may have made a moment ago, or None."""
        if scope_id not in self._by_id:
            await self.refresh()
        return self._by_id.get(scope_id)

    async def find(self, name: str) -> Scope | None:
        """Return the scope of that name, archived or not; None where there is none."""
        if fold(name) not in self._by_name:
            await self.refresh()  # another process may have made it a moment ago
        return self._by_name.get(fold(name))

    async def get(self, name: str) -> Scope:
        """Return the scope of that name, archived or not.

        Raises:
            ScopeNotFoundError: there is none; carries the nearest names.
        """
        if (scope := await self.find(name)) is None:
            raise await self._not_found(name)
        return scope

    async def _not_found(self, name: str) -> ScopeNotFoundError:
        scopes = dict(self._by_name)
        near = await asyncio.to_thread(find_similar_names, fold(name), list(scopes))
        return ScopeNotFoundError(name, [scopes[one].name for one in near])

    async def get_visible(self, names: Iterable[str], *, lenient: bool) -> tuple[Scope, ...]:
        """Return the scopes of several names to read from, each once, in order.

        Raises:
            ScopeNotFoundError: one of them does not exist or is archived, and *lenient* does not leave it out.
        """
        found: dict[ScopeId, Scope] = {}
        for name in names:
            scope = await self.find(name)
            if scope is not None and scope.archived_at is None:
                found[scope.scope_id] = scope
            elif not lenient:
                raise await self._not_found(name) if scope is None else ScopeNotFoundError(name, archived=True)
        return tuple(found.values())

    async def get_open(self, name: str, *, create: bool) -> Scope:
        """Return the scope to store into; with *create* one that does not exist is made.

        Raises:
            ScopeArchivedError: it is archived.
            ScopeNotFoundError: there is none, and none was to be made.
        """
        check_name(name)
        scope = await self.find(name)
        if scope is None:
            if not create:
                raise await self._not_found(name)
            try:
                scope = await self.create(name, "")
            except AlreadyExistsError:  # somebody was faster
                await self.refresh()
                scope = await self.get(name)
        if scope.archived_at:
            raise ScopeArchivedError(scope.name)
        return scope

    async def create(self, name: str, description: str) -> Scope:
        """Make a scope.

        Raises:
            ScopeExistsError: one of that name is there.
            InvalidRequestError: the name is reserved, or holds control characters.
        """
        check_name(name)
        check_printable(name.strip(), "scope")
        async with self._making:
            scope = await self._store.create_scope(name.strip(), description, self._clock())
        await self.refresh()
        return scope


def find_similar_names(name: str, names: Sequence[str]) -> list[str]:
    """Return up to three of *names* that *name* may have been meant for, the most similar first.

    `difflib` takes a millisecond for two names of a hundred letters, so it compares the beginnings of those alone that share most pairs
    of letters with *name*: 5,000 scopes with the longest names cost 50 ms.
    """
    pairs = _pairs(name)
    likely = heapq.nlargest(MAX_COMPARED, names, key=lambda one: len(pairs & _pairs(one)))
    beginnings = {one[:COMPARED_CHARS]: one for one in reversed(likely)}
    near = difflib.get_close_matches(name[:COMPARED_CHARS], list(beginnings), n=3, cutoff=0.5)
    return [beginnings[one] for one in near]


def _pairs(name: str) -> set[str]:
    beginning = name[:COMPARED_CHARS]
    return set(map(str.__add__, beginning, beginning[1:]))


def check_name(name: str, field: str = "scope") -> None:
    """Refuse the reserved words.

    Raises:
        InvalidRequestError: *name* is one of them.
    """
    if fold(name) in RESERVED:
        raise InvalidRequestError(field, f"{name!r} is reserved and cannot be a name")


def is_all(name: str) -> bool:
    """True if *name* is the word for every scope."""
    return fold(name) == fold(ALL)


def is_global(scope: Scope) -> bool:
    """True if *scope* is the one that always exists."""
    return fold(scope.name) == fold(GLOBAL)
