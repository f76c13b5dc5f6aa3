"""An engine as somebody may see it who may not see everything: one user's memories, or those of some scopes.

Why here and not in each route: every command of every contract goes through the engine's methods, so what these views hide is
hidden whatever field, filter, cursor or id a request comes with. What a view has not learnt to narrow it refuses.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Callable, Collection, Sequence
from typing import Any

from infinite_memory.contracts.agentmem.people import (
    AGENT,
    USER,
    ids_of_agent,
    source_of,
    superseded_source_of,
)
from infinite_memory.contracts.agentmem.table import SCOPE, MemoryType
from infinite_memory.engine import Engine
from infinite_memory.engine.forget import ForgetMode
from infinite_memory.engine.naming import Asked, Names
from infinite_memory.engine.parts import Changes, Draft, Forgotten, Kept, Listing, Target, Where
from infinite_memory.engine.upkeep import Figures
from infinite_memory.errors import (
    ForbiddenError,
    InfiniteMemoryError,
    InvalidRequestError,
    MemoryNotFoundError,
    ScopeNotFoundError,
)
from infinite_memory.models import Filter, Link, MemoryId, MemoryRecord, Scope, ScopeId, TimeRange, fold
from infinite_memory.sidecar.base import Sidecar, Wording
from infinite_memory.store.base import Located
from infinite_memory.store.owners import Agent

_NOTHING: frozenset[MemoryId] = frozenset()


class View(Engine):
    """What the two kinds of view share. `_shows` judges a memory, `_narrowed` a filter; the rest follows from them.

    A *discreet* view is for somebody who must not see the rest; others only did not ask for it.
    """

    _scope_names: tuple[str, ...]

    def __init__(self, engine: Engine, *, discreet: bool) -> None:
        super().__init__(engine.parts)
        self._whole, self._discreet = engine, discreet
        self._at_work = engine._at_work

    def _shows(self, memory: MemoryRecord) -> bool:
        """Tell whether *memory* is seen, live or hidden."""
        raise NotImplementedError

    def _narrowed(self, where: Filter) -> Filter:
        """Narrow a filter to what is seen of the view's scopes."""
        return where

    def _check_draft(self, draft: Draft) -> None:
        """Refuse what would be stored out of sight."""
        self._check_scope(draft.scope)

    def _check_scope(self, name: str) -> None:
        """Refuse a scope that is not seen as one that is not there; no names near it are told."""
        if fold(name) not in map(fold, self._scope_names):
            raise ScopeNotFoundError(name)

    def _in_scopes(self, memory: MemoryRecord) -> bool:
        scope = self.parts.scopes.find_by_id(memory.scope_id)
        return scope is not None and fold(scope.name) in map(fold, self._scope_names)

    # finding

    async def _resolve(self, where: Where) -> tuple[tuple[Scope, ...], Filter]:
        names = self._scope_names if where.scopes is None else where.scopes
        if where.lenient:
            names = tuple(one for one in names if fold(one) in map(fold, self._scope_names))
        for name in names:
            self._check_scope(name)
        lenient = where.lenient or where.scopes is None
        scopes, narrow = await super()._resolve(Where(names, self._narrowed(where.rest), lenient=lenient))
        assert narrow.scope_ids is not None
        return scopes, narrow

    async def _read(self, sidecar: Sidecar, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryRecord]:
        """Read memories that a filter let through, and look at each again: the filter goes by less than `_shows`."""
        found = await super()._read(sidecar, memory_ids)
        return {one: memory for one, memory in found.items() if self._shows(memory)}

    def _understood(self, query: str, wording: Wording | None, sidecar: Sidecar) -> Asked:
        """Read the names in a question; where others must not be noticed, not by the tags and the words that they use."""
        if self._discreet:
            return Names(()).read(query, {})
        return self._whole._understood(query, wording, sidecar)

    async def last_conversation_start(self, before: dt.datetime) -> dt.datetime | None:
        until = TimeRange(None, before)
        newest = _first(await self.list_memories(Where(None, Filter(time=until)), 1))
        if newest is None or newest.conversation_id is None:
            return newest.occurred_at if newest else None
        same = Where(None, Filter(conversation_id=newest.conversation_id, time=until))
        opened = _first(await self.list_memories(same, 1, newest_first=False))
        return (opened or newest).occurred_at

    # one memory

    async def get(self, memory_id: MemoryId) -> MemoryRecord:
        memory = await super().get(memory_id)
        if not self._shows(memory):
            raise MemoryNotFoundError(memory_id)
        return memory

    async def history(self, memory_id: MemoryId) -> list[MemoryRecord]:
        await self.get(memory_id)
        return await super().history(memory_id)

    async def links_of(self, memory_id: MemoryId) -> list[Link]:
        await self.get(memory_id)
        links = await super().links_of(memory_id)
        return [one for one in links if await self._sees(one.from_id) and await self._sees(one.to_id)]

    async def link(self, source: MemoryRecord, target: MemoryRecord, relation: str) -> bool:
        for end in (source, target):
            if not self._shows(end):
                raise MemoryNotFoundError(end.memory_id)
        return await super().link(source, target, relation)

    async def restore(self, memory_id: MemoryId) -> MemoryRecord:
        await self.parts.index.sidecar()
        located = await self.parts.store.locate([memory_id])
        if memory_id not in await self._shown(located):
            raise MemoryNotFoundError(memory_id)
        return await super().restore(memory_id)

    async def _sees(self, memory_id: MemoryId) -> bool:
        try:
            await self.get(memory_id)
        except MemoryNotFoundError:
            return False
        return True

    async def _shown(self, located: Located) -> dict[MemoryId, MemoryRecord]:
        """Read those of some memories, live or hidden, that are seen."""
        found = await self.parts.store.fetch(located, deleted=None)
        return {one: memory for one, memory in found.items() if self._shows(memory)}

    # storing

    async def _remember(self, drafts: Sequence[Draft], *, create_scope: bool) -> list[Kept]:
        for draft in drafts:
            self._check_draft(draft)
        return await super()._remember(drafts, create_scope=create_scope)

    async def remember_each(
        self, drafts: Sequence[Draft], *, create_scope: bool = True
    ) -> list[Kept | InfiniteMemoryError]:
        for draft in drafts:
            self._check_draft(draft)
        return await super().remember_each(drafts, create_scope=create_scope)

    # forgetting

    async def forget(self, target: Target, mode: ForgetMode, *, dry_run: bool = False) -> Forgotten:
        """Forget memories that are seen; a target of a scope alone is all of them in it, the scope itself stays."""
        sidecar = await self.parts.index.sidecar()
        if target.scope is not None:
            self._check_scope(target.scope)
        located: Located = {}
        names = self._scope_names if target.scope is None and target.query is None else (target.scope,)
        for scope in await self._there(names):
            named = dataclasses.replace(target, scope=scope.name if scope is not None else None)
            located = {**located, **await self._located(sidecar, named, scope, mode)}
        if target.memory_id is not None or target.query is not None:  # else found among what is seen
            located = {one: memory.scope_id for one, memory in (await self._shown(located)).items()}
        texts: dict[MemoryId, str] = {}
        if dry_run or target.query is not None:
            texts, located = await self._texts(located)
        if dry_run:
            return Forgotten(tuple(located), texts, None, "nothing was changed (dry_run)")
        gone = await self._forget_memories(located, mode)
        return Forgotten(tuple(gone), texts, None, None if gone else "nothing matches the target; nothing was changed")

    async def forget_one(self, memory_id: MemoryId, scope: str) -> None:
        self._check_scope(scope)
        located = await self.parts.store.locate([memory_id])
        if memory_id not in await self._shown(located):
            raise MemoryNotFoundError(memory_id)
        await super().forget_one(memory_id, scope)

    async def _there(self, names: Collection[str | None]) -> list[Scope | None]:
        """Give those of the scopes that exist; None, for all of them, stays."""
        found = await self.parts.scopes.get_visible([one for one in names if one is not None], lenient=True)
        return [*found, *([None] if None in names else [])]

    # scopes and figures

    async def list_scopes(self) -> list[Scope]:
        seen = set(map(fold, self._scope_names))
        return [one for one in await super().list_scopes() if fold(one.name) in seen]

    async def get_scope(self, name: str) -> Scope:
        self._check_scope(name)
        return await super().get_scope(name)

    async def figures(self) -> Figures:
        """Count what is seen; what is left of the whole memory's figures is about its parts, and the API tells none of it."""
        sidecar = await self.parts.index.sidecar()
        scopes, narrow = await self._resolve(Where(None))
        by_scope = {
            one.name: sidecar.count(dataclasses.replace(narrow, scope_ids=frozenset({one.scope_id}))) for one in scopes
        }
        hidden = await self.parts.store.deleted_ids([one.scope_id for one in scopes], None)
        total = sum(by_scope.values())
        return dataclasses.replace(
            await super().figures(), total=total, by_scope=by_scope, archived={}, conversations=sidecar.count_conversations(narrow),
            soft_deleted=len(await self._own(hidden)), facts=0, pending=0, last_backup=None, size_bytes=0, sidecar_count=total,
        )  # fmt: skip

    async def _refused(self, *_: Any, **__: Any) -> Any:
        """Stand for what no view allows."""
        raise ForbiddenError("a token that is bound to users or scopes may not do this")

    add_agent = tokens = create_scope = restore_scope = upsert = write_together = purge = optimize = reindex = _refused
    assert_fact = facts_of = count_facts = _refused


