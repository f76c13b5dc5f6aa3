"""Compaction on real servers: what deletions left free goes back to the disk, and what cannot be done is said."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pymongo
import pytest

from infinite_memory.models import MemoryId
from infinite_memory.store.mongo.store import MongoStore
from tests.processes import LONG
from tests.store.conftest import Place, make_memory, make_place

TEXT_BYTES, MEMORIES = 8_000, 1_500


@pytest.fixture(params=["pymongo", "motor", "standalone"] if LONG else ["pymongo", "standalone"])
def place(request: pytest.FixtureRequest) -> Place:
    """A fresh database on a replica set and on a server that is none; the second driver sends the same commands."""
    return make_place(request.param)


@pytest.fixture(autouse=True)
def _quick_checkpoints(place: Place) -> Iterator[None]:
    """Have the server write a checkpoint each second instead of each minute: compaction waits for them."""
    with pymongo.MongoClient[dict[str, object]](place.uri) as client:
        client.admin.command("setParameter", 1, syncdelay=1)
        yield
        client.admin.command("setParameter", 1, syncdelay=60)


def make_text() -> str:
    """Return a text that compression does not shrink much."""
    return os.urandom(TEXT_BYTES // 2).hex()


async def fill(store: MongoStore) -> list[MemoryId]:
    """Store some megabytes and return the ids."""
    [scope] = await store.list_scopes()
    memories = [make_memory(scope, make_text(), memory_id=store.new_id()) for _ in range(MEMORIES)]
    for start in range(0, MEMORIES, 250):
        await store.insert(memories[start : start + 250])
    return [memory.memory_id for memory in memories]


async def test_what_large_deletions_left_free_goes_back_to_the_disk(place: Place) -> None:
    async with place.open() as store:
        [scope] = await store.list_scopes()
        memory_ids = await fill(store)
        assert (await store.compact()).freed_bytes == {}  # nothing was deleted
        await store.remove(dict.fromkeys(memory_ids[100:], scope.scope_id))
        done = await store.compact()
        assert done.problem is None
        assert set(done.freed_bytes) == {f"mem_{scope.scope_id}"}
        assert (
            done.total_bytes > TEXT_BYTES * MEMORIES / 3
        )  # a replica set holds back what went in the last five minutes
        assert len(await store.fetch(dict.fromkeys(memory_ids[:100], scope.scope_id))) == 100
        assert (await store.compact(dry_run=True)).total_bytes < done.total_bytes


async def test_others_read_and_write_while_it_compacts(place: Place) -> None:
    async with place.open() as store:
        [scope] = await store.list_scopes()
        memory_ids = await fill(store)
        assert (await store.compact()).freed_bytes == {}  # all is in the files now, and not only in the journal
        await store.remove(dict.fromkeys(memory_ids[100:], scope.scope_id))
        compacting = asyncio.create_task(store.compact())
        stored = []
        while not compacting.done() or not stored:
            memory = make_memory(scope, "written meanwhile", memory_id=store.new_id())
            await store.insert([memory])
            stored.append(memory.memory_id)
            await asyncio.sleep(0)
        assert (await compacting).total_bytes > 0
        assert len(await store.fetch(dict.fromkeys(stored, scope.scope_id))) == len(stored)
