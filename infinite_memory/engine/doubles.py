"""Duplicates that were merged into a memory and hidden (`jobs.consolidation`): they are removed with it if it is hard-forgotten.

Hard forgetting is about the text, which a hidden duplicate would keep. Soft forgetting leaves duplicates as they are: hidden.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from infinite_memory.engine.access import Access
from infinite_memory.index.listing import batches
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId
from infinite_memory.store.base import Located, Store
from infinite_memory.text.equivalence import exact_key

_BATCH = 100  # memories read at a time: each may be a megabyte
_APART = ("speaker", "type", "status", "source", "title", "owners", "metadata", "structured")


def belong_together(one: MemoryRecord, other: MemoryRecord) -> bool:
    """True if two memories differ in nothing but text, time, tags and conversation."""
    return all(getattr(one, name) == getattr(other, name) for name in _APART)


async def find_doubles(access: Access, store: Store, located: Located) -> Located:
    """Return the visible hidden memories merged into one of *located*, directly or transitively, except *located*."""
    doubles: dict[MemoryId, ScopeId] = {}
    looked_at = located
    while looked_at:
        hidden = await store.find_hidden_doubles(looked_at)
        candidates = dict(hidden.merged)
        if hidden.alike:
            candidates |= await _same(store, hidden.originals, hidden.alike)
        looked_at = {
            memory_id: scope_id
            for memory_id, scope_id in candidates.items()
            if memory_id not in located and memory_id not in doubles
        }
        doubles |= looked_at
    return await access.keep_allowed(doubles)


async def _same(store: Store, originals: Located, doubles: Located) -> Located:
    """Return those of *doubles* that have the same text, speaker, owners and so on as one of *originals*."""
    texts: dict[str, list[MemoryRecord]] = {}
    async for memory in _read(store, originals, deleted=False):
        texts.setdefault(exact_key(memory.text), []).append(memory)
    return {
        memory.memory_id: memory.scope_id
        async for memory in _read(store, doubles, deleted=True)
        if any(belong_together(memory, original) for original in texts.get(exact_key(memory.text), ()))
    }


async def _read(store: Store, located: Located, *, deleted: bool) -> AsyncIterator[MemoryRecord]:
    for ids in batches(located, _BATCH):
        for memory in (
            await store.fetch({memory_id: located[memory_id] for memory_id in ids}, deleted=deleted)
        ).values():
            yield memory
