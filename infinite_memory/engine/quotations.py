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
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

from infinite_memory.engine.summary_quotes import BATCH, SummaryQuotes, get_sources
from infinite_memory.index.listing import batches
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId
from infinite_memory.store.base import Located, Store
from infinite_memory.store.id_keys import DIGEST, KEY, IdKeys

__all__ = ["DIGEST", "KEY", "Forgettings", "Listeners", "Quotations", "get_sources", "to_content"]

NAMED = 1000  # memories whose quotations are asked for at once

Listeners = list[Callable[[Sequence[MemoryRecord]], None]]
"""Called with the digests that were removed for what they quoted."""


class Forgettings:
    """Forgettings and edits under way: each has looked for what quotes its memories, and may not have changed those yet."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Event] = set()

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Count as one inside."""
        ended = asyncio.Event()
        self._under_way.add(ended)
        try:
            yield
        finally:
            self._under_way.discard(ended)
            ended.set()

    async def ended(self) -> None:
        """Return when those have ended that are under way now: later ones see what was stored before this was called."""
        for ended in list(self._under_way):
            await ended.wait()


class Quotations:
    """Removes what quotes a memory."""

    def __init__(
        self, *, store: Store, index: IndexSync, summaries: SummaryQuotes, listeners: Listeners, forgettings: Forgettings
    ) -> None:  # fmt: skip
        self._store, self._index, self._summaries, self._listeners = store, index, summaries, listeners
        self.under_way = forgettings.under_way

    async def remove(self, located: Located, *, hard: bool) -> list[MemoryRecord]:
        """Remove the digests that quote one of *located*, hidden ones too, and return them; `report` tells whoever made them.

        Summaries are cut; one of which nothing is left is hidden, or with *hard* removed for good.

        Raises:
            StoreError: they could not be read or removed; then nothing else must be either.
        """
        if not located:
            return []
        await self._summaries.cut_unnamed(located, hard=hard)
        going: dict[MemoryId, MemoryRecord] = {}
        for named in batches(located, NAMED):
            quoting = await self._store.find_quoting(named)
            async for some in self._read({one: quoting[one] for one in quoting if one not in located}):
                await self._summaries.cut(some, located, hard=hard)
                going |= {digest.memory_id: digest for digest in await self.keep_digests(some)}
        if not going:
            return []
        places = {memory_id: memory.scope_id for memory_id, memory in going.items()}
        async with self._index.removing(places):
            await self._store.remove(places)
        self._index.save_soon()
        return list(going.values())

    async def remove_of_scope(self, scope_id: ScopeId, *, hard: bool) -> list[MemoryRecord]:
        """Remove what quotes a memory of a scope that goes as a whole, and stands in another one, as `remove` does.

        Raises:
            StoreError: as in `remove`.
        """
        quoting = await self._store.find_quoting(None)
        quoted: dict[MemoryId, ScopeId] = {}
        async for some in self._read({memory_id: place for memory_id, place in quoting.items() if place != scope_id}):
            named = {source for memory in some for source in get_sources(memory)}
            quoted |= {
                memory_id: place for memory_id, place in (await self._store.locate(named)).items() if place == scope_id
            }
        return await self.remove(quoted, hard=hard)

    async def keep_digests(self, memories: Iterable[MemoryRecord]) -> list[MemoryRecord]:
        """Return those of *memories* that were stored as digests and not changed since."""
        keys = await self._index.id_keys.get()
        return [memory for memory in memories if _is_digest(memory, keys)]

    def report(self, removed: Sequence[MemoryRecord]) -> None:
        """Notify the listeners, which make digests, of those that were removed; what they quoted is gone by now."""
        if removed:
            for listener in self._listeners:
                listener(removed)

    async def _read(self, located: Located) -> AsyncIterator[list[MemoryRecord]]:
        """Read memories, live or hidden, some at a time."""
        for ids in batches(located, BATCH):
            yield list((await self._store.fetch({one: located[one] for one in ids}, deleted=None)).values())


def to_content(key: str, text: str) -> str:
    """Return what the ids of a digest are made of, for `IdKeys.ids`."""
    return f"hook-digest/{key}/{text}"


def _is_digest(memory: MemoryRecord, keys: IdKeys) -> bool:
    key = memory.metadata.get(KEY)
    if memory.type != DIGEST or DIGEST not in memory.tag_keys or not isinstance(key, str):
        return False
    *keyed, _ = keys.ids(to_content(key, memory.text))  # the last one is of no secret
    return memory.memory_id in keyed
