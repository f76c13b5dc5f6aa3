"""Adapter between the SDK's HTTP transports and our JSON-RPC front. Imports the SDK: only `http` imports this, in a thread.

`ContractOverHttp` is one contract at one path. Requests of the versions with a handshake belong to a session, which is one
`StreamableHTTPServerTransport` of the SDK with our `RpcSession` at its inner end. Requests of the later versions go through the SDK's
low-level `Server`, whose handlers are our contract's.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import uuid
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import anyio
import uvicorn
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http import EventCallback, EventMessage, EventStore, StreamableHTTPServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import JSONRPCMessage, JSONRPCResponse, RequestParams
from mcp_types import jsonrpc_message_adapter, server_notification_adapter
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infinite_memory import __version__
from infinite_memory.contracts.base import Effect
from infinite_memory.contracts.mcp import Json, RpcError
from infinite_memory.errors import InfiniteMemoryError
from infinite_memory.file_work import set_owner
from infinite_memory.transports.finishing import Finishing
from infinite_memory.transports.http.connections import HEAD_BYTES, Connections, protocol_class, silence_server_log
from infinite_memory.transports.jsonrpc import RpcCall, RpcContract, RpcSession
from infinite_memory.transports.jsonrpc_messages import Id
from infinite_memory.transports.mcp import MODERN_METHODS

log = logging.getLogger(__name__)

Open = Callable[[], RpcContract]

Asking = tuple[Id, Callable[[], Awaitable[None]]]
"""The id of a request, and a callback for when it waits for its client."""

SESSIONS = 1000  # open at once, for each contract
SESSIONS_OF_TOKEN = 100  # of them; the least recently used is closed for a new one
WRITES_S = 20.0  # how long running writes may take once the server closes
EVENTS = 1000  # stored for each session, for a client that lost its stream
EVENT_CHARS = 4_000_000  # of text in them, except the last one
SESSION_HEADER, VERSION_HEADER = "mcp-session-id", "mcp-protocol-version"


def security_settings(origins: Sequence[str]) -> TransportSecuritySettings:
    """Allow loopback hosts, and loopback pages and *origins* as origin."""
    hosts = ["127.0.0.1", "localhost", "[::1]"]
    loopback = [f"{scheme}://{host}{port}" for scheme in ("http", "https") for host in hosts for port in ("", ":*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[*hosts, *(f"{host}:*" for host in hosts)],
        allowed_origins=[*loopback, *origins],
    )


def web_server(
    app: ASGIApp, origins: Sequence[str], loopback: str, *, capacity: int, stop_s: int
) -> tuple[Callable[[], None], Callable[[list[socket.socket]], Awaitable[None]]]:
    """Create the HTTP server; return a function that stops it and one that serves sockets, with at most *capacity* connections."""
    silence_server_log()
    open_to_pages = CORSMiddleware(
        app, allow_origins=origins, allow_origin_regex=loopback, allow_methods=["GET", "POST", "PATCH", "DELETE"],
        allow_headers=["*"], expose_headers=["Mcp-Session-Id", "MCP-Protocol-Version", "Retry-After"],
    )  # fmt: skip
    server = _Server(
        uvicorn.Config(
            open_to_pages,
            http=protocol_class(Connections(capacity)),
            h11_max_incomplete_event_size=HEAD_BYTES,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=stop_s,
        )
    )

    def stop() -> None:
        server.should_exit = True

    async def serve(listening: list[socket.socket]) -> None:
        await server.serve(sockets=listening)

    return stop, serve


class _Server(uvicorn.Server):
    """A server without signal handlers: signals are handled by the daemon."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class ContractOverHttp:
    """One contract at one path; an asynchronous context manager."""

    def __init__(self, open_rpc: Open, security: TransportSecuritySettings, *, idle_s: float) -> None:
        self._open, self._security, self._idle_s = open_rpc, security, idle_s
        self._guard = TransportSecurityMiddleware(security)
        self._sessions: OrderedDict[str, _Session] = OrderedDict()  # most recently used last
        self._tasks: set[asyncio.Task[None]] = set()
        self._finishing = Finishing()
        self._modern = StreamableHTTPSessionManager(
            _modern_server(open_rpc, self._finishing), security_settings=security, stateless=True
        )
        self._stack = contextlib.AsyncExitStack()

    @property
    def sessions(self) -> int:
        """The number of clients with an open session."""
        return len(self._sessions)

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._modern.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        for session in list(self._sessions.values()):
            await session.transport.terminate()
        await self._finishing.wait(WRITES_S)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=WRITES_S)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=WRITES_S)
        await self._stack.aclose()

    async def refuse(self, scope: Scope) -> Response | None:
        """Validate host, origin and content type before the body is read; return None if they are valid."""
        return await self._guard.validate_request(Request(scope), is_post=scope["method"] == "POST")

    async def handle(
        self, scope: Scope, receive: Receive, send: Send, token_id: str, asking: Asking | None = None
    ) -> None:
        """Answer a request of a token; another token's session is not found. *asking* is called once if the request asks its client."""
        headers = Request(scope).headers
        version, name = headers.get(VERSION_HEADER), headers.get(SESSION_HEADER)
        if version is not None and version not in HANDSHAKE_PROTOCOL_VERSIONS:
            await self._modern.handle_request(scope, receive, send)
        elif name is None:
            await self._begin(scope, receive, send, token_id)
        elif (session := self._sessions.get(name)) and session.token_id == token_id:
            self._sessions.move_to_end(name)
            with session.sink.while_asking(asking):
                await session.transport.handle_request(scope, receive, send)
            if session.transport.is_terminated:  # the client ended it
                self._sessions.pop(name, None)
        else:
            await _refusal(404, "Session not found")(scope, receive, send)

    async def _make_room(self, token_id: str) -> None:
        """Close a session if there are too many: one of the token that opens one, or of the token that has most."""
        counts = Counter(session.token_id for session in self._sessions.values())
        if counts[token_id] < SESSIONS_OF_TOKEN:
            if len(self._sessions) < SESSIONS:
                return
            token_id = counts.most_common(1)[0][0]
        oldest = next(name for name, session in self._sessions.items() if session.token_id == token_id)
        await self._sessions.pop(oldest).transport.terminate()

    async def _begin(self, scope: Scope, receive: Receive, send: Send, token_id: str) -> None:
        """Open a session for the request that asks for one; keep it only if that succeeds."""
        await self._make_room(token_id)
        name = uuid.uuid4().hex
        transport = StreamableHTTPServerTransport(
            mcp_session_id=name, event_store=RecentEvents(), security_settings=self._security, idle_timeout=self._idle_s
        )
        session = self._sessions[name] = _Session(transport, token_id, _StreamSink())
        connected = asyncio.Event()
        task = asyncio.create_task(self._run(name, session, connected), name="http session")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        await connected.wait()
        status = 0

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await transport.handle_request(scope, receive, watch)
        finally:
            if not 0 < status < 400:
                self._sessions.pop(name, None)
                await transport.terminate()

    async def _run(self, name: str, opened: _Session, connected: asyncio.Event) -> None:
        """Pass a session's messages to the front until it ends or is idle for too long; writes are finished."""
        contract, transport, outlet = self._open(), opened.transport, opened.sink
        set_owner(name)
        session = RpcSession(contract, outlet)
        try:
            async with transport.connect() as (reading, outlet.writing):
                connected.set()
                try:
                    with transport.idle_scope or anyio.CancelScope():
                        async for item in reading:
                            if isinstance(item, SessionMessage):
                                outlet.note(item)
                                await session.take(item.message.model_dump(by_alias=True, exclude_unset=True))
                except anyio.ClosedResourceError:
                    pass  # the client ended the session
                finally:
                    session.abandon()
        except Exception:
            log.exception("an HTTP session failed", extra={"event": "http_session_failed"})
        finally:
            connected.set()
            self._sessions.pop(name, None)
            if not transport.is_terminated:
                await transport.terminate()
            try:
                await session.finish()
            finally:
                await session.cut_short()
                await contract.on_disconnect()


