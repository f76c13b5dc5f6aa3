"""Work that runs to completion even if its waiter is cancelled: a write whose HTTP request was dropped, say."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Finishing:
    """Tasks that outlive the cancellation of their waiters. `wait` is for a server that shuts down."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def run(self, coro: Coroutine[Any, Any, T]) -> T:
        """Return the result of *coro*, which continues if this call is cancelled."""
        task = asyncio.create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def wait(self, timeout_s: float) -> None:
        """Return when everything has ended, or after *timeout_s*."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=timeout_s)
