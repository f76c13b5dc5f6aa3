"""Limits on the connections of the HTTP port before a token is known: their number, and how long a request may take to arrive.

Any user of this machine can open connections to a loopback port. There are never more than `Connections.capacity`; a newer one replaces
the oldest that has shown no valid token, so that users who open many silent connections lock nobody out. A request's head must be
complete after `HEAD_S`; its body must arrive at a minimum rate (`asgi.read_body`).
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections import Counter
from collections.abc import Collection
from typing import Any

import h11
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from infinite_memory.daemon.ipc import is_peer_own

HEAD_S = 10.0
"""From the connection, or the first byte of a later request, to the end of a request's head."""

HEAD_BYTES = 64 * 1024  # a request line with its headers
MAX_HEADERS = 200
MAX_LINES = 1000
"""In one read (64 KiB) of heads or chunks: each costs far more to parse than to send."""

MAX_UNKNOWN = 16
"""Requests of one connection without a token before it is closed, so that nobody gets thousands answered by pipelining them."""


OWN_SOCKET = "own socket"  # stands for the token of a connection over the Unix socket, which only this user can open
_CONNECTION = "infinite_memory.connection"
_ONCE = (b"host", b"authorization", b"origin", b"content-type", b"content-length", b"transfer-encoding")
"""Headers that must not be repeated: two parsers could choose different ones."""

_HOST = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?", re.IGNORECASE)
_LOOPBACK_ORIGIN = re.compile(r"https?://(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?")


class Connections:
    """The open connections of a server's sockets, oldest first."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._open: dict[GuardedProtocol, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: GuardedProtocol) -> None:
        """Register a connection; above the capacity, abort another one for it, or this one if no other qualifies."""
        self._open[connection] = None
        if len(self._open) > self.capacity:
            victim = self._choose(connection) or connection
            self.remove(victim)
            victim.transport.abort()

    def _choose(self, newcomer: GuardedProtocol) -> GuardedProtocol | None:
        """Return the oldest other connection that has shown no token, else the oldest of a token that holds more than half of all."""
        silent = next(
            (connection for connection in self._open if connection.token_id is None and connection is not newcomer),
            None,
        )
        if silent is not None:
            return silent
        token_id, count = Counter(connection.token_id for connection in self._open).most_common(1)[0]
        if count <= self.capacity // 2:
            return None
        return next(connection for connection in self._open if connection.token_id == token_id)

    def remove(self, connection: GuardedProtocol) -> None:
        """Remove a connection that has ended."""
        self._open.pop(connection, None)


class GuardedProtocol(H11Protocol):
    """One connection. ``token_id`` is the id of the valid token that it has shown, or `OWN_SOCKET`, or None."""

    guarded: Connections  # set by `protocol_class`

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.token_id: str | None = None
        self._head_timer: asyncio.TimerHandle | None = None
        self._unknown = 0  # requests answered before a token was shown
        application: Any = self.app
        self.app = self._bound(application)

    def _bound(self, application: ASGIApp) -> Any:
        async def run(scope: Scope, receive: Receive, send: Send) -> None:
            scope[_CONNECTION] = self

            async def send_on(message: Any) -> None:
                if message["type"] == "http.response.start" and self._is_last():
                    message = message | {"headers": [*message.get("headers", ()), (b"connection", b"close")]}
                await send(message)

            await application(scope, receive, send_on)

        return run

    def _is_last(self) -> bool:
        """Count an answer; return whether the connection closes after it."""
        if self.token_id is not None:
            return False
        self._unknown += 1
        return self._unknown >= MAX_UNKNOWN

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Register the connection, unless another user connects to the Unix socket."""
        super().connection_made(transport)
        link = transport.get_extra_info("socket")
        if link.family != socket.AF_INET:
            if not is_peer_own(link, or_root=True):
                transport.abort()
                return
            self.token_id = OWN_SOCKET
        self._await_head()
        self.guarded.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection."""
        self._have_head()
        self.guarded.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive bytes; the timeout of a head runs whenever no request is being answered."""
        if self._is_costly(data):
            if self.conn.our_state is h11.IDLE:
                self.send_400_response("Too many lines or chunks at once")
            self.transport.close()
            return
        super().data_received(data)
        if self.transport.is_closing() or (self.cycle is not None and not self.cycle.response_complete):
            self._have_head()
        elif self._head_timer is None:
            self._await_head()

    def _is_costly(self, data: bytes) -> bool:
        """True if *data* has more header lines, or more chunks of a body, than any well-behaved client sends."""
        if data.count(b"\r\n") <= MAX_LINES:
            return False
        if self.conn.their_state is h11.SEND_BODY:
            return any(name == b"transfer-encoding" for name, _ in self.headers)
        return data.partition(b"\r\n\r\n")[0].count(b"\r\n") > MAX_LINES or b"chunked" in data.lower()

    def _await_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_S, self._close_late)

    def _have_head(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close_late(self) -> None:
        self._head_timer = None
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()


def protocol_class(connections: Connections) -> type[GuardedProtocol]:
    """Return the protocol class of one server, whose connections are registered in *connections*."""
    return type("ServerProtocol", (GuardedProtocol,), {"guarded": connections})


def mark_admitted(scope: Scope, token_id: str) -> None:
    """Record that the connection of a request has shown a valid token."""
    connection = scope.get(_CONNECTION)
    if connection is not None and connection.token_id != OWN_SOCKET:
        connection.token_id = token_id


def is_own_socket(scope: Scope) -> bool:
    """True if a request arrived over the Unix socket, which only this user and root can open."""
    connection = scope.get(_CONNECTION)
    return connection is not None and connection.token_id == OWN_SOCKET


def find_fault(scope: Scope) -> str | None:
    """Return the fault of a request's head: too large, or ambiguous to parsers; None if it is valid."""
    names = [name for name, _ in scope["headers"]]
    size = sum(len(name) + len(value) for name, value in scope["headers"])
    if len(names) > MAX_HEADERS or size + len(scope["raw_path"]) + len(scope["query_string"]) > HEAD_BYTES:
        return f"the head has more than {MAX_HEADERS} headers or {HEAD_BYTES:,} bytes"
    for name in _ONCE:
        if names.count(name) > 1:
            return f"the header {name.decode()} stands twice"
    if b"content-length" in names and b"transfer-encoding" in names:
        return "Content-Length and Transfer-Encoding exclude each other"
    return None


def judge_host(scope: Scope, origins: Collection[str]) -> int | None:
    """Return the status that rejects a request to another host or from a foreign web page (DNS rebinding); None if it is allowed."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    if _HOST.fullmatch(headers.get(b"host", "")) is None:
        return 421
    origin = headers.get(b"origin")
    if origin is None or origin in origins or _LOOPBACK_ORIGIN.fullmatch(origin):
        return None
    return 403


def silence_server_log() -> None:
    """Silence the server's own warnings, which anybody can cause at will; our own errors are logged by us."""
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    logging.getLogger("mcp.server.transport_security").setLevel(logging.ERROR)
