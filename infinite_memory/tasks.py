"""Reliable cancellation of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection


async def cancel_and_wait(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they end; repeats the request, as Python 3.11 can lose a cancellation inside `wait_for`."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=1)
