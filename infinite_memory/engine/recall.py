"""Finding memories: filter first, rank what passes, read the documents, collapse what says the same.

A hit whose document is gone is dropped, and the room is filled with the next one: the store is the truth.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence

from infinite_memory.engine.confidence import confidence_of
from infinite_memory.engine.parts import Found, Listing, Parts, Where
from infinite_memory.models import Filter, Match, MemoryId, MemoryRecord, Scope, TimeRange, Window
from infinite_memory.sidecar.base import Hit, Sidecar

SLACK = 8  # hits asked for beyond k, so that a few repeated texts need no second search
WIDEN = 4  # factor by which the search grows when collapsing left room


class Recalling:
    """The engine's methods that read memories."""

    parts: Parts

    async def recall(self, query: str, where: Where, k: int, *, min_confidence: float = 0.0) -> Found:
        """Find the memories that are nearest in meaning to *query* among those that pass *where*.

        Texts that are equal after folding case and white space are one match. Fewer than *k* only when fewer pass the filter
        and *min_confidence*.

        Raises:
            EmbeddingError: the model cannot be used.
            ScopeNotFoundError: a scope of *where* does not exist.
        """
        sidecar = await self.parts.index.sidecar()
        scopes, narrow = await self._resolve(where)
        vector = await self.parts.embeddings.embed_query(query)
        wanted = k + SLACK
        while True:
            hits = sidecar.search(vector, wanted, narrow)
            matches = collapse(await self._matches(sidecar, hits))
            if len(matches) >= k or len(hits) < wanted:
                break
            wanted *= WIDEN
        good = tuple(match for match in matches[:k] if match.confidence >= min_confidence)
        return Found(good, scopes)

    async def nearest(self, query: str, where: Where, k: int, *, min_confidence: float) -> list[Match]:
        """Find the *k* nearest memories, each for itself: texts that are equal are not collapsed. Errors as in `recall`."""
        sidecar = await self.parts.index.sidecar()
        _, narrow = await self._resolve(where)
        hits = sidecar.search(await self.parts.embeddings.embed_query(query), k, narrow)
        return [match for match in await self._matches(sidecar, hits) if match.confidence >= min_confidence]

    async def list_memories(
        self, where: Where, limit: int, cursor: str | None = None, *, newest_first: bool = True
    ) -> Listing:
        """List memories that pass *where* by the time they happened.

        Raises:
            ScopeNotFoundError: a scope of *where* does not exist.
            InvalidRequestError: *cursor* is none of ours.
        """
        sidecar = await self.parts.index.sidecar()
        scopes, narrow = await self._resolve(where)
        page = sidecar.list_page(narrow, limit, cursor, newest_first)
        found = await self._read(sidecar, page.memory_ids)
        memories = tuple(found[one] for one in page.memory_ids if one in found)
        return Listing(memories, page.total, page.next_cursor, scopes)

    async def last_conversation_start(self, before: dt.datetime) -> dt.datetime | None:
        """Tell when the newest conversation before *before* began; None when nothing was ever said."""
        sidecar = await self.parts.index.sidecar()
        page = sidecar.list_page(Filter(time=TimeRange(None, before)), 1, None, newest_first=True)
        found = list((await self._read(sidecar, page.memory_ids)).values())
        if not found:
            return None
        newest = found[0]
        if newest.conversation_id is None:
            return newest.occurred_at
        same = Filter(conversation_id=newest.conversation_id, time=TimeRange(None, before))
        first = sidecar.list_page(same, 1, None, newest_first=False)
        opened = await self._read(sidecar, first.memory_ids)
        return next((one.occurred_at for one in opened.values()), newest.occurred_at)

    async def _resolve(self, where: Where) -> tuple[tuple[Scope, ...], Filter]:
        """Turn scope names into ids; archived scopes are hidden."""
        if where.scopes is None:
            return tuple(one for one in self.parts.scopes.all() if one.archived_at is None), where.rest
        scopes = await self.parts.scopes.get_visible(where.scopes, lenient=where.lenient)
        return scopes, dataclasses.replace(where.rest, scope_ids=frozenset(one.scope_id for one in scopes))

    async def _read(self, sidecar: Sidecar, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryRecord]:
        return await self.parts.store.fetch(sidecar.locate(memory_ids))

    async def _matches(self, sidecar: Sidecar, hits: Sequence[Hit]) -> list[Match]:
        found = await self._read(sidecar, [hit.memory_id for hit in hits])
        return [
            Match(memory, confidence_of(hit.score), _window(memory, hit))
            for hit in hits
            if (memory := found.get(hit.memory_id)) is not None
        ]


def collapse(matches: Sequence[Match]) -> list[Match]:
    """Make one match of those whose texts are equal after folding; the best stays and tells the others' times."""
    by_text: dict[str, Match] = {}
    for match in matches:
        key = match.memory.content_hash
        first = by_text.get(key)
        if first is None:
            by_text[key] = match
        else:
            by_text[key] = dataclasses.replace(first, repeated_at=(*first.repeated_at, *match.memory.occurrences))
    return list(by_text.values())


def _window(memory: MemoryRecord, hit: Hit) -> Window | None:
    if memory.embedding is None or len(memory.embedding.windows) < 2:
        return None
    return memory.embedding.windows[hit.window]
