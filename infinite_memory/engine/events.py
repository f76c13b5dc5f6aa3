"""Notifies subscribers of changes to memories or scopes by any client. Fed by the index, which follows the store anyway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from infinite_memory.engine.engine import Engine
from infinite_memory.errors import StoreError
from infinite_memory.models import MemoryId
from infinite_memory.store.base import Change, ChangeKind

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Event:
    """One change: of a memory (with its id and its scope's name, if known), or of the list of scopes."""

    memory_id: MemoryId | None = None
    scope: str | None = None
    scopes_changed: bool = False


class Events:
    """Passes the store's changes to listeners. Use from one event loop only."""

    def __init__(self, engine: Callable[[], Awaitable[Engine]]) -> None:
        self._engine = engine
        self._listeners: dict[object, Callable[[Event], None]] = {}
        self._changes: asyncio.Queue[Change] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call *listener* with every change from now on, and return a function that ends that; calling it twice is safe."""
        key = object()
        self._listeners[key] = listener
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="watch")

        def remove() -> None:
            self._listeners.pop(key, None)

        return remove

    def publish(self, change: Change) -> None:
        """Notify listeners of a change that the index has applied."""
        if self._listeners:
            self._changes.put_nowait(change)

    def close(self) -> None:
        """Remove all listeners."""
        self._listeners.clear()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self) -> None:
        while True:
            change = await self._changes.get()
            try:
                event = await _event(await self._engine(), change)
            except StoreError as exc:
                log.info("a change cannot be published: %s", exc, extra={"event": "change_not_told"})
                continue
            except Exception:
                log.exception("a change cannot be published", extra={"event": "change_not_told"})
                continue
            for listener in list(self._listeners.values()):
                try:
                    listener(event)
                except Exception:  # a failing listener does not affect the others
                    log.exception("a subscriber failed on a change", extra={"event": "change_not_told"})


async def _event(engine: Engine, change: Change) -> Event:
    scope = None
    if change.scope_id is not None:
        if change.kind is ChangeKind.WRITTEN:
            scope = next(iter(await engine.scopes.find_by_ids([change.scope_id])), None)
        else:
            scope = engine.scopes.find_by_id(change.scope_id)
    name = scope.name if scope else None
    is_list = change.kind in (ChangeKind.SCOPES_CHANGED, ChangeKind.SCOPE_REMOVED)
    return Event(change.memory_id, name, is_list)