class UserView(View):
    """The memories of one user of the AgentMem contract; all of them are in one scope and bear the user among their owners.

    With *agent_id* only those of this agent.
    """

    _scope_names = (SCOPE,)

    def __init__(self, engine: Engine, user_id: str, agent_id: str | None = None, *, discreet: bool) -> None:
        super().__init__(engine, discreet=discreet)
        self.user_id, self.agent_id = user_id, agent_id
        self.only_owners = {USER: user_id}

    def _shows(self, memory: MemoryRecord) -> bool:
        is_theirs = self.agent_id is None or memory.owners.get(AGENT) == self.agent_id
        return is_theirs and memory.owners.get(USER) == self.user_id and self._in_scopes(memory)

    async def _own(self, located: Located) -> Located:
        own: dict[MemoryId, ScopeId] = {}
        among = {USER: self.user_id} | ({} if self.agent_id is None else {AGENT: self.agent_id})
        for scope in await self._there(self._scope_names):
            if scope is not None and located:
                theirs = await self.parts.store.owners.ids_of(scope.scope_id, among)
                own |= {one: place for one, place in located.items() if place == scope.scope_id and one in theirs}
        return own

    async def _resolve(self, where: Where) -> tuple[tuple[Scope, ...], Filter]:
        scopes, narrow = await super()._resolve(where)
        if self.agent_id is None:
            return scopes, narrow
        theirs = await ids_of_agent(self._whole, self.user_id, self.agent_id)
        return scopes, dataclasses.replace(
            narrow, memory_ids=theirs if narrow.memory_ids is None else theirs & narrow.memory_ids
        )

    def _narrowed(self, where: Filter) -> Filter:
        mine = source_of(self.user_id)
        if where.source not in (None, mine):
            return dataclasses.replace(where, memory_ids=_NOTHING)
        return dataclasses.replace(where, source=mine)

    def _check_draft(self, draft: Draft) -> None:
        super()._check_draft(draft)
        if draft.owners.get(USER) != self.user_id or draft.source != source_of(self.user_id):
            raise ForbiddenError(f"only memories of the user {self.user_id!r} are stored here")

    async def add_agent(self, agent: Agent) -> bool:
        if agent.user_id != self.user_id:
            raise ForbiddenError(f"only agents of the user {self.user_id!r} are made here")
        return await Engine.add_agent(self, agent)

    async def update(
        self, memory_id: MemoryId, changes: Changes, *, check: Callable[[MemoryRecord], None] | None = None
    ) -> Kept:
        """Change a memory of the user's; what marks it as theirs stays.

        Raises:
            InvalidRequestError: a change would take it away from them, or out of the contract's types.
        """
        if changes.source not in (None, source_of(self.user_id), superseded_source_of(self.user_id)):
            raise InvalidRequestError("metadata.source", "a user's memory has no source of its own")
        if changes.type is not None and changes.type not in {one.value for one in MemoryType}:
            expected = ", ".join(repr(one.value) for one in MemoryType)
            raise InvalidRequestError.wrong("metadata.type", changes.type, f"one of {expected}")
        if changes.owners is not None and changes.owners.get(USER) != self.user_id:
            raise InvalidRequestError("user_id", "a memory stays its user's")
        return await super().update(memory_id, changes, check=check)


class ScopesView(View):
    """The memories of some scopes, whoever stored them there."""

    def __init__(self, engine: Engine, scopes: Sequence[str], *, discreet: bool) -> None:
        super().__init__(engine, discreet=discreet)
        self._scope_names = tuple(scopes)

    def _shows(self, memory: MemoryRecord) -> bool:
        return self._in_scopes(memory)

    async def _own(self, located: Located) -> Located:
        seen = {one.scope_id for one in await self._there(self._scope_names) if one is not None}
        return {one: place for one, place in located.items() if place in seen}


def _first(page: Listing) -> MemoryRecord | None:
    return page.memories[0] if page.memories else None
