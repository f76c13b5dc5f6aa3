"""What a comparison of index and store counts as a fault: what stays different, not what is being written at the moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any, cast

import pytest

from infinite_memory.index.reconcile import Checked, compare
from infinite_memory.index.vector.faiss_index import FaissIndex
from infinite_memory.models import MemoryId
from infinite_memory.store.base import Located, Store, Version
from tests.unit.index.builders import make_row, make_sidecar, memory_id, scope_id


class Versions:
    """What of a store a comparison asks: the revisions of its memories."""

    def __init__(self, revisions: Mapping[int, int], moved: Mapping[int, int] | None = None) -> None:
        self._revisions, self._moved, self.set_aside = revisions, moved or {}, ()

    async def versions(self) -> AsyncIterator[Version]:
        """Yield them."""
        for scope, revisions in ((0, self._revisions), (1, self._moved), (0, self._revisions)):
            for number, revision in revisions.items():
                yield Version(memory_id(number), scope_id(scope), revision)

    async def fetch(self, located: Located, *, latest: bool) -> Mapping[MemoryId, Any]:
        """Give what the store has of some memories."""
        assert latest
        return {one: None for one in located if one in {memory_id(number) for number in self._revisions}}


async def check(sidecar: FaissIndex, revisions: Mapping[int, int], settle_s: float) -> tuple[Checked, set[MemoryId]]:
    """Compare, and return what was found and what was read again."""
    read: set[MemoryId] = set()

    async def take_over(located: Located) -> None:
        read.update(located)

    async def remove(gone: Iterable[MemoryId]) -> None:
        sidecar.remove(list(gone))

    return await compare(cast("Store", Versions(revisions)), sidecar, take_over, remove, settle_s), read


async def test_what_is_being_embedded_stored_or_removed_is_no_fault() -> None:
    sidecar = make_sidecar([make_row(1), make_row(2), make_row(3)])
    checking = asyncio.create_task(check(sidecar, {1: 2, 2: 1, 4: 1}, 5.0))
    await asyncio.sleep(0.05)
    assert not checking.done()
    sidecar.upsert([make_row(1, revision=2), make_row(4)])
    sidecar.remove([memory_id(3)])
    checked, read = await checking
    assert (checked.faults, read) == (0, set())


@pytest.mark.parametrize("settle_s", [0.0, 0.2])
async def test_what_stays_different_is_mended_and_counted(settle_s: float) -> None:
    checked, read = await check(make_sidecar([make_row(1), make_row(2), make_row(3)]), {1: 2, 2: 1, 4: 1}, settle_s)
    assert checked == Checked(missing=1, stale=1, surplus=1)
    assert read == {memory_id(1), memory_id(4)}


@pytest.mark.parametrize("known", [1, 2])
async def test_a_memory_that_stands_in_two_scopes_while_they_are_merged_is_read_from_its_new_one(known: int) -> None:
    read: dict[MemoryId, Any] = {}

    async def work() -> Checked:
        async def take_over(located: Located) -> None:
            read.update(located)

        async def remove(gone: Iterable[MemoryId]) -> None:
            assert not list(gone)

        store = cast("Store", Versions({1: 1}, moved={1: 2}))
        return await compare(store, make_sidecar([make_row(1, revision=known)]), take_over, remove)

    assert (await work()).faults == (known == 1)
    assert read == ({memory_id(1): scope_id(1)} if known == 1 else {})
