"""Live updates: a stream of server-sent events that says which memory changed, so that an open view asks for it again.

An event carries an id and no text. Who does not see everything hears only of memories that are live and seen by them.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

from infinite_memory.engine.events import Event
from infinite_memory.errors import StoreUnavailableError
from infinite_memory.transports.http.asgi import Receive, Send
from infinite_memory.transports.http.page.queries import Queries
from infinite_memory.transports.http.page.sessions import Session

if TYPE_CHECKING:
    from infinite_memory.transports.http.page.app import PageApp

CAPACITY = 1000  # changes that wait for a browser; more of them are one "many"
RECHECK_S = 5.0  # how often the session's token is looked at again
PAUSE_S = 0.1  # changes that come so close together are sent together


async def stream_changes(app: PageApp, session: Session, queries: Queries, receive: Receive, send: Send) -> None:
    """Send changes until the browser leaves, the token opens nothing any more, or the daemon goes."""
    waiting: asyncio.Queue[Event] = asyncio.Queue(CAPACITY)

    def take(event: Event) -> None:
        with contextlib.suppress(asyncio.QueueFull):  # the browser asks for all again anyway
            waiting.put_nowait(event)

    unsubscribe = app.services.subscribe(take)
    gone = asyncio.ensure_future(_until_gone(receive))
    stopping = asyncio.ensure_future(app.stopping.wait())
    headers = [
        (b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), (b"x-content-type-options", b"nosniff"),
    ]  # fmt: skip
    try:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await _send(send, b"retry: 1000\nevent: hello\ndata: {}\n\n")
        while not (gone.done() or stopping.done()):
            if (data := await _next(app, queries, waiting, gone, stopping)) is not None:
                await _send(send, b"event: memory\ndata: " + json.dumps(data).encode() + b"\n\n")
            elif not await _is_valid(app, session):
                await _send(send, b"event: ended\ndata: {}\n\n")
                break
            else:
                app.sessions.touch()
                await _send(send, b": alive\n\n")
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        unsubscribe()
        for task in (gone, stopping):
            task.cancel()


async def _next(
    app: PageApp,
    queries: Queries,
    waiting: asyncio.Queue[Event],
    gone: asyncio.Future[Any],
    stopping: asyncio.Future[Any],
) -> dict[str, Any] | None:
    """Return the ids of what changed; None after a while without anything, or where a token changed."""
    first = asyncio.ensure_future(waiting.get())
    news = asyncio.ensure_future(app.owner.news().wait())
    try:
        await asyncio.wait({first, news, gone, stopping}, timeout=RECHECK_S, return_when=asyncio.FIRST_COMPLETED)
        if not first.done():
            return None
        events = [first.result()]
    finally:
        news.cancel()
        if not first.done():
            first.cancel()
    await asyncio.sleep(PAUSE_S)
    while not waiting.empty():
        events.append(waiting.get_nowait())
    ids = dict.fromkeys(event.memory_id for event in events if event.memory_id is not None)
    if queries.is_narrow:
        seen = [memory_id for memory_id in ids if await queries.sees(memory_id)]
        return {"memory_ids": seen, "scopes": False} if seen else None
    return {"memory_ids": list(ids), "scopes": any(event.scopes_changed for event in events)}


async def _is_valid(app: PageApp, session: Session) -> bool:
    try:
        return await app.gate.is_valid(f"Bearer {session.token}")
    except StoreUnavailableError:  # asked again soon
        return True


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, data: bytes) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": True})
