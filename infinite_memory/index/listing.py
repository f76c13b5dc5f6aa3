"""Exhaustive listings: the ids of all memories that match a filter, and the batches in which their documents are read.

An index lists a page at a time, and a page requested by a caller is truncated if its texts are too long
(`engine.memories.Memories.list_page`). Work that needs every memory of a kind, such as the digests of a conversation, takes only ids from
here and reads documents in batches, so that its memory use does not grow with the store.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from infinite_memory.index.base import VectorIndex
from infinite_memory.models import Filter, MemoryId, ScopeId

LISTED = 1000
"""Ids per page."""

LISTED_OF_SCOPE = 10_000
"""Ids per page of one scope: listing any number of a million in order takes 40 ms."""


def list_ids(index: VectorIndex, where: Filter) -> list[MemoryId]:
    """Return the ids of all memories that match a filter, newest first."""
    listed: list[MemoryId] = []
    cursor: str | None = None
    while True:
        page = index.list_page(where, LISTED, cursor, newest_first=True)
        listed += page.memory_ids
        cursor = page.next_cursor
        if cursor is None:
            return listed


def batches(ids: Iterable[MemoryId], size: int) -> Iterator[Sequence[MemoryId]]:
    """Yield ids in the given order, *size* at a time."""
    rest = iter(ids)
    while batch := list(itertools.islice(rest, size)):
        yield batch


async def list_scope(sidecar: VectorIndex, scope_id: ScopeId, size: int) -> AsyncIterator[Sequence[MemoryId]]:
    """Yield the memories of a scope by time of occurrence, *size* at a time."""
    where, cursor = Filter(scope_ids=frozenset({scope_id})), None
    while True:
        page = await asyncio.to_thread(sidecar.list_page, where, LISTED_OF_SCOPE, cursor, False)
        for offset in range(0, len(page.memory_ids), size):
            yield page.memory_ids[offset : offset + size]
        cursor = page.next_cursor
        if cursor is None:
            return
