"""kill -9 while memories move between scopes: each is in one of them, whole, with its history; on servers with transactions and without."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infinite_memory.models import MemoryId
from tests.mongo_server import StandaloneMongo, shared_mongo
from tests.processes import ROOT
from tests.store.lifecycle.conftest import Memory, opening
from tests.store.lifecycle.operations import check_soundness

ROUNDS = 20 if os.environ.get("INFINITE_MEMORY_TEST_LONG") else 2
COUNT = 5


def move_until_killed(uri: str, database: str, home: Path, after_s: float) -> None:
    """Let a process move memories, and end it *after_s* after the first of them."""
    command = [sys.executable, "-m", "tests.store.lifecycle.moving", uri, database, str(home)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(after_s)
        process.kill()
        process.wait()


async def check(memory: Memory, ids: list[MemoryId]) -> None:
    """Check that every memory is in one scope, with the versions of all its moves, by the store and by the index."""
    await memory.ok("get_memory_stats")
    await check_soundness(memory)
    store = memory.services.store
    assert sorted([one.memory_id async for one in store.stream()]) == sorted(ids)
    for memory_id in ids:
        now = await memory.engine.memories.get(memory_id)
        assert (now.text, now.embedding is None) == (f"memory {ids.index(memory_id)}", True)
        whole = (await store.fetch({memory_id: now.scope_id}, vectors=True))[memory_id]
        assert whole.embedding is not None
        versions = (await store.get_revisions(memory_id)).revisions
        assert [one.revision for one in versions] == list(range(now.revision - len(versions), now.revision))
        places = [*(one.scope_id for one in versions), now.scope_id]
        assert all(one != other for one, other in itertools.pairwise(places))  # each version ended by a move


@pytest.mark.parametrize("kind", ["replica set", "standalone"])
async def test_a_memory_that_was_moving_when_its_process_was_killed_is_in_one_scope(tmp_path: Path, kind: str) -> None:
    chance = random.Random(kind)
    uri = shared_mongo().uri if kind == "replica set" else shared_mongo(StandaloneMongo).uri
    open_memory = opening(uri, tmp_path)

    async def begin() -> tuple[str, list[MemoryId]]:
        async with open_memory() as memory:
            ids = [MemoryId(await memory.store(f"memory {number}")) for number in range(COUNT)]
            await memory.ok("create_memory_scope", scope_name="Other")
            return memory.app.config.mongodb.database, ids

    async def look(ids: list[MemoryId]) -> None:
        async with open_memory() as memory:
            await check(memory, ids)

    database, ids = await begin()
    for _ in range(ROUNDS):
        move_until_killed(uri, database, tmp_path / "home", chance.uniform(0, 0.5))
        await look(ids)
