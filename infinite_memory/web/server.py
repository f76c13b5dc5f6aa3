"""HTTP on loopback: MCP (streamable HTTP) at /mcp for clients that cannot start a command, and the API of `rest` beside it.

The transports are the official SDK's (`mcp`): event streams, resuming, session ids, and the whole of the era without sessions.
What speaks behind them is the same front and the same contracts as on a pipe, so both answer alike. The SDK takes over a second
to import, which happens in a thread while the port listens already.

Nobody gets in without a token: that of ``http.token`` (mode 0600), or one that `infinite-memory tokens` made. A token that is bound
to users, to scopes or to reading is refused at /mcp: MCP's commands reach everything, and only the API's are narrowed. Requests that
name a foreign host or come from a foreign web page are refused, token or not.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory.config import HttpSettings
from infinite_memory.contracts.mcp import INVALID_REQUEST, PARSE_ERROR, Json, RpcError
from infinite_memory.errors import (
    ConfigError,
    ForbiddenError,
    InfiniteMemoryError,
    InvalidRequestError,
    StoreUnavailableError,
)
from infinite_memory.protocols.asgi import ClientGoneError, Receive, Scope, Send, again, answer, headers_of, read_body
from infinite_memory.protocols.json_text import parse_value
from infinite_memory.protocols.jsonrpc import RpcContract, check_shape, id_of
from infinite_memory.protocols.lines import LARGE_LINE
from infinite_memory.rest.failures import error_form, failure
from infinite_memory.rest.parts import RestParts

if TYPE_CHECKING:
    from infinite_memory.protocols.http_sessions import ContractOverHttp
    from infinite_memory.rest.app import RestApp
    from infinite_memory.rest.gate import Gate

log = logging.getLogger(__name__)

Open = Callable[[], RpcContract]
Message = Mapping[str, Any]

HOST, MCP = "127.0.0.1", "/mcp"
RECHECK_S = 5.0  # how often what is long under way shows its token again, which may have been revoked
STOP_S = 2  # how long open streams may take once the daemon goes
LOOPBACK = r"https?://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?"


class HttpServer:
    """The daemon's HTTP side. ``contracts`` names what stands under /mcp/<name>; /mcp alone is the native contract.

    Without *rest* there is no API beside it, and no token but that of the home's file.

    Raises:
        ConfigError: the port is taken, or half of what the language model needs is missing.
    """

    def __init__(
        self,
        settings: HttpSettings,
        home: Path,
        contracts: Mapping[str, Open],
        *,
        body_bytes: int,
        rest: RestParts | None = None,
    ) -> None:
        assert settings.port is not None
        if rest is not None:
            rest.model()  # what is wrong with the model's settings is said now
        self._settings, self._contracts, self._body_bytes = settings, contracts, body_bytes
        self._token_file = home / "http.token"
        self._token = read_token(self._token_file)
        self._socket = _listen(settings.port)
        self.port: int = self._socket.getsockname()[1]
        self.problem: str | None = None
        """Why there is no HTTP, where it failed after the port was open."""
        self._routes: dict[str, ContractOverHttp] = {}
        self._rest_parts = rest
        self._rest: RestApp | None = None
        self._gate: Gate | None = None
        self._guard: Callable[[Scope], Awaitable[int | None]] | None = None
        self._task: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] = lambda: None

    def about(self) -> Json:
        """Tell what `daemon status` shows."""
        if self.problem is not None:
            return {"error": self.problem}
        return {"url": f"http://{HOST}:{self.port}", "token_file": str(self._token_file), "sessions": self.sessions}

    @property
    def sessions(self) -> int:
        """How many clients have a session open."""
        return sum(one.sessions for one in self._routes.values())

    def start(self) -> None:
        """Begin to answer in the background."""
        self._task = asyncio.create_task(self.run(), name="http")

    async def close(self) -> None:
        """Let open requests finish for a moment, then end."""
        self._stop()
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._task, STOP_S + 1)
        self._socket.close()

    async def run(self) -> None:
        """Answer until closed; what fails is logged, and `problem` tells of it."""
        try:
            await self._serve()
        except Exception as problem:
            log.exception("HTTP failed", extra={"event": "http_failed"})
            self.problem = f"HTTP failed and is off ({type(problem).__name__}); the log has the details"
            self._socket.close()  # who waits for an answer learns that there will be none

    async def _serve(self) -> None:
        sdk, rest = await asyncio.to_thread(_import_heavy)
        allowed = [one.strip() for one in self._settings.origins.split(",") if one.strip()]
        security = sdk.security_settings(allowed)
        self._guard = sdk.guard_of(security)
        self._gate = rest.open_gate(self._token, self._rest_parts, self._settings.rate)
        if self._rest_parts is not None:
            self._rest = rest.open_rest(self._gate, self._rest_parts, body_bytes=self._body_bytes)
        async with contextlib.AsyncExitStack() as stack:
            for name, open_rpc in self._contracts.items():
                route = sdk.ContractOverHttp(open_rpc, security, idle_s=self._settings.session_idle_s)
                self._routes[name] = await stack.enter_async_context(route)
            self._stop, serve = sdk.web_server(self._app, allowed, LOOPBACK, stop_s=STOP_S)
            log.info("HTTP listens", extra={"event": "http_listens"})
            await serve(self._socket)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through to the API or to its contract, once token, path and message are in order."""
        path = scope["path"]
        if path != MCP and not path.startswith(f"{MCP}/"):
            await self._to_rest(scope, receive, send)
            return
        assert self._gate is not None
        token = headers_of(scope).get("authorization", "")
        try:
            grant = await self._gate.admit(token)
            if not grant.is_full:
                raise ForbiddenError(
                    "this token is bound to users, scopes or reading; MCP needs one without bounds, /api/v1 takes it"
                )
        except InfiniteMemoryError as problem:
            status, body, headers = failure(problem)
            await answer(send, status, body, headers)
            return
        route = self._routes.get(path.rstrip("/").removeprefix(MCP).removeprefix("/") or "native")
        if route is None:
            await answer(send, 404, {"error": "MCP is at /mcp and /mcp/<contract>"})
            return
        if refusal := await route.refuse(scope):
            await refusal(scope, receive, send)
            return
        if scope["method"] == "POST":
            try:
                body_sent = await read_body(receive, self._body_bytes)
            except ClientGoneError:
                return
            if body_sent is None:
                await answer(send, 413, _error(None, RpcError(INVALID_REQUEST, "the message is too large")))
                return
            if problem_found := await _problem(body_sent):
                await answer(send, 400, problem_found)
                return
            receive = again(body_sent, receive)
        await self._while_admitted(token, route, scope, receive, send)

    async def _while_admitted(
        self, token: str, route: ContractOverHttp, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Carry a request out, a long stream too, for as long as its token opens."""
        assert self._gate is not None
        is_begun = False

        async def watch(message: Any) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        task = asyncio.create_task(route.handle(scope, receive, watch), name="mcp over http")
        try:
            while not (await asyncio.wait({task}, timeout=RECHECK_S))[0]:
                with contextlib.suppress(StoreUnavailableError):  # asked again soon
                    if not await self._gate.opens(token):
                        break
        finally:
            is_revoked = not task.done()
            task.cancel()
            await asyncio.wait({task})
        if not is_revoked:
            task.result()
        elif is_begun:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _to_rest(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by the API, once host and origin are in order."""
        assert self._guard is not None
        if (status := await self._guard(scope)) is not None:
            code = {403: "FORBIDDEN", 421: "MISDIRECTED"}.get(status, "INVALID_REQUEST")
            said = "requests come from this machine and its pages: Host or Origin names another"
            await answer(send, status, error_form(code, said))
        elif self._rest is None:
            await answer(send, 404, error_form("NOT_FOUND", "MCP is at /mcp and /mcp/<contract>"))
        else:
            await self._rest(scope, receive, send)


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
    # asyncio sends small packets at once (TCP_NODELAY) only on sockets whose protocol is named; else each answer waits 40 ms.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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


def _import_heavy() -> tuple[Any, Any]:
    from infinite_memory.protocols import http_sessions
    from infinite_memory.rest import opening

    return http_sessions, opening


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
