"""Tasks that are cancelled end, also where the first cancellation is lost."""

from __future__ import annotations

import asyncio

from infinite_memory.tasks import cancel_and_wait


async def test_a_task_that_lost_its_cancellation_is_cancelled_again() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(stubborn()), asyncio.create_task(asyncio.sleep(0))]
    await asyncio.sleep(0)
    await cancel_and_wait(tasks)
    assert all(task.done() for task in tasks)
    assert tasks[0].cancelled()
