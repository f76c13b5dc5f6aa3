"""MCP over HTTP: streamable HTTP on loopback, for clients that cannot start a command.

The transports are the official SDK's (`mcp`): event streams, resuming, session ids, and the whole of the era without sessions.
What speaks behind them is the same front and the same contracts as on a pipe, so both answer alike. The SDK takes over a second
to import, which happens in a thread while the port listens already.

Nobody gets in without the token of ``http.token`` (mode 0600); requests that name a foreign host or come from a foreign web page
are refused, token or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory.config import HttpSettings
from infinite_memory.contracts.mcp import INVALID_REQUEST, PARSE_ERROR, Json, RpcError
from infinite_memory.errors import ConfigError, InvalidRequestError
from infinite_memory.protocols.json_text import parse_value
from infinite_memory.protocols.jsonrpc import RpcContract, check_shape, id_of
from infinite_memory.protocols.lines import LARGE_LINE

if TYPE_CHECKING:
    from infinite_memory.protocols.http_sessions import ContractOverHttp

log = logging.getLogger(__name__)

Open = Callable[[], RpcContract]
Message = Mapping[str, Any]
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

HOST = "127.0.0.1"
STOP_S = 2  # how long open streams may take once the daemon goes
LOOPBACK = r"https?://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?"


class HttpServer:
    """The daemon's HTTP side. ``contracts`` names what stands under /mcp/<name>; /mcp alone is the native contract."""

    def __init__(self, settings: HttpSettings, home: Path, contracts: Mapping[str, Open], *, body_bytes: int) -> None:
        assert settings.port is not None
        self._settings, self._contracts, self._body_bytes = settings, contracts, body_bytes
        self._token_file = home / "http.token"
        self._token = read_token(self._token_file)
        self._socket = _listen(settings.port)
        self.port: int = self._socket.getsockname()[1]
        self._routes: dict[str, ContractOverHttp] = {}
        self._task: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] = lambda: None

    def about(self) -> Json:
        """Tell what `daemon status` shows."""
        return {"url": f"http://{HOST}:{self.port}", "token_file": str(self._token_file), "sessions": self.sessions}

    @property
    def sessions(self) -> int:
        """How many clients have a session open."""
        return sum(one.sessions for one in self._routes.values())

    def start(self) -> None:
        """Begin to answer in the background."""
        self._task = asyncio.create_task(self._run(), name="http")

    async def close(self) -> None:
        """Let open requests finish for a moment, then end."""
        self._stop()
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._task, STOP_S + 1)
        self._socket.close()

    async def _run(self) -> None:
        try:
            await self._serve()
        except Exception:
            log.exception("HTTP failed", extra={"event": "http_failed"})

    async def _serve(self) -> None:
        sdk = await asyncio.to_thread(_import_sdk)
        allowed = [one.strip() for one in self._settings.origins.split(",") if one.strip()]
        security = sdk.security_settings(allowed)
        async with contextlib.AsyncExitStack() as stack:
            for name, open_rpc in self._contracts.items():
                route = sdk.ContractOverHttp(open_rpc, security, idle_s=self._settings.session_idle_s)
                self._routes[name] = await stack.enter_async_context(route)
            self._stop, serve = sdk.web_server(self._app, allowed, LOOPBACK, stop_s=STOP_S)
            log.info("HTTP listens", extra={"event": "http_listens"})
            await serve(self._socket)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through to its contract, once token, path and message are in order."""
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if not self._is_known(headers.get("authorization", "")):
            await _answer(send, 401, {"error": "a bearer token is needed"}, ("www-authenticate", "Bearer"))
            return
        name = scope["path"].rstrip("/").removeprefix("/mcp").removeprefix("/") or "native"
        route = self._routes.get(name) if scope["path"].startswith("/mcp") else None
        if route is None:
            await _answer(send, 404, {"error": "MCP is at /mcp and /mcp/<contract>"})
            return
        if refusal := await route.refuse(scope):
            await refusal(scope, receive, send)
            return
        if scope["method"] == "POST":
            body = await _body(receive, self._body_bytes)
            if body is None:
                await _answer(send, 413, _error(None, RpcError(INVALID_REQUEST, "the message is too large")))
                return
            if problem := await _problem(body):
                await _answer(send, 400, problem)
                return
            receive = _again(body, receive)
        await route.handle(scope, receive, send)

    def _is_known(self, header: str) -> bool:
        kind, _, token = header.partition(" ")
        return kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self._token.encode())


def read_token(file: Path) -> str:
    """Read the token that clients must show, made at the first time; nobody but the owner can read the file."""
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as new:
            new.write(secrets.token_urlsafe(32) + "\n")
    if os.name == "posix":
        file.chmod(0o600)
    token = file.read_text("utf-8").strip()
    if not token:
        raise ConfigError(f"{file} is empty; remove it, and a new token is made")
    return token


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    if os.name == "posix":
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen(128)
    except OSError as problem:
        listening.close()
        raise ConfigError(f"http.port = {port}: {problem.strerror or problem}") from problem
    listening.setblocking(False)
    return listening


def _import_sdk() -> Any:
    from infinite_memory.protocols import http_sessions

    return http_sessions


async def _body(receive: Receive, most: int) -> bytes | None:
    """Read a request's body; None when it is larger than *most* bytes."""
    body = bytearray()
    while True:
        part = await receive()
        if part["type"] != "http.request":
            return bytes(body)
        body += part.get("body", b"")
        if len(body) > most:
            return None
        if not part.get("more_body", False):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read already to the next reader."""
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def give() -> Any:
        return parts.pop() if parts else await receive()

    return give


async def _problem(body: bytes) -> Json | None:
    """Tell what is wrong with a message, by the same rules as on a pipe; None when it is in order."""
    try:
        message = await asyncio.to_thread(parse_value, body) if len(body) > LARGE_LINE else parse_value(body)
    except InvalidRequestError as problem:
        return _error(None, RpcError(PARSE_ERROR, str(problem)))
    try:
        check_shape(message)
    except RpcError as problem:
        return _error(id_of(message), problem)
    return None


def _error(request: int | str | None, problem: RpcError) -> Json:
    return {"jsonrpc": "2.0", "id": request, "error": problem.out()}


async def _answer(send: Send, status: int, body: Json, *headers: tuple[str, str]) -> None:
    named = [("content-type", "application/json"), *headers]
    await send({"type": "http.response.start", "status": status,
                "headers": [(name.encode(), value.encode()) for name, value in named]})  # fmt: skip
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
