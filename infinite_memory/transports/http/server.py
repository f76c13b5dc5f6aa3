"""HTTP on loopback: MCP (streamable HTTP) at /mcp for clients that cannot start a command, and the API.

The transports are the official SDK's (`mcp`): event streams, resuming, session ids, and all of the versions without sessions.
Behind them are the same front and contracts as on a pipe, so both answer alike. Importing the SDK takes over a second,
so it happens in a thread while the port already listens.

Every client needs a token: that of ``http.token`` (mode 0600), or one created by `infinite-memory tokens`. A token that is bound
to users or scopes, or is read-only, is rejected at /mcp: MCP's commands reach everything, and only the API's are restricted. Requests
to a foreign host or from a foreign web page are rejected, token or not, before anything is counted.

Any user of this machine may listen on a port first and impersonate this server. So the same is served over a Unix socket that only this
user can open, which the SDK prefers; and `PROOF` answers a nonce with an HMAC that requires the token, which the SDK checks
before it sends a token to a port.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import urllib.parse
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from infinite_memory import proofs
from infinite_memory.contracts.mcp import INVALID_REQUEST, PARSE_ERROR, Json, RpcError
from infinite_memory.errors import (
    ForbiddenError,
    InfiniteMemoryError,
    InvalidRequestError,
    RateLimitError,
    StoreUnavailableError,
)
from infinite_memory.settings import HttpSettings
from infinite_memory.transports.http.api.errors import SLOW_BODY, error_form, failure, slow_body_form
from infinite_memory.transports.http.api.services import PageServices, RestParts
from infinite_memory.transports.http.api.tokens import OWNER, TokenPermissions
from infinite_memory.transports.http.asgi import (
    ClientGoneError,
    Receive,
    Scope,
    Send,
    SlowBodyError,
    again,
    answer,
    get_headers,
    read_body,
)
from infinite_memory.transports.http.listeners import (
    HOST,
    listen_at_port,
    listen_at_socket,
    max_connections,
    remove_socket,
)
from infinite_memory.transports.http.owner_token import OwnerToken
from infinite_memory.transports.http.page.sessions import PageSessions
from infinite_memory.transports.jsonrpc import RpcContract
from infinite_memory.transports.jsonrpc_messages import check_shape, get_id
from infinite_memory.transports.lines import read_line
from infinite_memory.transports.strict_json import parse_value

if TYPE_CHECKING:
    from infinite_memory.transports.http.api.app import RestApp
    from infinite_memory.transports.http.api.auth import Authenticator
    from infinite_memory.transports.http.mcp import Asking, ContractOverHttp
    from infinite_memory.transports.http.page.app import PageApp

log = logging.getLogger(__name__)

Open = Callable[[], RpcContract]
Message = Mapping[str, Any]

MCP, PROOF = "/mcp", "/api/v1/proof"
CODE_FORM = "/page/login/code"
LISTEN = b'"subscriptions/listen"'  # a request that stays open until its client, or the daemon, ends it
CLOSE = {"connection": "close"}
REFUSED = {
    403: ("FORBIDDEN", "the web page that asks is of another origin; http.origins names those that may"),
    421: ("MISDIRECTED", "the Host that is asked for is none of this machine; a proxy asks for 127.0.0.1"),
}
RECHECK_S = 5.0  # how often long requests check their token again, which may have been revoked
STOP_S = 20  # how long running requests may take once the daemon stops; open streams are ended at once
CLOSE_S = 60.0  # and the writes among them, which are not cancelled
LOOPBACK = r"https?://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?"


class HttpServer:
    """The daemon's HTTP server. ``contracts`` are served under /mcp/<name>; /mcp alone is the native contract.

    Without *rest* there is no API, and no token but that of the home's file.

    Raises:
        ConfigError: the port is in use, or the language model is only half configured.
    """

    def __init__(
        self,
        settings: HttpSettings,
        home: Path,
        contracts: Mapping[str, Open],
        *,
        body_bytes: int,
        rest: RestParts | None = None,
        owner: OwnerToken | None = None,
        page: PageServices | None = None,
    ) -> None:
        assert settings.port is not None
        if rest is not None:
            rest.model()  # fail early on wrong settings of the model
        self._settings, self._contracts, self._body_bytes = settings, contracts, body_bytes
        self.owner = owner or OwnerToken(home / "http.token")
        self.owner.read()
        listening = listen_at_port(settings.port)
        self.port: int = listening.getsockname()[1]
        local, self._socket_file = listen_at_socket(home, self.port)
        self._sockets = [listening, *([local] if local is not None else [])]
        self.problem: str | None = None
        """Why there is no HTTP, where it failed after the port was open."""
        self._routes: dict[str, ContractOverHttp] = {}
        self._rest_parts = rest
        self._rest: RestApp | None = None
        self._page_services = page
        self._page: PageApp | None = None
        self.page_sessions = PageSessions()
        self._gate: Authenticator | None = None
        self._requests: ModuleType | None = None
        self._origins = settings.named_origins
        self._task: asyncio.Task[None] | None = None
        self._stop: Callable[[], None] = lambda: None
        self._stopping = asyncio.Event()

    def about(self) -> Json:
        """Return the HTTP part of `daemon status`."""
        if self.problem is not None:
            return {"error": self.problem}
        status = {"url": f"http://{HOST}:{self.port}", "token_file": str(self.owner.file), "sessions": self.sessions}
        return status if self._socket_file is None else status | {"socket": str(self._socket_file)}

    def tokens_changed(self) -> None:
        """Make all running requests check their tokens again."""
        if self._gate is not None:
            self._gate.forget()
        self.owner.announce()

    def make_login_code(self) -> str:
        """Return a one-time code that logs the owner's browser in and expires soon."""
        return self.page_sessions.make_code(self.owner.read())

    @property
    def sessions(self) -> int:
        """The number of clients with an open session."""
        return sum(route.sessions for route in self._routes.values())

    def start(self) -> None:
        """Start serving in the background."""
        self._task = asyncio.create_task(self.run(), name="http")

    async def close(self) -> None:
        """Let open requests finish, then stop."""
        self._stopping.set()
        self._stop()
        if self._task is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._task, CLOSE_S)
        self._close_sockets()

    def _close_sockets(self) -> None:
        for listening in self._sockets:
            listening.close()
        remove_socket(self._socket_file)

    async def run(self) -> None:
        """Serve until closed; a failure is logged and stored in `problem`."""
        try:
            await self._serve()
        except Exception as exc:
            log.exception("HTTP server failed", extra={"event": "http_failed"})
            self.problem = f"HTTP failed and is off ({type(exc).__name__}); the log has the details"
            self._close_sockets()  # waiting clients learn that there will be no answer

    async def _serve(self) -> None:
        sdk, rest, self._requests = await asyncio.to_thread(_import_heavy)
        security = sdk.security_settings(self._origins)
        settings = self._settings
        self._gate = rest.open_gate(self.owner.read, self._rest_parts, settings.rate, settings.concurrent)
        if self._rest_parts is not None:
            self._rest = rest.open_rest(self._gate, self._rest_parts, body_bytes=self._body_bytes)
        async with contextlib.AsyncExitStack() as stack:
            for name, open_rpc in self._contracts.items():
                route = sdk.ContractOverHttp(open_rpc, security, idle_s=settings.session_idle_s)
                self._routes[name] = await stack.enter_async_context(route)
            capacity = max_connections(settings.connections)
            self._stop, serve = sdk.web_server(self._app, self._origins, LOOPBACK, capacity=capacity, stop_s=STOP_S)
            log.info("HTTP server listens", extra={"event": "http_listens"})
            if not self._stopping.is_set():  # the daemon was asked to stop during the set-up
                await serve(self._sockets)
            for part in (self._rest, self._page):
                if part is not None:
                    await part.finishing.wait(STOP_S)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to the API or its contract, once its form, host and origin are valid."""
        assert self._requests is not None
        if (fault := self._requests.find_fault(scope)) is not None:
            await answer(send, 400, error_form("INVALID_REQUEST", fault), CLOSE)
            return
        if (status := self._requests.judge_host(scope, self._origins)) is not None and not _is_code_form(scope, status):
            await answer(send, status, error_form(*REFUSED[status]), CLOSE)
            return
        path = scope["path"]
        try:
            if path == PROOF:
                await self._prove(scope, send)
            elif path == MCP or path.startswith(f"{MCP}/"):
                await self._to_mcp(path, scope, receive, send)
            elif self._page_services is not None and (path == "/" or path.startswith("/page/")):
                await self._to_page(scope, receive, send)
            elif self._rest is None:
                await answer(send, 404, error_form("NOT_FOUND", "MCP is at /mcp and /mcp/<contract>"))
            else:
                await self._rest(scope, receive, send)
        except SlowBodyError:
            await answer(send, SLOW_BODY, slow_body_form(), CLOSE)

    async def _to_page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer with the page, importing it on first use."""
        if self._page is None:
            page_app = await asyncio.to_thread(_import_page)
            assert self._gate is not None
            assert self._rest_parts is not None
            assert self._page_services is not None
            if self._page is None:
                self._page = page_app.open_page(
                    self._gate, self._rest_parts, self._page_services, self.page_sessions, self.owner, self.tokens_changed,
                    self._stopping, port=self.port, body_bytes=self._body_bytes,
                )  # fmt: skip
        await self._page(scope, receive, send)

    async def _prove(self, scope: Scope, send: Send) -> None:
        """Answer a nonce with a proof that requires the token; reveals to nobody whether such a token exists."""
        assert self._gate is not None
        fields: dict[str, str] = {}
        with contextlib.suppress(ValueError):  # too many fields
            fields = dict(urllib.parse.parse_qsl(scope["query_string"].decode("latin-1"), max_num_fields=8))
        token_id, nonce = fields.get("token_id", OWNER), fields.get("nonce")
        if scope["method"] != "GET" or not isinstance(nonce, str) or not proofs.is_nonce(nonce):
            message = "GET with token_id and a nonce of 64 hexadecimal digits was expected"
            await answer(send, 400, error_form("INVALID_REQUEST", message, "nonce"), CLOSE)
            return
        address = proofs.format_address(HOST, self.port)
        try:
            proof = await self._gate.prove(token_id, nonce, address)
        except InfiniteMemoryError as exc:
            status, body, headers = failure(exc)
            await answer(send, status, body, headers)
            return
        await answer(send, 200, {"proof": proof, "address": address})

    async def _to_mcp(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer by a contract, once token, path and message are valid."""
        assert self._gate is not None
        assert self._requests is not None
        token = get_headers(scope).get("authorization", "")
        try:
            grant = await self._gate.authenticate(token)
            self._requests.mark_admitted(scope, grant.token_id)
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
            await answer(send, 404, error_form("NOT_FOUND", "MCP is at /mcp and /mcp/<contract>"))
            return
        if refusal := await route.refuse(scope):
            await refusal(scope, receive, send)
            return
        try:
            async with self._gate.room(grant) as take_place:
                await self._to_route(route, grant, scope, receive, send, take_place)
        except RateLimitError as exc:
            status, body, headers = failure(exc)
            await answer(send, status, body, headers)

    async def _to_route(
        self,
        route: ContractOverHttp,
        grant: TokenPermissions,
        scope: Scope,
        receive: Receive,
        send: Send,
        take_place: Callable[[], Awaitable[None]],
    ) -> None:
        """Have a contract answer, once its message is complete and valid."""
        assert self._gate is not None
        token = get_headers(scope).get("authorization", "")
        request, stays_open = None, scope["method"] == "GET"
        if scope["method"] == "POST":
            try:
                body_sent = await read_body(receive, self._body_bytes, take_place)
            except ClientGoneError:
                return
            if body_sent is None:
                await answer(send, 413, _error(None, RpcError(INVALID_REQUEST, "the message is too large")), CLOSE)
                return
            request, problem_found = await _check(body_sent)
            if problem_found:
                await answer(send, 400, problem_found)
                return
            receive = again(body_sent, receive)
            stays_open = LISTEN in body_sent
        # Streams and answers to the server's own questions take no slot: what waits for them holds one.
        async with contextlib.AsyncExitStack() as stack:
            if request is not None and not stays_open:
                await stack.enter_async_context(self._gate.turn(grant))
            asking = None if request is None else (request, stack.aclose)
            await self._while_admitted(token, grant, route, scope, receive, send, asking, stays_open=stays_open)

    async def _while_admitted(
        self, token: str, grant: TokenPermissions, route: ContractOverHttp, scope: Scope, receive: Receive, send: Send,
        asking: Asking | None, *, stays_open: bool,
    ) -> None:  # fmt: skip
        """Run a request, a long stream too, while its token is valid; a stream ends with the server."""
        assert self._gate is not None
        is_begun = False

        async def watch(message: Any) -> None:
            nonlocal is_begun
            is_begun = True
            await send(message)

        work = route.handle(scope, receive, watch, grant.token_id, asking)
        task = asyncio.create_task(work, name="mcp over http")
        ends: set[asyncio.Future[Any]] = {task, *([asyncio.ensure_future(self._stopping.wait())] if stays_open else [])}
        try:
            while not await self._is_over(ends):
                with contextlib.suppress(StoreUnavailableError):  # retried soon
                    if not await self._gate.is_valid(token):
                        break
        finally:
            is_revoked = not task.done()
            for end in ends:
                end.cancel()
            await asyncio.wait({task})
        if not is_revoked:
            task.result()
        elif is_begun:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _is_over(self, ends: set[asyncio.Future[Any]]) -> bool:
        """Wait until one of *ends* is done, a token was replaced, or some time has passed; True if one of *ends* is."""
        news = asyncio.create_task(self.owner.news().wait())
        try:
            await asyncio.wait({*ends, news}, timeout=RECHECK_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
        return any(end.done() for end in ends)


def _import_heavy() -> tuple[Any, Any, ModuleType]:
    from infinite_memory.transports.http import connections, mcp
    from infinite_memory.transports.http.api import app

    return mcp, app, connections


def _import_page() -> Any:
    from infinite_memory.transports.http.page import app

    return app


def _is_code_form(scope: Scope, status: int) -> bool:
    """True if a request rejected for its origin is the form written by `infinite-memory open`: a file has no origin."""
    is_form = status == 403 and scope["path"] == CODE_FORM and scope["method"] == "POST"
    return is_form and get_headers(scope).get("origin") == "null"


async def _check(body: bytes) -> tuple[int | str | None, Json | None]:
    """Return the id of a message that is a request, and its fault by the same rules as on a pipe; None if it is valid."""
    try:
        message = await read_line(body, parse_value)
    except InvalidRequestError as exc:
        return None, _error(None, RpcError(PARSE_ERROR, str(exc)))
    try:
        check_shape(message)
    except RpcError as exc:
        return None, _error(get_id(message), exc)
    return get_id(message) if isinstance(message, dict) and "method" in message else None, None


def _error(request: int | str | None, exc: RpcError) -> Json:
    return {"jsonrpc": "2.0", "id": request, "error": exc.out()}
