"""A limit on the concurrent commands of one session; the others wait in the order in which they were read.

Why: MongoDB connections, threads and the event loop are first come, first served. When one client sent 400 requests at once,
everyone's next command waited behind them, until its wait for a connection timed out. Whatever a session sends, at most
`PLACES` of its commands can delay others.

Why a session's writes do not overtake its reads: a client may have sent a read before the write that removes what is read, or
before the one that selects another scope. Each command starts after those before it have started.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from infinite_memory.transports.jsonrpc_messages import Id

PLACES = 16
"""More would not make one client's requests faster; the store's pool keeps a connection for others."""


ANSWER_S = 600.0
"""How long a question to a client waits for its answer; after that the operation is not carried out."""


class Turns:
    """The slots of one session for running commands."""

    def __init__(self, capacity: int = PLACES) -> None:
        self._slots = asyncio.Semaphore(capacity)  # fair: first come, first served
        self._holders: set[Id] = set()

    @contextlib.asynccontextmanager
    async def turn(self, request: Id) -> AsyncIterator[None]:
        """Hold a slot for a request, waiting for one if necessary."""
        await self._take(request)
        try:
            yield
        finally:
            self._give_back(request)

    @contextlib.asynccontextmanager
    async def paused(self, request: Id | None) -> AsyncIterator[None]:
        """Release the slot of a request, if it has one, while it waits for its client, who may be sending more."""
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
        await self._slots.acquire()
        self._holders.add(request)

    def _give_back(self, request: Id) -> None:
        if request in self._holders:
            self._holders.discard(request)
            self._slots.release()
