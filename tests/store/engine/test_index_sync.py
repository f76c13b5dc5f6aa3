"""The index beside others who write: nothing is lost between feed, saves, rebuilds and models."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.engine.types import NewMemory
from infinite_memory.index.base import VectorIndex
from infinite_memory.index.vector.files import FaissIndexFiles
from infinite_memory.models import IndexBatch, MemoryId
from infinite_memory.store.base import Version
from infinite_memory.tasks import cancel_and_wait
from tests.mongo_server import fresh_database
from tests.store.conftest import make_memory
from tests.store.lifecycle.conftest import Memory, Open


@contextlib.asynccontextmanager
async def writing(memory: Memory, pause_s: float) -> AsyncIterator[list[str]]:
    """Write memories one after another, with a pause between them, for as long as the block lasts."""
    written: list[str] = []

    async def write() -> None:
        while True:
            written.append(await memory.store(f"Ship number {len(written)} left the harbour.", "Harbour"))
            await asyncio.sleep(pause_s)

    task = asyncio.create_task(write())
    try:
        yield written
    finally:
        await cancel_and_wait([task])


async def total(memory: Memory) -> int:
    """Count what the index of *memory* knows."""
    return sum((await memory.services.index.sidecar()).count_by_scope().values())


async def until_known(memory: Memory, count: int) -> None:
    """Wait until the index of *memory* knows *count* memories; the test's own time limit ends a wait in vain."""
    while await total(memory) < count:
        await asyncio.sleep(0.02)


async def test_what_another_process_writes_without_pause_is_seen_while_it_writes(open_memory: Open) -> None:
    shared = {"mongodb.database": fresh_database()}
    async with open_memory("one", shared) as one, open_memory("two", shared) as two:
        await total(two)
        async with writing(one, 0.05) as written:
            await until_known(two, 10)
            assert written


async def test_an_index_opens_although_another_process_never_stops_writing(open_memory: Open) -> None:
    shared = {"mongodb.database": fresh_database()}
    async with open_memory("one", shared) as one, writing(one, 0.05) as written, open_memory("two", shared) as two:
        await until_known(two, len(written) + 5)


async def test_what_was_written_while_an_index_went_is_known_when_it_comes_back(open_memory: Open) -> None:
    shared = {"mongodb.database": fresh_database()}
    async with open_memory("one", shared) as one, writing(one, 0.0) as written:
        async with open_memory("two", shared) as two:
            await two.store("The lamp of the lighthouse is new.")
            await until_known(two, 20)
        before = len(written)
        async with open_memory("two", shared) as two:
            await until_known(two, before + 1)
            assert (await two.services.index.check()).surplus == 0


async def test_a_rebuild_beside_writers_loses_nothing(open_memory: Open) -> None:
    async with open_memory() as memory:
        async with writing(memory, 0.0), writing(memory, 0.0), writing(memory, 0.003) as written:
            await until_known(memory, 30)
            for _ in range(5):
                await memory.engine.maintenance.reindex()
            gone = written[:10]
            await asyncio.gather(
                memory.engine.maintenance.reindex(),
                *(memory.ok("delete_memory", target={"memory_id": one}, forget_mode="hard") for one in gone),
            )
        counts = await memory.services.store.count_live()
        await until_known(memory, sum(counts.values()))
        checked = await memory.services.index.check()
        assert checked.faults == 0, checked
        assert memory.services.index.state == "ready"


async def test_what_another_process_brought_back_is_in_a_rebuilt_index(open_memory: Open) -> None:
    async with asyncio.timeout(20):
        shared = {"mongodb.database": fresh_database()}
        async with open_memory("one", shared) as one, open_memory("two", shared) as two:
            kept = await one.store("The tide is low at nine.")
            await one.ok("delete_memory", target={"memory_id": kept})
            await two.ok("restore_memory", memory_id=kept)
            await until_known(one, 1)
            assert await one.engine.maintenance.reindex() == 1
            assert await total(one) == 1


async def test_what_another_process_brought_back_is_known_also_when_something_else_is_removed_while_it_is_read(
    monkeypatch: pytest.MonkeyPatch, open_memory: Open
) -> None:
    async with asyncio.timeout(10):
        shared = {"mongodb.database": fresh_database()}
        async with open_memory("one", shared) as one, open_memory("two", shared) as two:
            kept, other = await one.store("The tide is low at nine."), await one.store("The anchor is heavy.")
            await one.ok("delete_memory", target={"memory_id": kept})
            index, store = one.services.index, one.services.store
            fetch = store.fetch

            async def slow_fetch(*arguments: Any, **options: Any) -> Any:
                found = await fetch(*arguments, **options)
                if kept in found:
                    async with index.removing({MemoryId(other): found[kept].scope_id}):
                        pass
                return found

            monkeypatch.setattr(store, "fetch", slow_fetch)
            await two.ok("restore_memory", memory_id=kept)
            sidecar = await index.sidecar()
            while sidecar.get_revisions([MemoryId(kept)]).get(MemoryId(kept), 0) < 3:
                await asyncio.sleep(0.02)


