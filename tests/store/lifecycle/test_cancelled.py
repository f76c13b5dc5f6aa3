"""Long work whose client does not want it any more: it stops, leaves nothing half done, and can be done anew."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.backup.restore import finished
from infinite_memory.contracts.native.tools import Told
from infinite_memory.errors import StoreUnavailableError
from tests.store.lifecycle.conftest import Memory, Open

SOME = 600  # memories: more than one batch of each kind of work


async def fill(memory: Memory) -> None:
    memories = [{"content": f"fact {number}", "metadata": {"scope": f"S{number % 3}"}} for number in range(SOME)]
    for at in range(0, SOME, 200):
        await memory.ok("store_memories", memories=memories[at : at + 200])


async def cancelled(memory: Memory, action: str, **fields: Any) -> None:
    """Begin work and cancel it where it first tells how far it is, as the tools do."""
    told = Told(action)
    is_told = False

    def stop(done: int, total: int) -> None:
        nonlocal is_told
        told.take(done, total)
        is_told = True
        told.stop()
        work.cancel()

    work = asyncio.ensure_future(memory.contract.handle({"action": action, **fields}, stop))
    with pytest.raises(asyncio.CancelledError):
        await work
    assert is_told


@pytest.mark.parametrize("action", ["backup_memory", "export_memory"])
async def test_a_file_that_is_not_wanted_any_more_is_not_there(open_memory: Open, action: str) -> None:
    async with open_memory() as memory:
        await fill(memory)
        folder: Path = (await memory.app.administration()).open_backups().folder
        await cancelled(memory, action)
        assert list(folder.iterdir()) == []
        reply = await memory.ok(action)
        assert [file.name for file in folder.iterdir()] == [Path(reply["path"]).name]
        assert reply["counts"]["memories" if action == "backup_memory" else "memory"] == SOME


async def test_an_index_that_is_not_to_be_rebuilt_any_more_stays_in_use(open_memory: Open) -> None:
    async with open_memory() as memory:
        await fill(memory)
        await cancelled(memory, "reindex")
        await memory.store("a fact of afterwards", "S1")
        found = await memory.ok("retrieve_memory", query="a fact of afterwards", filter={"scope": "S1"})
        assert found["results"][0]["text"] == "a fact of afterwards"
        assert (await memory.ok("reindex"))["count"] == SOME + 1


async def test_a_restore_that_is_not_wanted_any_more_is_whole_or_not_at_all(open_memory: Open) -> None:
    async with open_memory() as memory, open_memory("other") as other:
        await fill(memory)
        file = (await memory.ok("backup_memory"))["path"]
        kept = await other.store("a fact of its own")
        await cancelled(other, "restore_backup", file=file, mode="merge")
        await other.ok("get_memory", memory_id=kept)
        total = (await other.ok("get_memory_stats"))["stats"]["total_memories"]
        assert total in (1, SOME + 1)
        await other.ok("restore_backup", file=file, mode="merge")
        assert (await other.ok("get_memory_stats"))["stats"]["total_memories"] == SOME + 1


async def test_tidying_stops_between_two_operations(open_memory: Open) -> None:
    async with open_memory() as memory:
        await fill(memory)
        await cancelled(memory, "optimize_memory")
        assert (await memory.ok("optimize_memory"))["counts"]["check_sidecar"] == 0


async def test_why_a_restore_failed_is_in_the_log_also_when_its_client_left(caplog: pytest.LogCaptureFixture) -> None:
    begun = asyncio.Event()

    async def put() -> None:
        begun.set()
        await asyncio.sleep(0.01)
        raise StoreUnavailableError("the server went away")

    client = asyncio.create_task(finished(asyncio.create_task(put())))
    await begun.wait()
    client.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client
    assert [(record.levelname, bool(record.exc_info)) for record in caplog.records] == [("ERROR", True)]
    assert "the server went away" in caplog.text
