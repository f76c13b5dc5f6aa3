"""Tells whoever asks that memories or scopes changed, whoever changed them; reads the store's change feed only while somebody asks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from infinite_memory.engine import Engine
from infinite_memory.errors import StoreError
from infinite_memory.models import MemoryId
from infinite_memory.store.base import Change, ChangeKind

log = logging.getLogger(__name__)

RETRY_S = 2.0  # pause after the store was unreachable


@dataclass(frozen=True, slots=True)
class Event:
    """One change: a memory's (with its id and its scope's name, where known), or one of the list of scopes."""

    memory_id: MemoryId | None = None
    scope: str | None = None
    scopes_changed: bool = False


class Watch:
    """Passes the store's changes to listeners. Used from one event loop."""

    def __init__(self, engine: Callable[[], Awaitable[Engine]]) -> None:
        self._engine = engine
        self._listeners: dict[object, Callable[[Event], None]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Tell *listener* of every change from now on; gives what ends that, and may be called twice."""
        key = object()
        self._listeners[key] = listener
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="watch")

        def remove() -> None:
            self._listeners.pop(key, None)
            if not self._listeners:
                self.close()

        return remove

    def close(self) -> None:
        """Stop reading changes."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        engine = await self._engine()
        while True:
            try:
                await engine.parts.store.connect()
                token = await engine.parts.store.change_token()
                async for change in engine.parts.store.changes(token):
                    if change is not None:
                        await self._pass_on(engine, change)
            except StoreError as problem:
                log.info("changes cannot be told: %s", problem, extra={"event": "watch_interrupted"})
            await asyncio.sleep(RETRY_S)

    async def _pass_on(self, engine: Engine, change: Change) -> None:
        scopes = engine.parts.scopes
        if change.scope_id is not None and scopes.find_by_id(change.scope_id) is None:
            await scopes.refresh()
        scope = scopes.find_by_id(change.scope_id) if change.scope_id is not None else None
        event = Event(
            change.memory_id,
            scope.name if scope else None,
            change.kind in (ChangeKind.SCOPES_CHANGED, ChangeKind.SCOPE_REMOVED),
        )
        for listener in list(self._listeners.values()):
            listener(event)