class _StreamSink:
    """Passes a session's messages to the SDK's transport."""

    def __init__(self) -> None:
        self.writing: Any = None  # until the transport is connected
        self._unanswered: dict[Id, Callable[[], Awaitable[None]]] = {}
        self._asking: dict[Id, Callable[[], Awaitable[None]]] = {}

    @contextlib.contextmanager
    def while_asking(self, asking: Asking | None) -> Iterator[None]:
        """Call the callback of *asking* as soon as its request asks the client a question, which may never be answered."""
        if asking is not None:
            self._asking[asking[0]] = asking[1]
        try:
            yield
        finally:
            if asking is not None:
                self._asking.pop(asking[0], None)

    def note(self, item: SessionMessage) -> None:
        """Store the callback for a request that gets no answer."""
        request = getattr(item.message, "id", None)
        if (
            isinstance(item.metadata, ServerMessageMetadata)
            and item.metadata.on_request_unanswered
            and request is not None
        ):
            self._unanswered[request] = item.metadata.on_request_unanswered

    async def send(self, message: Json, related_id: Id | None) -> None:
        if "method" not in message:
            self._unanswered.pop(message["id"], None)
        elif "id" in message and related_id is not None and (tell := self._asking.pop(related_id, None)):
            await tell()
        metadata = ServerMessageMetadata(related_request_id=related_id) if related_id is not None else None
        try:
            await self.writing.send(SessionMessage(jsonrpc_message_adapter.validate_python(message), metadata))
        except (anyio.ClosedResourceError, anyio.BrokenResourceError):
            raise ConnectionResetError("the session has ended") from None

    async def unanswered(self, request: Id) -> None:
        if tell := self._unanswered.pop(request, None):
            with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                await tell()


