"""ASGI by hand, for what stands before any framework: reading a body within bounds, giving it on, answering with JSON."""

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
"""A body comes within the grace and a second for each of so many bytes: who sends a byte now and then must not hold a connection."""

LARGE_BODY = 256 * 1024
"""A body of more bytes needs a place before the rest of it is read, so that many at once do not fill the memory."""


PIECE = 256 * 1024
"""Of a reply's body: what is handed on at once is copied twice more on its way, and lies there until the client reads."""


def get_headers(scope: Scope) -> dict[str, str]:
    """Return a request's headers, names in small letters; of one that stands twice the last."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


class ClientGoneError(Exception):
    """The client went away before its request was whole: nothing of it may be carried out, and nobody waits for an answer."""


class SlowBodyError(Exception):
    """The body comes too slowly."""


async def read_body(receive: Receive, most: int, take_place: Callable[[], Awaitable[None]]) -> bytes | None:
    """Read a request's body; None when it is larger than *most* bytes.

    Args:
        take_place: Waits for a place, and is asked once, where there is more than `LARGE_BODY`; what it raises ends the reading. The
            wait is not held against the client.

    Raises:
        ClientGoneError: the body does not come to its end.
        SlowBodyError: it takes too long.
    """
    body = bytearray()
    has_place = False
    clock = asyncio.get_running_loop().time
    began = clock()
    try:
        async with asyncio.timeout(BODY_GRACE_S) as limit:
            while True:
                part = await receive()
                if part["type"] != "http.request":
                    raise ClientGoneError
                body += part.get("body", b"")
                if len(body) > most:
                    return None
                if not part.get("more_body", False):
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
    """Return a `receive` that plays a body that was read already to the next reader."""
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Any:
        return parts.pop() if parts else await receive()

    return give


def in_pieces(send: Send) -> Send:
    """Hand a large body on in pieces, each when the connection has room for it."""

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
