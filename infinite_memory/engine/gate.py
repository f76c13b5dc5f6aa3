"""A state that others wait for: reached, or not this time, and then tried again."""

from __future__ import annotations

import asyncio

from infinite_memory.errors import InfiniteMemoryError


class Gate:
    """Closed at first; once open it stays open. Used from one event loop."""

    def __init__(self) -> None:
        self.is_open = False
        self._waiting: set[asyncio.Future[None]] = set()

    def open(self) -> None:
        """Let everybody pass, from now on."""
        self.is_open = True
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def fail(self, problem: InfiniteMemoryError) -> None:
        """Tell those who wait why it did not open this time; those who come later wait for the next try."""
        for future in self._waiting:
            if not future.done():
                future.set_exception(problem)

    async def passed(self, wait_s: float) -> bool:
        """Wait until it is open; False when *wait_s* seconds were not enough.

        Raises:
            InfiniteMemoryError: what `fail` was told meanwhile.
        """
        if self.is_open:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await asyncio.wait_for(future, wait_s)
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(future)
        return True
