"""A state that others can wait for: each attempt reaches it or fails, and is then retried."""

from __future__ import annotations

import asyncio

from infinite_memory.errors import InfiniteMemoryError, StoreUnavailableError


class Readiness:
    """Starts closed; once open it stays open. Used from one event loop."""

    def __init__(self) -> None:
        self.is_open = False
        self._waiting: set[asyncio.Future[None]] = set()

    def open(self) -> None:
        """Release all waiters, now and in future."""
        self.is_open = True
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def fail(self, exc: InfiniteMemoryError) -> None:
        """Raise in current waiters why this attempt failed; later ones wait for the next attempt."""
        for future in self._waiting:
            if not future.done():
                future.set_exception(exc)

    async def passed(self, wait_s: float) -> bool:
        """Wait until it is open; False if that takes longer than *wait_s* seconds.

        Raises:
            InfiniteMemoryError: the error passed to `fail` meanwhile.
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


class IndexReadiness:
    """The stages of opening the indexes, for callers that wait for them."""

    def __init__(self, wait_s: float) -> None:
        """Take the maximum time a caller waits."""
        self.wait_s = wait_s
        self.connected = Readiness()  # the store can be written
        self.worded = Readiness()  # words can be searched, and part of the rest
        self.opened = Readiness()

    def fail(self, exc: InfiniteMemoryError) -> None:
        """Raise in all waiters why this attempt failed."""
        for readiness in (self.connected, self.worded, self.opened):
            readiness.fail(exc)

    async def wait_connected(self) -> None:
        """Return once the store can be written; waits at most the configured time. The index may still be loading.

        Raises:
            StoreUnavailableError: MongoDB could not be reached at the last attempt.
        """
        if not await self.connected.passed(self.wait_s):
            raise StoreUnavailableError(f"MongoDB is not ready after {self.wait_s:g} s; try again in a moment")
