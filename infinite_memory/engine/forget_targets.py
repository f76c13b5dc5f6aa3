"""Finds the targets of a forget request: by id, by scope and tag, or by a query."""

from __future__ import annotations

import asyncio
import dataclasses

from infinite_memory.engine.access import Access
from infinite_memory.engine.recall import Recall
from infinite_memory.engine.types import ForgetMode, ForgetTarget, ScopedFilter
from infinite_memory.errors import truncated_repr
from infinite_memory.index.base import VectorIndex, call
from infinite_memory.index.listing import list_ids
from infinite_memory.models import Filter, Scope, tag_key
from infinite_memory.store.base import Located, Store
from infinite_memory.store.conditions import Condition
from infinite_memory.store.scope_cache import ScopeCache, find_similar_names

MAX_COMPARED_TAGS = 20_000  # tags that an unknown one is compared with


class TargetFinder:
    """Finds the memories of a target that a caller may see. Changes nothing."""

    def __init__(self, *, access: Access, recall: Recall, store: Store, scopes: ScopeCache) -> None:
        self._access, self._recall, self._store, self._scopes = access, recall, store, scopes

    async def find_visible_by_id(self, target: ForgetTarget, mode: ForgetMode) -> Located:
        """Return the memory with the target's id, if it also matches the target's other parts."""
        assert target.memory_id is not None
        located = await self._access.locate(target.memory_id)
        deleted = None if mode is ForgetMode.HARD else False
        memory = (await self._access.fetch(located, deleted=deleted)).get(target.memory_id)
        if memory is None:
            return {}
        if target.scope is not None and memory.scope_id != (await self._scopes.get(target.scope)).scope_id:
            return {}
        return located if target.tag is None or tag_key(target.tag) in memory.tag_keys else {}

    async def find(self, sidecar: VectorIndex, target: ForgetTarget, scope: Scope | None, mode: ForgetMode) -> Located:
        """Return the memories with the id, scope and tag of *target*; for hard forgetting also hidden ones."""
        if target.memory_id is not None:
            return await self._find_by_id(sidecar, target, scope, mode)
        scope_ids = frozenset({scope.scope_id}) if scope else None
        keys = frozenset({tag_key(target.tag)}) if target.tag is not None else frozenset()
        every = frozenset(each.scope_id for each in self._scopes.all()) if mode is ForgetMode.HARD else None
        where = Filter(scope_ids=scope_ids or every, tag_keys=keys)  # hard: including archived scopes
        live = await asyncio.to_thread(lambda: sidecar.locate(list_ids(sidecar, where)))  # possibly a million
        located = await self._access.keep_allowed(live)
        if mode is ForgetMode.HARD:
            hidden = await self._access.keep_allowed(await self._store.deleted_ids(scope_ids, None))
            if keys and hidden:
                memories = await self._store.fetch(hidden, deleted=True)
                hidden = {
                    memory_id: hidden[memory_id] for memory_id, memory in memories.items() if keys <= memory.tag_keys
                }
            located = {**located, **hidden}
        if not located:  # that nothing matches is true of a store that answers
            await self._store.ping()
        return located

    async def describe_missing_tag(self, sidecar: VectorIndex, target: ForgetTarget) -> str | None:
        """Return a note that no memory has the target's tag, with similar tags that some have; None if it names more than a tag.

        Callers with restricted visibility get no similar tags: those may be of others.
        """
        if target.tag is None or target.memory_id is not None or target.query is not None:
            return None
        inside = "" if target.scope is None else f" of {truncated_repr(target.scope)}"
        note = f"no memory{inside} has the tag {truncated_repr(target.tag)}"
        if not self._access.sees_everything:
            return note
        where, _ = await self._access.resolve(
            ScopedFilter(None if target.scope is None else (target.scope,), lenient=True)
        )
        scope_ids, key = frozenset(scope.scope_id for scope in where), tag_key(target.tag)

        def find() -> list[str]:
            near = find_similar_names(key, sidecar.tags(0, MAX_COMPARED_TAGS))
            return [tag for tag in near if sidecar.count(Filter(scope_ids=scope_ids, tag_keys=frozenset({tag})))]

        near = await asyncio.to_thread(find)
        return note + (f" (did you mean {', '.join(truncated_repr(tag) for tag in near)}?)" if near else "")

    async def _find_by_id(
        self, sidecar: VectorIndex, target: ForgetTarget, scope: Scope | None, mode: ForgetMode
    ) -> Located:
        assert target.memory_id is not None
        memory_id = target.memory_id
        located: Located = dict(await call(sidecar, lambda: sidecar.locate([memory_id])))
        memories = await self._store.fetch(located, deleted=None)
        if not memories:  # another daemon may have stored or moved it just now
            located = await self._store.locate([memory_id])
            memories = await self._store.fetch(located, deleted=None)
        if mode is ForgetMode.SOFT and located.get(memory_id) in self._scopes.archived_ids():
            return {}  # hidden already
        if scope is not None and set(located.values()) - {scope.scope_id}:
            return {}
        if target.tag is not None and any(tag_key(target.tag) not in memory.tag_keys for memory in memories.values()):
            return {}
        return located

    async def find_nearest(
        self, sidecar: VectorIndex, target: ForgetTarget, scope: Scope | None
    ) -> tuple[Located, Condition, str | None]:
        """Return the memories that match the target's query, a condition that they must still meet, and a note on what was not compared."""
        assert target.query is not None
        rest = Filter(
            tag_keys=frozenset({tag_key(target.tag)}) if target.tag is not None else frozenset(),
            memory_ids=frozenset({target.memory_id}) if target.memory_id is not None else None,
        )
        where = ScopedFilter((scope.name,) if scope else None, rest)
        near = await self._recall.find_closest(target.query, where, target.limit, min_confidence=target.min_confidence)
        located = await call(sidecar, lambda: sidecar.locate([match.memory.memory_id for match in near.matches]))
        texts = frozenset(match.memory.content_hash for match in near.matches)
        return located, dataclasses.replace(get_condition(target), content_hashes=texts), near.note


def get_condition(target: ForgetTarget) -> Condition:
    """Return the condition for the memories of *target*: that they still have its tag; none if it names an id only."""
    return Condition(tag_key=None if target.tag is None else tag_key(target.tag))
