"""How many commands of one session run at a time; the others wait in the order in which they were read.

Why: the connections to MongoDB, the threads and the event loop serve first who asks first. One client that sent 400 requests at once had
everybody's next command wait behind all of them, until its wait for a connection ended in an error. Whatever a session sends, only
`PLACES` of its commands are in anybody's way.

Why a session's own writes do not overtake its reads: a client may have sent a read before the write that removes what is read, or
before the one that chooses another scope. Each command begins when those before it have begun.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from infinite_memory.transports.jsonrpc_messages import Id

PLACES = 16
"""More would make one client's requests no faster; the pool of the store keeps a connection for others."""


ANSWER_S = 600.0
"""How long a question to a client waits for its answer: what was asked about is not done then."""


class Turns:
    """The places of one session for commands under way."""

    def __init__(self, places: int = PLACES) -> None:
        self._places = asyncio.Semaphore(places)  # fair: who waits first is first
        self._holders: set[Id] = set()

    @contextlib.asynccontextmanager
    async def turn(self, request: Id) -> AsyncIterator[None]:
        """Hold a place for a request; waits for one."""
        await self._take(request)
        try:
            yield
        finally:
            self._give_back(request)

    @contextlib.asynccontextmanager
    async def paused(self, request: Id | None) -> AsyncIterator[None]:
        """Leave the place of a request, if it has one, to others while it waits for its client, who may be sending more meanwhile."""
        if request is None or request not in self._holders:
            yield
            return
        self._give_back(request)
        try:
            yield
        except asyncio.CancelledError:
            raise
        except Exception:
            await self._take(request)
            raise
        await self._take(request)

    async def _take(self, request: Id) -> None:
        await self._places.acquire()
        self._holders.add(request)

    def _give_back(self, request: Id) -> None:
        if request in self._holders:
            self._holders.discard(request)
            self._places.release()
