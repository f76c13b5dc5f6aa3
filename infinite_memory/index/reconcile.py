"""Compares the sidecar with the store, or two indexes, memory by memory: slow and certain, where the change feed cannot be followed or
trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from infinite_memory.index.base import TextIndex, VectorIndex, call
from infinite_memory.models import MemoryId, ScopeId
from infinite_memory.store.base import UNKNOWN_REVISION, Located, Store

BATCH = 500  # memories fetched at a time: small enough to keep the loop responsive


@dataclass(frozen=True, slots=True)
class Checked:
    """What a comparison of sidecar and store found and mended."""

    missing: int
    stale: int
    surplus: int

    @property
    def faults(self) -> int:
        """How many memories were not as the store has them."""
        return self.missing + self.stale + self.surplus


async def compare(
    store: Store,
    sidecar: VectorIndex,
    take_over: Callable[[Located], Awaitable[None]],
    remove: Callable[[Iterable[MemoryId]], Awaitable[None]],
) -> Checked:
    """Compare every memory's revision with the store, and mend what differs.

    Args:
        take_over: Reads memories from the store into the sidecar.
        remove: Takes memories out of the sidecar.

    Raises:
        StoreError: the store cannot be read.
    """
    known = await asyncio.to_thread(lambda: _merged(sidecar.iter_revisions()))
    missing: dict[MemoryId, ScopeId] = {}
    asked: dict[MemoryId, int] = {}
    stale: dict[MemoryId, ScopeId] = {}
    async for version in store.versions():
        revision = known.pop(version.memory_id, None)
        if revision is None:
            missing[version.memory_id], asked[version.memory_id] = version.scope_id, version.revision
        elif revision is not None and (revision < version.revision or version.revision == UNKNOWN_REVISION):
            stale[version.memory_id] = version.scope_id
    if missing:  # but what was entered since
        revisions = await call(sidecar, lambda: sidecar.get_revisions(missing))
        missing = {
            memory_id: scope
            for memory_id, scope in missing.items()
            if revisions.get(memory_id, 0) < max(asked[memory_id], 1)
        }
    for batch in _batches(missing | stale):
        await take_over(batch)
    if len(store.set_aside):  # what cannot be read is no fault of the sidecar's
        unreadable = {str(document.document_id) for document in store.set_aside.documents()}
        missing = {memory_id: scope for memory_id, scope in missing.items() if memory_id not in unreadable}
        stale = {memory_id: scope for memory_id, scope in stale.items() if memory_id not in unreadable}
    surplus = 0
    for batch in _batches(dict(await call(sidecar, lambda: sidecar.locate(known)))):
        # Unknown to the store when it was read, unless written since.
        gone = batch.keys() - (await store.fetch(batch, latest=True)).keys()
        await remove(gone)
        surplus += len(gone)
    return Checked(len(missing), len(stale), surplus)


def _batches(located: Located) -> Iterable[dict[MemoryId, ScopeId]]:
    listed = list(located.items())
    for at in range(0, len(listed), BATCH):
        yield dict(listed[at : at + BATCH])


def _merged(pages: Iterable[Mapping[MemoryId, int]]) -> dict[MemoryId, int]:
    merged: dict[MemoryId, int] = {}
    for page in pages:
        merged |= page
    return merged


def find_differences(index: TextIndex | VectorIndex, sidecar: VectorIndex) -> tuple[set[MemoryId], list[MemoryId]]:
    """Return what *index* knows and *sidecar* does not, and what it lacks or knows less of, by rising id."""
    entered, known = _each(index.iter_revisions()), _each(sidecar.iter_revisions())
    surplus: set[MemoryId] = set()
    missing: list[MemoryId] = []
    ours = next(entered, None)  # asked for first: what is written meanwhile is missing, which does no harm
    for memory_id, revision in known:
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