async def test_what_is_stored_while_it_is_looked_for_stays_known(
    monkeypatch: pytest.MonkeyPatch, open_memory: Open
) -> None:
    """The feed tells of a memory before its own write is acknowledged: an index that read too early does not take it out again."""

    async with open_memory() as memory:
        stored = MemoryId(await memory.store("The tide is low at nine."))
        store, writer, sidecar = (
            memory.services.store,
            memory.services.index._writer,
            await memory.services.index.sidecar(),
        )
        located = dict(sidecar.locate([stored]))
        [record] = (await store.fetch(located, vectors=True)).values()
        await store.remove(located)
        while sidecar.locate([stored]):
            await asyncio.sleep(0.02)
        fetch = store.fetch

        async def early_fetch(*arguments: Any, latest: bool = False, **options: Any) -> Any:
            found = await fetch(*arguments, latest=latest, **options)
            if latest:
                await store.insert([record])
                await writer.on_written([record])
            return found

        monkeypatch.setattr(store, "fetch", early_fetch)
        await writer.reload(sidecar, located)
        assert sidecar.locate([stored]) == located


async def test_rebuilds_side_by_side_wait_for_each_other(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("One.")
        assert await asyncio.gather(*(memory.engine.maintenance.reindex() for _ in range(3))) == [1, 1, 1]


async def test_what_a_restore_brought_is_kept_by_a_rebuild_that_began_before(
    monkeypatch: pytest.MonkeyPatch, open_memory: Open
) -> None:
    async with asyncio.timeout(10):
        async with open_memory() as memory:
            await memory.store("The old map lies in the drawer.")
            index, store = memory.services.index, memory.services.store
            scope = next(one for one in await store.list_scopes() if one.name == "Global")
            rows, versions, has_read, may_end = store.rows, store.versions, asyncio.Event(), asyncio.Event()

            async def slow_rows() -> AsyncIterator[IndexBatch]:
                async with contextlib.aclosing(rows()) as pages:
                    async for page in pages:
                        yield page
                has_read.set()
                await may_end.wait()

            async def late_versions() -> AsyncIterator[Version]:
                await asyncio.wait({rebuilding})
                async for version in versions():
                    yield version

            monkeypatch.setattr(store, "rows", slow_rows)
            monkeypatch.setattr(store, "versions", late_versions)
            rebuilding = asyncio.create_task(index.rebuild())
            await has_read.wait()
            async with index.paused():
                for text in ("The new map hangs on the wall.", "The compass is lost."):  # past the index, as a restore
                    await store.insert([make_memory(scope, text)])
                asyncio.get_running_loop().call_later(0.1, may_end.set)
                await index.reconcile()
            await rebuilding
            await until_known(memory, 3)


async def test_a_save_that_waited_for_another_saves_the_index_in_use(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, open_memory: Open
) -> None:
    saved: list[VectorIndex] = []
    began, may_go_on = threading.Event(), threading.Event()

    class SlowFiles(FaissIndexFiles):
        def save(self, sidecar: VectorIndex, database: str, token: bytes) -> None:
            saved.append(sidecar)
            began.set()
            may_go_on.wait(10)
            super().save(sidecar, database, token)

    async with asyncio.timeout(20):
        async with open_memory() as memory:
            await memory.store("One.")
            index = memory.services.index
            before = await index.sidecar()
            monkeypatch.setattr(index._loader, "files", SlowFiles(tmp_path))
            first = asyncio.create_task(index.save())
            await asyncio.to_thread(began.wait, 10)
            second, rebuilding = asyncio.create_task(index.save()), asyncio.create_task(index.rebuild())
            while (after := await index.sidecar()) is before:
                await asyncio.sleep(0.02)
            may_go_on.set()
            await asyncio.gather(first, second, rebuilding)
            assert [one is after for one in saved] == [False, True, True]


async def test_pending_memories_are_embedded_also_after_a_rebuild(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.engine.maintenance.reindex()
        kept = await memory.engine.memories.store(NewMemory("The spare key hangs in the shed.", "Global"))
        store = memory.services.store
        bare = (await store.fetch({kept.memory.memory_id: kept.memory.scope_id}))[kept.memory.memory_id]
        await store.replace(bare, keep_revision=False)  # without its vectors
        found: dict[str, object] = {}
        while not found.get("results"):
            await asyncio.sleep(0.01)  # a recall that finds nothing waits for nothing
            found = await memory.ok("retrieve_memory", query="where is the key?", mode="semantic")
        assert await memory.services.index.count_pending() == 0


async def test_two_models_over_one_database_do_not_take_each_others_vectors(open_memory: Open) -> None:
    shared = {"mongodb.database": fresh_database()}
    async with open_memory("first", shared) as first:
        await first.store("The ferry leaves at six.")
        async with open_memory("second", shared | {"embedding.model": "no-such-model"}) as second:
            await second.store("The bridge is closed on Sundays.")
        while await first.services.index.count_pending() or await total(first) < 2:
            await asyncio.sleep(0.02)
        await first.services.store.set_meta("embedding", {"space": "another/64/fp32"})
        kept = await first.engine.memories.store(NewMemory("The pier was painted.", "Global"))
        store = first.services.store
        bare = (await store.fetch({kept.memory.memory_id: kept.memory.scope_id}))[kept.memory.memory_id]
        await store.replace(bare, keep_revision=False)
        while first.services.index.pending_problem is None:
            await asyncio.sleep(0.02)
        assert "another/64/fp32" in first.services.index.pending_problem
        after = await store.fetch({kept.memory.memory_id: kept.memory.scope_id}, vectors=True)
        assert after[kept.memory.memory_id].embedding is None
        found = await first.ok("retrieve_memory", query="painted pier", mode="text")
        assert found["results"][0]["text"] == "The pier was painted."


async def test_a_cancellation_that_was_swallowed_is_repeated() -> None:
    async def stubborn() -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        await asyncio.sleep(60)

    task = asyncio.create_task(stubborn())
    await asyncio.sleep(0)
    await cancel_and_wait([task])
    assert task.cancelled()
