"""Ending tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Collection


async def cancel_and_wait(tasks: Collection[asyncio.Task[None]]) -> None:
    """Cancel tasks and return when they have ended; asked again, for on Python 3.11 a cancellation can be lost inside `wait_for`."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        await asyncio.wait(left, timeout=1)
