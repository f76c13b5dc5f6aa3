"""The stream of a client that follows the memory: a line for every memory stored, changed or forgotten, by any client.

A slow reader blocks nobody: beyond `CAPACITY` waiting changes, the newest are counted and not sent.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from infinite_memory.bootstrap import Application
from infinite_memory.contracts.native.serializers import serialize_memory
from infinite_memory.engine.events import Event
from infinite_memory.errors import MemoryNotFoundError
from infinite_memory.models import MemoryId
from infinite_memory.transports.lines import format_reply, write_unless_stopped

Json = dict[str, Any]

CAPACITY = 10_000  # changes that wait for a client; ids only, a few hundred kilobytes
REMEMBERED = 1000  # revisions that were sent: a memory that gets its vector later is written twice


class Client(Protocol):
    """The source and sink of a connection."""

    async def read(self) -> bytes:
        """Return the next bytes, b"" at the end."""

    async def write(self, data: bytes) -> None:
        """Send *data*."""


class Tail:
    """Follows the changes of one home for one client."""

    def __init__(self, application: Application, client: Client) -> None:
        self._application, self._client = application, client
        self._waiting: asyncio.Queue[Event] = asyncio.Queue(CAPACITY)
        self._missed = 0
        self._sent: dict[MemoryId, tuple[int, str | None]] = {}  # revision (0 once forgotten) and scope

    async def run(self, stop: asyncio.Event) -> None:
        """Welcome the client, then send changes until it disconnects or *stop* is set."""
        unsubscribe = self._application.events.subscribe(self._on_event)
        works = (self._send_all(stop), self._wait_until_gone(), stop.wait())
        tasks: set[asyncio.Future[Any]] = {asyncio.ensure_future(work) for work in works}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            unsubscribe()
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    def _on_event(self, event: Event) -> None:
        if event.memory_id is None:
            return
        try:
            self._waiting.put_nowait(event)
        except asyncio.QueueFull:
            self._missed += 1

    async def _wait_until_gone(self) -> None:
        while await self._client.read():
            pass

    async def _send_all(self, stop: asyncio.Event) -> None:
        await self._send({"ok": True}, stop)
        while True:
            line = await self._describe(await self._waiting.get())
            if line is not None:
                await self._send(line, stop)
            if self._missed and self._waiting.empty():
                missed, self._missed = self._missed, 0
                await self._send({"event": "missed", "count": missed}, stop)

    async def _send(self, line: Json, stop: asyncio.Event) -> None:
        await write_unless_stopped(self._client, await format_reply(line), stop)

    async def _describe(self, event: Event) -> Json | None:
        """Return what happened to a memory; None if that was already sent."""
        assert event.memory_id is not None
        engine = await self._application.engine()
        revision, scope = self._sent.pop(event.memory_id, (None, None))
        scope = event.scope or scope
        try:
            memory = await engine.memories.get(event.memory_id)
        except MemoryNotFoundError:
            self._remember(event.memory_id, 0, scope)
            where = {} if scope is None else {"scope": scope}
            return None if revision == 0 else {"event": "forgotten", "memory_id": event.memory_id} | where
        self._remember(memory.memory_id, memory.revision, scope)
        if revision == memory.revision:
            return None
        name = "restored" if revision == 0 else "stored" if memory.revision == 1 else "changed"
        return {"event": name, "memory": serialize_memory(engine, memory)}

    def _remember(self, memory_id: MemoryId, revision: int, scope: str | None) -> None:
        self._sent[memory_id] = revision, scope
        if len(self._sent) > REMEMBERED:
            self._sent.pop(next(iter(self._sent)))
