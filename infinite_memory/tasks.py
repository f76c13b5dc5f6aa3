"""Reliable cancellation of tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection


async def cancel_and_wait(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait until they end; repeats the request, as Python 3.11 can lose a cancellation inside `wait_for`."""
    while remaining := [task for task in tasks if not task.done()]:
        for task in remaining:
            task.cancel()
        await asyncio.wait(remaining, timeout=1)
