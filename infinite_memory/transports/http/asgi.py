"""Plain ASGI helpers for code in front of any framework: read a body within bounds, replay it, answer with JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


BODY_GRACE_S = 10.0
MIN_BYTES_PER_S = 16 * 1024
"""Minimum rate of a body, after a grace period: a client that sends a byte now and then must not hold a connection."""

LARGE_BODY = 256 * 1024
"""A body of more bytes needs a slot before the rest of it is read, so that many at once do not fill the memory."""


PIECE = 256 * 1024
"""Chunk size of a reply's body: a chunk is copied twice more on its way, and stays in memory until the client reads it."""


def get_headers(scope: Scope) -> dict[str, str]:
    """Return a request's headers by lower-case name; of a repeated one the last."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


class ClientGoneError(Exception):
    """The client disconnected before its request was complete: nothing is executed, and no reply is expected."""


class SlowBodyError(Exception):
    """The body arrives too slowly."""


async def read_body(receive: Receive, max_bytes: int, take_place: Callable[[], Awaitable[None]]) -> bytes | None:
    """Read a request's body; None if it is larger than *max_bytes* bytes.

    Args:
        take_place: Waits for a slot; called once, if the body exceeds `LARGE_BODY`; an exception from it stops the reading. The
            wait does not count against the client.

    Raises:
        ClientGoneError: the body is incomplete.
        SlowBodyError: it takes too long.
    """
    body = bytearray()
    has_place = False
    clock = asyncio.get_running_loop().time
    began = clock()
    try:
        async with asyncio.timeout(BODY_GRACE_S) as limit:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise ClientGoneError
                body += message.get("body", b"")
                if len(body) > max_bytes:
                    return None
                if not message.get("more_body", False):
                    return bytes(body)
                if len(body) > LARGE_BODY and not has_place:
                    limit.reschedule(None)
                    asked_at = clock()
                    await take_place()
                    has_place, began = True, began + clock() - asked_at
                limit.reschedule(began + BODY_GRACE_S + len(body) / MIN_BYTES_PER_S)
    except TimeoutError:
        raise SlowBodyError from None


def again(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that replays a body to the next reader."""
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Any:
        return parts.pop() if parts else await receive()

    return give


def in_pieces(send: Send) -> Send:
    """Send a large body in chunks, each when the connection is ready for it."""

    async def send_on(message: Any) -> None:
        body = message.get("body", b"")
        while len(body) > PIECE:
            await send({"type": message["type"], "body": bytes(body[:PIECE]), "more_body": True})
            body = memoryview(body)[PIECE:]
        await send(message | {"body": bytes(body)} if "body" in message else message)

    return send_on


async def answer(send: Send, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
    """Answer with JSON."""
    named = {"content-type": "application/json", **(headers or {})}
    await send({"type": "http.response.start", "status": status,
                "headers": [(name.lower().encode(), value.encode()) for name, value in named.items()]})  # fmt: skip
    await send({"type": "http.response.body", "body": json.dumps(body, ensure_ascii=False).encode()})
