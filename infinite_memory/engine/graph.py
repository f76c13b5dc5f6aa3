"""The graph: links between memories, and temporal facts about subjects.

Facts belong to a scope as memories do. Asserting another object for the same subject and predicate ends the validity of the current
fact; nothing is ever overwritten, so the graph can be queried as of any instant.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Collection

from infinite_memory.clock import Clock
from infinite_memory.engine.access import Access
from infinite_memory.errors import InvalidRequestError, MemoryNotFoundError, ScopeNotFoundError
from infinite_memory.index.base import call
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import Fact, FactId, Link, MemoryId, MemoryRecord, Scope, ScopeId, floor_to_millisecond
from infinite_memory.store.base import Store
from infinite_memory.store.facts import Asserted
from infinite_memory.store.scope_cache import ScopeCache


class Graph:
    """Links and facts. Facts require an unrestricted caller: they have no owners."""

    def __init__(self, *, access: Access, store: Store, index: IndexSync, scopes: ScopeCache, clock: Clock) -> None:
        self._access, self._store, self._index, self._scopes, self._clock = access, store, index, scopes, clock

    async def link(self, source: MemoryRecord, target: MemoryRecord, relation: str) -> bool:
        """Link two live memories; True if the link is new. Idempotent.

        Raises:
            InvalidRequestError: both are the same memory.
            MemoryNotFoundError: one of them is not visible.
        """
        for end in (source, target):
            self._access.check(end)
        if source.memory_id == target.memory_id:
            raise InvalidRequestError("target_id", "a memory cannot be linked with itself")
        link = Link(source.memory_id, target.memory_id, relation, floor_to_millisecond(self._clock()))
        return await self._store.links.put(link, source.scope_id)

    async def get_links(self, memory_id: MemoryId) -> list[Link]:
        """Return the links from and to a memory whose other end is live, oldest first.

        Raises:
            MemoryNotFoundError: the memory is not visible.
        """
        if not self._access.sees_everything and memory_id not in await self._live([memory_id]):
            raise MemoryNotFoundError(memory_id)
        links = await self._store.links.of([memory_id])
        ends = {end for link in links for end in (link.from_id, link.to_id)} - {memory_id}
        live = await self._live(ends) | {memory_id}
        return [link for link in links if link.from_id in live and link.to_id in live]

    async def _live(self, memory_ids: Collection[MemoryId]) -> set[MemoryId]:
        """Return those of the memories that are live and visible."""
        sidecar = await self._index.sidecar()
        if self._access.sees_everything:
            indexed = set(await call(sidecar, lambda: sidecar.locate(memory_ids)))
            # Another daemon may have stored them just now.
            unknown = await self._store.locate(set(memory_ids) - indexed)
            return indexed | (await self._access.fetch(unknown)).keys()
        located: dict[MemoryId, ScopeId] = {}
        for memory_id in memory_ids:
            located |= await self._access.locate(memory_id)
        return set(await self._access.fetch(located))

    async def assert_fact(
        self, scope: str, subject: str, predicate: str, object_: str,
        *, confidence: float = 1.0, provenance: str | None = None,
    ) -> Asserted:  # fmt: skip
        """Assert a triple from now on; asserting the same object again only updates confidence and, if given, provenance.

        Raises:
            ScopeNotFoundError: the scope does not exist.
            ScopeArchivedError: the scope is archived.
        """
        self._access.visibility.check_everything()
        await self._index.sidecar()
        target = await self._scopes.get_open(scope, create=False)
        now = floor_to_millisecond(self._clock())
        fact = Fact(
            FactId(""), target.scope_id, subject.strip(), predicate.strip(), object_, now, None, confidence, provenance
        )
        try:
            return await self._store.facts.put(fact)
        except ScopeNotFoundError:  # merged or removed just now; another scope may have its name
            await self._scopes.refresh()
            target = await self._scopes.get_open(scope, create=False)
        try:
            return await self._store.facts.put(dataclasses.replace(fact, scope_id=target.scope_id))
        except ScopeNotFoundError:  # the store's error has only the id
            raise ScopeNotFoundError(scope) from None

    async def get_facts(self, scope: str, subject: str, at: dt.datetime | None = None) -> list[Fact]:
        """Return the facts about *subject* that are valid now, or *at* an instant, by predicate.

        Raises:
            ScopeNotFoundError: the scope does not exist or is archived.
        """
        self._access.visibility.check_everything()
        visible_scope = await self._visible(scope)
        return await self._store.facts.of_subject(visible_scope.scope_id, subject, at)

    async def count_facts(self, scope: str | None = None) -> int:
        """Return the number of facts valid now, in one scope or all.

        Raises:
            ScopeNotFoundError: the scope does not exist or is archived.
        """
        self._access.visibility.check_everything()
        scope_ids = None if scope is None else [(await self._visible(scope)).scope_id]
        return await self._store.facts.count(scope_ids)

    async def _visible(self, scope: str) -> Scope:
        await self._index.sidecar()
        [visible_scope] = await self._scopes.get_visible([scope], lenient=False)
        return visible_scope