@dataclass(frozen=True, slots=True)
class _Session:
    """An open session, and the token that opened it."""

    transport: StreamableHTTPServerTransport
    token_id: str
    sink: _StreamSink


class RecentEvents(EventStore):
    """The last events of one session, for a client whose stream broke."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._events: OrderedDict[str, tuple[str, JSONRPCMessage | None, int]] = OrderedDict()
        self._chars = 0

    async def store_event(self, stream_id: str, message: JSONRPCMessage | None) -> str:
        name = str(next(self._numbers))
        chars = 0 if message is None else count_chars(message)
        self._events[name] = (stream_id, message, chars)
        self._chars += chars
        while len(self._events) > EVENTS or (self._chars > EVENT_CHARS and len(self._events) > 1):
            _, (_, _, removed_chars) = self._events.popitem(last=False)
            self._chars -= removed_chars
        return name

    async def replay_events_after(self, last_event_id: str, send_callback: EventCallback) -> str | None:
        if last_event_id not in self._events:
            return None
        stream = self._events[last_event_id][0]
        later = itertools.dropwhile(lambda name: name != last_event_id, list(self._events))
        for name in list(later)[1:]:
            session, message, _ = self._events.get(name, ("", None, 0))
            if session == stream and message is not None:
                await send_callback(EventMessage(message, name))
        return stream


def count_chars(message: JSONRPCMessage) -> int:
    """Return the number of characters in a message's texts, including the names of fields."""
    content = message.result if isinstance(message, JSONRPCResponse) else getattr(message, "params", None)
    chars, rest = 0, [content]
    while rest:
        match rest.pop():
            case str() as text:
                chars += len(text)
            case dict() as fields:
                rest += (*fields, *fields.values())
            case list() as items:
                rest += items
    return chars


def _modern_server(open_rpc: Open, finishing: Finishing) -> Server[Any]:
    """Create the SDK's server for the versions without sessions: each request is a client of its own."""
    server: Server[Any] = Server("infinite-memory", version=__version__, get_tool_input_schema=lambda _: None)

    async def handle(context: ServerRequestContext[Any, Any], _: RequestParams) -> Json:
        contract = open_rpc()
        assert context.request_id is not None
        session = RpcSession(contract, _ContextSink(context))
        call = RpcCall(context.request_id, context.method, dict(context.params or {}), session)
        try:
            work = contract.handle(call)
            return await (work if contract.effect(call) is Effect.READS else finishing.run(work))
        except RpcError as exc:
            raise MCPError(exc.code, exc.message, exc.data) from exc
        except InfiniteMemoryError as exc:
            mapped = contract.failure(exc)
            raise MCPError(mapped.code, mapped.message, mapped.data) from exc
        finally:
            await contract.on_disconnect()

    for method in MODERN_METHODS:
        server.add_request_handler(method, RequestParams, handle)
    return server


class _ContextSink:
    """Sends the messages of one request of the later versions: notifications only, as the client cannot be asked."""

    def __init__(self, context: ServerRequestContext[Any, Any]) -> None:
        self._context = context

    async def send(self, message: Json, related_id: Id | None) -> None:
        if "method" in message and "id" not in message:
            typed = server_notification_adapter.validate_python({"params": None} | message)
            await self._context.session.send_notification(typed, related_request_id=self._context.request_id)

    async def unanswered(self, request: Id) -> None:
        pass


def _refusal(status: int, reason: str) -> Response:
    return JSONResponse(
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": reason}}, status_code=status
    )
