"""Live updates: a stream of server-sent events that name changed memories, so that an open view reloads them.

An event carries an id and no text. A client with restricted visibility hears only of live memories that it may see, and learns
nothing about others from timing: changes that it may not see affect neither events nor the keep-alive of a quiet stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

from infinite_memory.engine.events import Event
from infinite_memory.errors import InfiniteMemoryError, StoreUnavailableError
from infinite_memory.transports.http.asgi import Receive, Send
from infinite_memory.transports.http.page.queries import Queries
from infinite_memory.transports.http.page.sessions import Session

if TYPE_CHECKING:
    from infinite_memory.transports.http.page.app import PageApp

CAPACITY = 1000  # changes that wait for a browser; beyond that they become one "many"
RECHECK_S = 5.0  # how often the session and its token are checked again, also while changes keep arriving
PAUSE_S = 0.1  # changes within this time are sent together


async def stream_changes(app: PageApp, session: Session, queries: Queries, receive: Receive, send: Send) -> None:
    """Send changes until the browser disconnects, the login ends (also in another tab), its token does, or the daemon stops."""
    waiting: asyncio.Queue[Event] = asyncio.Queue(CAPACITY)

    def take(event: Event) -> None:
        with contextlib.suppress(asyncio.QueueFull):  # the browser reloads everything anyway
            waiting.put_nowait(event)

    unsubscribe = app.services.subscribe(take)
    visible = asyncio.Queue[Event](CAPACITY) if queries.is_narrow else waiting
    filtering = asyncio.ensure_future(_filter(queries, waiting, visible)) if queries.is_narrow else None
    disconnected = asyncio.ensure_future(_until_gone(receive))
    stopping = asyncio.ensure_future(app.stopping.wait())
    headers = [
        (b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"),
    ]  # fmt: skip
    try:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _send(send, b"retry: 1000\nevent: hello\ndata: {}\n\n")
        beat_at = check_at = _soon()
        tokens_changed = app.owner.news()  # kept while something is sent, so that no change is missed
        while not (disconnected.done() or stopping.done()):
            events = await _next(visible, (disconnected, stopping), tokens_changed, min(beat_at, check_at))
            if tokens_changed.is_set() or asyncio.get_running_loop().time() >= check_at:
                tokens_changed, check_at = app.owner.news(), _soon()
                if not await _is_valid(app, session):
                    await _send(send, b"event: ended\ndata: {}\n\n")
                    break
            if events:
                await _send(send, b"event: memory\ndata: " + json.dumps(_to_news(events)).encode() + b"\n\n")
                beat_at = _soon()
            elif asyncio.get_running_loop().time() >= beat_at:
                app.sessions.touch()
                await _send(send, b": alive\n\n")
                beat_at = _soon()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        unsubscribe()
        for task in (disconnected, stopping, filtering):
            if task is not None:
                task.cancel()


def _soon() -> float:
    """Return when the next keep-alive of a quiet stream is due."""
    return asyncio.get_running_loop().time() + RECHECK_S


async def _filter(queries: Queries, waiting: asyncio.Queue[Event], visible: asyncio.Queue[Event]) -> None:
    """Pass on changes of visible memories."""
    while True:
        event = await waiting.get()
        with contextlib.suppress(InfiniteMemoryError, asyncio.QueueFull):
            if event.memory_id is not None and await queries.sees(event.memory_id):
                visible.put_nowait(Event(memory_id=event.memory_id))


async def _next(
    visible: asyncio.Queue[Event], ends: tuple[asyncio.Future[Any], ...], tokens_changed: asyncio.Event, until: float
) -> list[Event]:
    """Return what changed; nothing at the loop time *until*, or if a token changed or the stream ends."""
    first = asyncio.ensure_future(visible.get())
    changing = asyncio.ensure_future(tokens_changed.wait())
    timeout_s = max(0.0, until - asyncio.get_running_loop().time())
    try:
        await asyncio.wait({first, changing, *ends}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not first.done():
            return []
        events = [first.result()]
    finally:
        changing.cancel()
        if not first.done():
            first.cancel()
    await asyncio.sleep(PAUSE_S)
    while not visible.empty():
        events.append(visible.get_nowait())
    return events


def _to_news(events: list[Event]) -> dict[str, Any]:
    ids = dict.fromkeys(event.memory_id for event in events if event.memory_id is not None)
    return {"memory_ids": list(ids), "scopes": any(event.scopes_changed for event in events)}


async def _is_valid(app: PageApp, session: Session) -> bool:
    if not app.sessions.is_open(session):
        return False
    try:
        return await app.gate.is_valid(f"Bearer {session.token}")
    except StoreUnavailableError:  # retried soon
        return True


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
