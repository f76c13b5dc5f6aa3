"""ASGI by hand, for what stands before any framework: reading a body within bounds, giving it on, answering with JSON."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


def headers_of(scope: Scope) -> dict[str, str]:
    """Give a request's headers, names in small letters; of one that stands twice the last."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


class ClientGoneError(Exception):
    """The client went away before its request was whole: nothing of it may be carried out, and nobody waits for an answer."""


async def read_body(receive: Receive, most: int) -> bytes | None:
    """Read a request's body; None when it is larger than *most* bytes.

    Raises:
        ClientGoneError: the body does not come to its end.
    """
    body = bytearray()
    while True:
        part = await receive()
        if part["type"] != "http.request":
            raise ClientGoneError
        body += part.get("body", b"")
        if len(body) > most:
            return None
        if not part.get("more_body", False):
            return bytes(body)


def again(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read already to the next reader."""
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Any:
        return parts.pop() if parts else await receive()

    return give


async def answer(send: Send, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
    """Answer with JSON."""
    named = {"content-type": "application/json", **(headers or {})}
    await send({"type": "http.response.start", "status": status,
                "headers": [(name.lower().encode(), value.encode()) for name, value in named.items()]})  # fmt: skip
    await send({"type": "http.response.body", "body": json.dumps(body, ensure_ascii=False).encode()})
