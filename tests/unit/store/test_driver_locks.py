"""The driver's lock while no server answers: who is cancelled takes it back from nobody, and leaves it to others."""

from __future__ import annotations

import asyncio

import pymongo
import pytest
from pymongo.errors import ServerSelectionTimeoutError
from pymongo.lock import _async_cond_wait, _async_create_condition, _async_create_lock

from infinite_memory.store.mongo import drivers

NOBODY = "mongodb://127.0.0.1:1/?directConnection=true"
TURNS = 20  # of the loop, in which a cancelled task would end that need not wait for the lock


async def cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task, and let it go as far as it can."""
    task.cancel()
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def test_who_is_cancelled_after_its_time_waits_for_the_lock_to_release_it() -> None:
    async with asyncio.timeout(20):
        lock = _async_create_lock()
        condition = _async_create_condition(lock)

        async def select() -> None:
            async with lock:
                await _async_cond_wait(condition, 0.01)

        selecting = asyncio.create_task(select())
        await asyncio.sleep(0)
        async with lock:
            await asyncio.sleep(0.1)  # its time is over, and it waits for the lock
            await cancel(selecting)
            assert not selecting.done()
        await asyncio.wait([selecting])
        assert selecting.cancelled()
        assert not lock.locked()


async def test_operations_end_in_their_time_after_one_was_cancelled_while_no_server_answered() -> None:
    async with asyncio.timeout(30):
        client = drivers.make_client("pymongo", NOBODY, {"serverSelectionTimeoutMS": 5000})

        async def ask() -> None:
            await client["memory"].command("ping")

        asking = asyncio.create_task(ask())
        await asyncio.sleep(0.1)
        async with client._topology._lock:
            await asyncio.sleep(0.7)  # the driver looks again every half a second
            await cancel(asking)
        await asyncio.wait([asking])
        for _ in range(3):
            async with asyncio.timeout(10):
                with pymongo.timeout(0.2), pytest.raises(ServerSelectionTimeoutError):
                    await ask()
        await drivers.close_client(client)
