"""Memories that quote others: a digest of a session contains sentences of its turns, and lists those turns in its metadata.

Forgotten or edited text must not remain in a digest that quotes it, so such digests are permanently removed in the same request, before
the text itself. Their creator is notified, and may remake them from what is left (`hooks.service`). `prune` and purging pruned memories
do not remove digests: they are what remains of old turns.

Why a digest is identified by its id: any client can write type, tag and metadata, and a memory that looks like a digest would be removed
with the memories it lists. A digest's id is derived from its text with the database's secret (`IdKeys`), so no other memory can pose as
one, and an edited digest belongs to the user.
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

NAMED = 1000  # memories whose quotations are queried at once

Listeners = list[Callable[[Sequence[MemoryRecord]], None]]
"""Called with the digests that were removed because of what they quoted."""


class Forgettings:
    """Running forget and edit operations: each has searched for quotations of its memories, but may not have changed those yet."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Event] = set()

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Count as running inside the context."""
        ended = asyncio.Event()
        self._under_way.add(ended)
        try:
            yield
        finally:
            self._under_way.discard(ended)
            ended.set()

    async def ended(self) -> None:
        """Wait for the operations running now: later ones see everything stored before this call."""
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
        """Remove the digests that quote one of *located*, hidden ones too, and return them; `report` notifies their creator.

        Summaries are trimmed; an empty one is hidden, or with *hard* permanently removed.

        Raises:
            StoreError: a quoting memory could not be read or removed; the caller must not remove anything then.
        """
        if not located:
            return []
        await self._summaries.cut_unnamed(located, hard=hard)
        going: dict[MemoryId, MemoryRecord] = {}
        for named in batches(located, NAMED):
            quoting = await self._store.find_quoting(named)
            async for some in self._read(
                {memory_id: quoting[memory_id] for memory_id in quoting if memory_id not in located}
            ):
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
        """Remove quotations in other scopes of the memories of a scope that is forgotten as a whole, as `remove` does.

        Raises:
            StoreError: as in `remove`.
        """
        quoting = await self._store.find_quoting(None)
        quoted: dict[MemoryId, ScopeId] = {}
        async for some in self._read(
            {memory_id: location for memory_id, location in quoting.items() if location != scope_id}
        ):
            named = {source for memory in some for source in get_sources(memory)}
            quoted |= {
                memory_id: location
                for memory_id, location in (await self._store.locate(named)).items()
                if location == scope_id
            }
        return await self.remove(quoted, hard=hard)

    async def keep_digests(self, memories: Iterable[MemoryRecord]) -> list[MemoryRecord]:
        """Return those of *memories* that were stored as digests and not edited since."""
        keys = await self._index.id_keys.get()
        return [memory for memory in memories if _is_digest(memory, keys)]

    def report(self, removed: Sequence[MemoryRecord]) -> None:
        """Notify the listeners, which make digests, of the removed ones; the quoted memories are gone by now."""
        if removed:
            for listener in self._listeners:
                listener(removed)

    async def _read(self, located: Located) -> AsyncIterator[list[MemoryRecord]]:
        """Yield memories, live or soft-forgotten, in batches."""
        for ids in batches(located, BATCH):
            yield list(
                (await self._store.fetch({memory_id: located[memory_id] for memory_id in ids}, deleted=None)).values()
            )


def to_content(key: str, text: str) -> str:
    """Return the content that a digest's ids are derived from, for `IdKeys.ids`."""
    return f"hook-digest/{key}/{text}"


def _is_digest(memory: MemoryRecord, keys: IdKeys) -> bool:
    key = memory.metadata.get(KEY)
    if memory.type != DIGEST or DIGEST not in memory.tag_keys or not isinstance(key, str):
        return False
    *keyed, _ = keys.ids(to_content(key, memory.text))  # the last id is not keyed
    return memory.memory_id in keyed
