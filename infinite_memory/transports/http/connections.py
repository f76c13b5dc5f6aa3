"""What bounds the connections of the HTTP port before any token is known: how many there are, and how long a request may take to arrive.

Any user of this machine can open connections to a loopback port. There are never more than `Connections.capacity`; a newer one takes the
place of the oldest that has shown no valid token, so that those who open many and say nothing keep nobody out. A request's head must be
whole after `HEAD_S`, its body comes at a least rate (`asgi.read_body`).
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
"""From the connection, or from the first byte of a later request, to the end of a request's head."""

HEAD_BYTES = 64 * 1024  # a request line with its headers
MAX_HEADERS = 200
MAX_LINES = 1000
"""In what is received at once (64 KiB) of heads or chunks: each costs far more to read than to send."""

MAX_UNKNOWN = 16
"""Requests of one connection that has shown no token; then it is closed, so that nobody has thousands answered by sending them ahead."""


OWN_SOCKET = "own socket"  # stands for the token of a connection by the Unix socket, which only this user can open
_CONNECTION = "infinite_memory.connection"
_ONCE = (b"host", b"authorization", b"origin", b"content-type", b"content-length", b"transfer-encoding")
"""Headers whose second one could be read by somebody else than the first."""

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
        """Enter a connection; where there are too many, another is closed for it, or this one where none deserves it more."""
        self._open[connection] = None
        if len(self._open) > self.capacity:
            victim = self._choose(connection) or connection
            self.remove(victim)
            victim.transport.abort()

    def _choose(self, newcomer: GuardedProtocol) -> GuardedProtocol | None:
        """Choose the oldest before *newcomer* that has shown no token, else the oldest of a token that holds more than half of all."""
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
        """Strike a connection that has ended."""
        self._open.pop(connection, None)


class GuardedProtocol(H11Protocol):
    """One connection. ``token_id`` is that of the valid token which it has shown, or `OWN_SOCKET`, or None."""

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
        """Count an answer, and tell whether the connection is to end with it."""
        if self.token_id is not None:
            return False
        self._unknown += 1
        return self._unknown >= MAX_UNKNOWN

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Enter a connection, unless another user comes to the Unix socket."""
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
        """Strike a connection."""
        self._have_head()
        self.guarded.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes; the time for a head runs whenever no request is being answered."""
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
        """True if *data* has more lines of a head, or more chunks of a body, than anybody sends who means well."""
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
    """Make the protocol of one server, whose connections are entered into *connections*."""
    return type("ServerProtocol", (GuardedProtocol,), {"guarded": connections})


def mark_admitted(scope: Scope, token_id: str) -> None:
    """Note that the connection of a request has shown a valid token."""
    connection = scope.get(_CONNECTION)
    if connection is not None and connection.token_id != OWN_SOCKET:
        connection.token_id = token_id


def is_own_socket(scope: Scope) -> bool:
    """True if a request came by the Unix socket, which only this user and root can open."""
    connection = scope.get(_CONNECTION)
    return connection is not None and connection.token_id == OWN_SOCKET


def find_fault(scope: Scope) -> str | None:
    """Name what is wrong with a request's head: too much, or what two readers could understand differently; None when nothing is."""
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
    """Return the status that refuses a request to another host or from a foreign web page (DNS rebinding); None lets it through."""
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    if _HOST.fullmatch(headers.get(b"host", "")) is None:
        return 421
    origin = headers.get(b"origin")
    if origin is None or origin in origins or _LOOPBACK_ORIGIN.fullmatch(origin):
        return None
    return 403


def silence_server_log() -> None:
    """Keep the server's own warnings, which anybody can cause at will, out of the daemon's output; what fails in us is logged by us."""
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    logging.getLogger("mcp.server.transport_security").setLevel(logging.ERROR)
