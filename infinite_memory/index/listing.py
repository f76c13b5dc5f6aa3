"""Listings that are read to their end: the ids of all memories that pass a filter, and the batches in which their documents are read.

A listing of an index is a page at a time, and a page that somebody asked for is cut where its texts take too much room
(`engine.memories.Memories.list_page`). Work that needs every memory of a kind, the digests of a conversation say, takes ids alone from
here, and reads documents a batch at a time, so that what it holds does not grow with what is stored.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence

from infinite_memory.index.base import VectorIndex
from infinite_memory.models import Filter, MemoryId, ScopeId

LISTED = 1000
"""Ids of a page."""

LISTED_OF_SCOPE = 10_000
"""Ids of a page of one scope: to list some of a million in order takes 40 ms, however few they are."""


def list_ids(index: VectorIndex, where: Filter) -> list[MemoryId]:
    """Return the ids of all memories that pass a filter, newest first."""
    listed: list[MemoryId] = []
    cursor: str | None = None
    while True:
        page = index.list_page(where, LISTED, cursor, newest_first=True)
        listed += page.memory_ids
        cursor = page.next_cursor
        if cursor is None:
            return listed


def batches(ids: Iterable[MemoryId], size: int) -> Iterator[Sequence[MemoryId]]:
    """Return ids in the order given, *size* at a time."""
    rest = iter(ids)
    while batch := list(itertools.islice(rest, size)):
        yield batch


async def list_scope(sidecar: VectorIndex, scope_id: ScopeId, size: int) -> AsyncIterator[Sequence[MemoryId]]:
    """Yield the memories of a scope in the order in which they happened, *size* at a time."""
    where, cursor = Filter(scope_ids=frozenset({scope_id})), None
    while True:
        page = await asyncio.to_thread(sidecar.list_page, where, LISTED_OF_SCOPE, cursor, False)
        for at in range(0, len(page.memory_ids), size):
            yield page.memory_ids[at : at + size]
        cursor = page.next_cursor
        if cursor is None:
            return
