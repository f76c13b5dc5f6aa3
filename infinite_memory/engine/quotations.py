"""Memories that quote others: a digest of a session holds sentences of its turns, and names those turns in its metadata.

What somebody forgets or edits must not be read on in a digest that quotes it, so such digests are removed in the same request, for good and
before the words themselves go. Whoever made them is told, and may make them again of what is left (`hooks.service`). `prune` and the
purge of what was pruned do not come here: a digest is what stays of old turns.

Why a digest is known by its id: type, tag and metadata can be written by any client, and what looks like a digest would be removed
with what it names. The id of a digest is made of its text with the database's secret (`IdKeys`), so nobody makes one of another
memory, and one that was edited is the user's own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial

from infinite_memory.engine.summary_quotes import SUMMARY, SummaryQuotes
from infinite_memory.index.base import VectorIndex, call
from infinite_memory.index.listing import batches, list_ids
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import Filter, MemoryId, MemoryRecord, ScopeId
from infinite_memory.store.base import Located, Store
from infinite_memory.store.id_keys import DIGEST, KEY, SOURCES, IdKeys
from infinite_memory.store.scope_cache import ScopeCache

__all__ = ["DIGEST", "KEY", "Listeners", "Quotations", "get_sources", "to_content"]

BATCH = 100  # documents read at a time: each may be a megabyte
MAX_CONVERSATIONS = 50  # are looked up one by one; of more all digests are looked at

Listeners = list[Callable[[Sequence[MemoryRecord]], None]]
"""Called with the digests that were removed for what they quoted."""


class Quotations:
    """Removes what quotes a memory."""

    def __init__(
        self, *, store: Store, index: IndexSync, scopes: ScopeCache, summaries: SummaryQuotes, listeners: Listeners
    ) -> None:
        self._store, self._index, self._scopes, self._listeners = store, index, scopes, listeners
        self._summaries = summaries

    async def remove(self, located: Located, *, hard: bool) -> list[MemoryRecord]:
        """Remove the digests that quote one of *located*, hidden ones too, and return them; `report` tells whoever made them.

        Summaries are cut; one of which nothing is left is hidden, or with *hard* removed for good.

        Raises:
            StoreError: they could not be read or removed; then nothing else must be either.
        """
        if not located:
            return []
        wanted = frozenset(located)
        hidden = [one async for one in self._hidden() if not wanted.isdisjoint(get_sources(one))]
        await self._summaries.cut(located, [one for one in hidden if one.memory_id not in wanted], hard=hard)
        quoting = {one.memory_id: one for one in await self.keep_digests(hidden)}
        sidecar = await self._index.sidecar()
        is_any_live = await call(sidecar, lambda: sidecar.count(self._digests()))
        for ids in batches(await self._candidates(sidecar, located) if is_any_live else (), BATCH):
            found = await self._store.fetch(await call(sidecar, partial(sidecar.locate, ids)))
            digests = await self.keep_digests(found.values())
            quoting |= {one.memory_id: one for one in digests if not wanted.isdisjoint(get_sources(one))}
        quoting = {one: memory for one, memory in quoting.items() if one not in wanted}
        if not quoting:
            return []
        going = {one: memory.scope_id for one, memory in quoting.items()}
        async with self._index.removing(going):
            await self._store.remove(going)
        self._index.save_soon()
        return list(quoting.values())

    async def remove_of_scope(self, scope_id: ScopeId, *, hard: bool) -> list[MemoryRecord]:
        """Remove what quotes a memory of a scope that goes as a whole, and stands in another one, as `remove` does.

        Raises:
            StoreError: as in `remove`.
        """
        every = frozenset(scope.scope_id for scope in self._scopes.all())
        sidecar = await self._index.sidecar()
        conversations: set[str] = set()
        for kind in (DIGEST, SUMMARY):
            elsewhere = Filter(scope_ids=every - {scope_id}, tag_keys=frozenset({kind}))
            for ids in batches(await call(sidecar, partial(list_ids, sidecar, elsewhere)), BATCH):
                found = await self._store.fetch(await call(sidecar, partial(sidecar.locate, ids)))
                conversations |= {memory.conversation_id for memory in found.values() if memory.conversation_id}
        quoted: dict[MemoryId, ScopeId] = {}
        for conversation in sorted(conversations):
            where = Filter(scope_ids=frozenset({scope_id}), conversation_id=conversation)
            quoted |= dict.fromkeys(await call(sidecar, partial(list_ids, sidecar, where)), scope_id)
            await asyncio.sleep(0)  # each is quick, and there may be very many
        async for memory in self._hidden():
            if memory.scope_id != scope_id:
                places = await self._store.locate(get_sources(memory))
                quoted |= {one: place for one, place in places.items() if place == scope_id}
        return await self.remove(quoted, hard=hard)

    async def keep_digests(self, memories: Iterable[MemoryRecord]) -> list[MemoryRecord]:
        """Return those of *memories* that were stored as digests and not changed since."""
        keys = await self._index.id_keys.get()
        return [one for one in memories if _is_digest(one, keys)]

    def report(self, removed: Sequence[MemoryRecord]) -> None:
        """Tell whoever makes digests which ones were removed; what they quoted is gone by now."""
        if removed:
            for listener in self._listeners:
                listener(removed)

    async def _hidden(self) -> AsyncIterator[MemoryRecord]:
        """Read the softly forgotten memories that quote others."""
        hidden = await self._store.hidden_quoting()
        for ids in batches(hidden, BATCH):
            for memory in (await self._store.fetch({one: hidden[one] for one in ids}, deleted=True)).values():
                yield memory

    def _digests(self, conversation_id: str | None = None) -> Filter:
        every = frozenset(scope.scope_id for scope in self._scopes.all())  # those of archived scopes as well
        return Filter(scope_ids=every, type=DIGEST, tag_keys=frozenset({DIGEST}), conversation_id=conversation_id)

    async def _candidates(self, sidecar: VectorIndex, located: Located) -> list[MemoryId]:
        """List the digests of the conversations that *located* belong to; all of them where those are many."""
        conversations: set[str] = set()
        for ids in batches(located, BATCH):
            found = await self._store.fetch({one: located[one] for one in ids}, deleted=None)
            conversations |= {memory.conversation_id for memory in found.values() if memory.conversation_id}
            if len(conversations) > MAX_CONVERSATIONS:
                return await call(sidecar, lambda: list_ids(sidecar, self._digests()))
        asked = [self._digests(name) for name in sorted(conversations)]
        return await call(sidecar, lambda: [one for where in asked for one in list_ids(sidecar, where)])


def to_content(key: str, text: str) -> str:
    """Return what the ids of a digest are made of, for `IdKeys.ids`."""
    return f"hook-digest/{key}/{text}"


def _is_digest(memory: MemoryRecord, keys: IdKeys) -> bool:
    key = memory.metadata.get(KEY)
    if memory.type != DIGEST or DIGEST not in memory.tag_keys or not isinstance(key, str):
        return False
    *keyed, _ = keys.ids(to_content(key, memory.text))  # the last one is of no secret
    return memory.memory_id in keyed


def get_sources(digest: MemoryRecord) -> tuple[MemoryId, ...]:
    """Return the memories that a digest quotes; none of a memory that names none."""
    named = digest.metadata.get(SOURCES)
    return tuple(MemoryId(one) for one in named if isinstance(one, str)) if isinstance(named, list | tuple) else ()
