"""Compares the index with the store, or two indexes, memory by memory: slow but certain, for when the change feed cannot be followed
or trusted."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial

from infinite_memory.index.base import TextIndex, VectorIndex, call
from infinite_memory.models import MemoryId, ScopeId
from infinite_memory.store.base import UNKNOWN_REVISION, Located, Store

SETTLE_S = 2.0  # a batch of vectors takes part of a second from store to index, the change feed some milliseconds
SETTLE_AGAIN_S = 0.1
_NEVER = sys.maxsize  # for a memory whose revision cannot be read: it is reloaded
BATCH = 500  # memories fetched at a time: small enough to keep the loop responsive


@dataclass(frozen=True, slots=True)
class Checked:
    """What a comparison of index and store found and repaired."""

    missing: int
    stale: int
    surplus: int

    @property
    def faults(self) -> int:
        """How many memories differed from the store."""
        return self.missing + self.stale + self.surplus


async def compare(
    store: Store,
    sidecar: VectorIndex,
    take_over: Callable[[Located], Awaitable[None]],
    remove: Callable[[Iterable[MemoryId]], Awaitable[None]],
    settle_s: float = 0.0,
) -> Checked:
    """Compare every memory's revision with the store, and repair differences.

    Args:
        settle_s: How long to wait for differences to resolve by themselves if writes and the change feed continue meanwhile: a memory that
            is being stored, embedded or removed is not a fault.
        take_over: Reloads memories from the store into the index.
        remove: Removes memories from the index.

    Raises:
        StoreError: the store cannot be read.
    """
    indexed = await asyncio.to_thread(lambda: _merged(sidecar.iter_revisions()))
    missing: dict[MemoryId, ScopeId] = {}
    asked: dict[MemoryId, int] = {}
    stale: dict[MemoryId, ScopeId] = {}
    async for version in store.versions():
        revision = indexed.pop(version.memory_id, None)
        required = _NEVER if version.revision == UNKNOWN_REVISION and revision is not None else max(version.revision, 1)
        if required <= asked.get(version.memory_id, 0):
            continue  # a scope is being merged: the memory is in both, and newer in its new scope
        if revision is not None and revision < required:
            stale[version.memory_id], asked[version.memory_id] = version.scope_id, required
        elif revision is None and (memory_id := version.memory_id) in stale:
            stale[memory_id], asked[memory_id] = version.scope_id, required
        elif revision is None:
            missing[version.memory_id], asked[version.memory_id] = version.scope_id, required
    behind = await _settle(sidecar, asked, indexed, settle_s)
    missing = {memory_id: scope for memory_id, scope in missing.items() if memory_id in behind}
    stale = {memory_id: scope for memory_id, scope in stale.items() if memory_id in behind}
    for batch in _batches(missing | stale):
        await take_over(batch)
    if len(store.set_aside):  # unreadable memories are not faults of the index
        unreadable = {str(document.document_id) for document in store.set_aside.documents()}
        missing = {memory_id: scope for memory_id, scope in missing.items() if memory_id not in unreadable}
        stale = {memory_id: scope for memory_id, scope in stale.items() if memory_id not in unreadable}
    surplus = 0
    for batch in _batches(dict(await call(sidecar, lambda: sidecar.locate(indexed)))):
        # Unknown to the store when it was read, unless written since then.
        gone = batch.keys() - (await store.fetch(batch, latest=True)).keys()
        await remove(gone)
        surplus += len(gone)
    return Checked(len(missing), len(stale), surplus)


async def _settle(
    sidecar: VectorIndex, expected: Mapping[MemoryId, int], surplus: Iterable[MemoryId], settle_s: float
) -> set[MemoryId]:
    """Return the memories that *sidecar* still lacks at the required revision after it had time to catch up."""
    behind, surplus, until = set(expected), list(surplus), time.monotonic() + settle_s
    while True:
        if behind:
            revisions = await call(sidecar, partial(sidecar.get_revisions, list(behind)))
            behind = {memory_id for memory_id in behind if revisions.get(memory_id, 0) < expected[memory_id]}
        if surplus and settle_s:
            surplus = list(await call(sidecar, partial(sidecar.locate, surplus)))
        remaining_s = until - time.monotonic()
        if remaining_s <= 0 or not (surplus or any(expected[memory_id] != _NEVER for memory_id in behind)):
            return behind
        await asyncio.sleep(min(SETTLE_AGAIN_S, remaining_s))


def _batches(located: Located) -> Iterable[dict[MemoryId, ScopeId]]:
    listed = list(located.items())
    for offset in range(0, len(listed), BATCH):
        yield dict(listed[offset : offset + BATCH])


def _merged(pages: Iterable[Mapping[MemoryId, int]]) -> dict[MemoryId, int]:
    merged: dict[MemoryId, int] = {}
    for page in pages:
        merged |= page
    return merged


def find_differences(index: TextIndex | VectorIndex, sidecar: VectorIndex) -> tuple[set[MemoryId], list[MemoryId]]:
    """Return the ids that only *index* has, and those that it lacks or has at an older revision than *sidecar*, by ascending id."""
    entered, theirs = _each(index.iter_revisions()), _each(sidecar.iter_revisions())
    surplus: set[MemoryId] = set()
    missing: list[MemoryId] = []
    ours = next(entered, None)  # read first: concurrent writes count as missing, which is harmless
    for memory_id, revision in theirs:
        while ours is not None and ours[0] < memory_id:
            surplus.add(ours[0])
            ours = next(entered, None)
        if ours is None or ours[0] > memory_id or ours[1] < revision:
            missing.append(memory_id)
        if ours is not None and ours[0] == memory_id:
            ours = next(entered, None)
    while ours is not None:
        surplus.add(ours[0])
        ours = next(entered, None)
    return surplus, missing


def _each(pages: Iterable[Mapping[MemoryId, int]]) -> Iterator[tuple[MemoryId, int]]:
    for page in pages:
        yield from page.items()
