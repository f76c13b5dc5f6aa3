"""A state that others wait for: reached, or not this time, and then tried again."""

from __future__ import annotations

import asyncio

from infinite_memory.errors import InfiniteMemoryError, StoreUnavailableError


class Readiness:
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

    def fail(self, exc: InfiniteMemoryError) -> None:
        """Raise in those who wait why it did not open this time; those who come later wait for the next try."""
        for future in self._waiting:
            if not future.done():
                future.set_exception(exc)

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


class IndexReadiness:
    """How far the indexes are opened, for those who wait for it."""

    def __init__(self, wait_s: float) -> None:
        """Take how long a caller waits at most."""
        self.wait_s = wait_s
        self.connected = Readiness()  # the store can be written
        self.worded = Readiness()  # words can be searched, and a part of the rest
        self.opened = Readiness()

    def fail(self, exc: InfiniteMemoryError) -> None:
        """Raise in all who wait why nothing was reached this time."""
        for readiness in (self.connected, self.worded, self.opened):
            readiness.fail(exc)

    async def wait_connected(self) -> None:
        """Return once the store can be written; waits at most the configured time. The index may still be loading.

        Raises:
            StoreUnavailableError: MongoDB could not be reached at the last try.
        """
        if not await self.connected.passed(self.wait_s):
            raise StoreUnavailableError(f"MongoDB is not ready after {self.wait_s:g} s; try again in a moment")
