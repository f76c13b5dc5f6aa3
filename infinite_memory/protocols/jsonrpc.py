"""The one JSON-RPC 2.0 front of all contracts: parse, shape, session state, dispatch, cancellation, and the way back to the client.

A message passes five stations, and the first that objects answers: it is JSON (-32700), it is one request object and no batch
(-32600), its method exists (-32601), the session has begun (-32002), and the contract carries it out. Requests run side by side
and are answered as they are ready; `initialize` alone is answered before anything after it is read. What a failure of a contract
looks like is the contract's own affair (`RpcContract.failure`).

Why not the official SDK's session: it answers an `initialize` without capabilities with an error and a malformed line with
nothing, cannot say -32002, and takes over a second to import, for which a handshake must not wait.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from infinite_memory.contracts.mcp import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_INITIALIZED,
    PARSE_ERROR,
    Json,
    RpcError,
)
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError
from infinite_memory.protocols.json_text import parse_value
from infinite_memory.protocols.lines import LARGE_LINE, TooLong, format_reply, until_stopped
from infinite_memory.protocols.streams import ByteSink

log = logging.getLogger(__name__)

Id = int | str

OURS = "internal error; the log has the details"
RUNNING = 1000  # requests of one client under way; beyond that its next message waits


class Outlet(Protocol):
    """Where a session's messages go."""

    async def send(self, message: Json, related: Id | None) -> None:
        """Hand a message to the client; *related* is the request on whose behalf it is sent, None for none.

        Raises:
            ConnectionError: the client is gone.
        """

    async def unanswered(self, request: Id) -> None:
        """Learn that *request* was cancelled and gets no reply."""


@dataclass(slots=True)
class RpcCall:
    """One request on its way: what came, and the ways back to the client while it is carried out."""

    id: Id
    method: str
    params: Json
    session: RpcSession

    async def notify(self, method: str, params: Json) -> None:
        """Send a notification that belongs to this request."""
        await self.session.notify(method, params, related=self.id)

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request to the client and wait for its result.

        Raises:
            RpcError: the client answered with an error, or its input ended.
        """
        return await self.session.ask(method, params, related=self.id)


class RpcContract(Protocol):
    """What a contract brings to the front."""

    def serves(self, call: RpcCall) -> bool:
        """Tell whether there is a method of that name; `initialize` need not be named."""

    def is_free(self, call: RpcCall) -> bool:
        """Tell whether *call* may come before `initialize`."""

    async def initialize(self, params: Json, session: RpcSession) -> Json:
        """Answer the handshake; must wait for nothing. Every member of *params* may be missing or wrong."""

    async def handle(self, call: RpcCall) -> Json:
        """Carry out a request and give its result. Cancelled when the client cancels it or goes.

        Raises:
            RpcError: it is answered with that.
            InfiniteMemoryError: it is answered with what `failure` makes of it.
        """

    async def notified(self, method: str, params: Json, session: RpcSession) -> None:
        """Take a notification of the client; cancellation is dealt with already."""

    def failure(self, problem: InfiniteMemoryError) -> RpcError:
        """Map one of our errors."""

    async def ended(self) -> None:
        """Learn that the client is gone."""


class RpcSession:
    """One client's conversation, whatever carries its messages."""

    def __init__(self, contract: RpcContract, outlet: Outlet) -> None:
        self._contract, self._outlet = contract, outlet
        self._running: dict[Id, asyncio.Task[None]] = {}
        self._cancelled: set[Id] = set()
        self._telling: set[asyncio.Future[None]] = set()
        self._asked: dict[Id, asyncio.Future[Json]] = {}
        self._numbers = itertools.count(1)
        self._sending = asyncio.Lock()
        self.input_ended = asyncio.Event()
        self.is_initialized = False
        self.is_gone = False

    # what comes

    async def take_line(self, line: bytes | TooLong, limit: int) -> None:
        """Take one line from the client."""
        if isinstance(line, TooLong):
            message = f"{line.size:,} bytes in a line are more than the limit of {limit:,}"
            await self.refuse(None, RpcError(INVALID_REQUEST, message))
            return
        try:
            message = await asyncio.to_thread(parse_value, line) if len(line) > LARGE_LINE else parse_value(line)
        except InvalidRequestError as problem:
            sent = _lenient(line)
            code = PARSE_ERROR if sent is None else INVALID_REQUEST
            await self.refuse(id_of(sent), RpcError(code, str(problem)))
            return
        await self.take(message)

    async def take(self, message: Any) -> None:
        """Take one message from the client; returns once it is on its way, or answered where it waits for nothing."""
        shown = id_of(message)
        try:
            check_shape(message)
        except RpcError as problem:
            await self.refuse(shown, problem)
            return
        if "method" not in message:
            self._take_answer(message)
        elif "id" not in message:
            await self._take_notification(message["method"], message.get("params") or {})
        else:
            assert shown is not None
            await self._take_request(RpcCall(shown, message["method"], message.get("params") or {}, self))

    async def _take_request(self, call: RpcCall) -> None:
        try:
            if call.method == "initialize":
                await self._begin(call)
                return
            if not self._contract.serves(call):
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {call.method[:200]}")
            if not self.is_initialized and not self._contract.is_free(call):
                raise RpcError(NOT_INITIALIZED, "Server not initialized: send initialize first")
            if call.id in self._running:
                raise RpcError(INVALID_REQUEST, "a request of this id is under way")
        except RpcError as problem:
            await self.refuse(call.id, problem)
            return
        while len(self._running) >= RUNNING:
            await asyncio.wait(self._running.values(), return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._answer(call), name=f"rpc {call.method[:80]}")
        self._running[call.id] = task
        task.add_done_callback(lambda done: self._done(call.id, done))

    def _done(self, request: Id, task: asyncio.Task[None]) -> None:
        """A task that was cancelled before its first step has run no code of its own, so this cannot be in `_answer`."""
        self._running.pop(request, None)
        was_cancelled = request in self._cancelled
        self._cancelled.discard(request)
        if task.cancelled() and was_cancelled:
            telling = asyncio.ensure_future(self._outlet.unanswered(request))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)

    async def _begin(self, call: RpcCall) -> None:
        if self.is_initialized:
            raise RpcError(NOT_INITIALIZED, "Server already initialized: initialize is sent once")
        try:
            result = await self._contract.initialize(call.params, self)
        except Exception:
            log.exception("a handshake failed", extra={"event": "handshake_failed"})
            raise RpcError(INTERNAL_ERROR, OURS) from None
        self.is_initialized = True
        await self._send({"jsonrpc": "2.0", "id": call.id, "result": result}, call.id)

    async def _take_notification(self, method: str, params: Json) -> None:
        if method == "notifications/cancelled":
            request = _id(params.get("requestId"))
            if request is not None and request in self._running:
                self._cancelled.add(request)
                self._running[request].cancel()
            return
        await self._contract.notified(method, params, self)

    def _take_answer(self, message: Json) -> None:
        number = _id(message["id"])
        waiting = self._asked.get(number) if number is not None else None
        if waiting is None or waiting.done():
            return  # nobody waits for it any more
        error, result = message.get("error"), message.get("result")
        if isinstance(error, dict):
            code = error.get("code")
            said = RpcError(code if isinstance(code, int) else INTERNAL_ERROR, str(error.get("message")))
            waiting.set_exception(said)
        else:
            waiting.set_result(result if isinstance(result, dict) else {})

    async def _answer(self, call: RpcCall) -> None:
        reply: Json
        try:
            reply = {"result": await self._contract.handle(call)}
        except RpcError as problem:
            reply = {"error": problem.out()}
        except InfiniteMemoryError as problem:
            reply = {"error": self._contract.failure(problem).out()}
        except Exception:
            log.exception("a request failed", extra={"event": "request_failed", "method": call.method[:200]})
            reply = {"error": RpcError(INTERNAL_ERROR, OURS).out()}
        if call.id in self._cancelled:  # it was done before it could be stopped; the client does not wait for it
            await self._outlet.unanswered(call.id)
            return
        await self._send({"jsonrpc": "2.0", "id": call.id} | reply, call.id)

    # what goes

    async def refuse(self, request: Id | None, problem: RpcError) -> None:
        """Answer with an error; *request* is None where the id of what came is not known."""
        await self._send({"jsonrpc": "2.0", "id": request, "error": problem.out()}, request)

    async def notify(self, method: str, params: Mapping[str, Any], *, related: Id | None = None) -> None:
        """Send a notification; nothing happens when the client is gone."""
        message: Json = {"jsonrpc": "2.0", "method": method}
        await self._send(message | ({"params": dict(params)} if params else {}), related)

    async def ask(self, method: str, params: Json, *, related: Id | None = None) -> Json:
        """Send a request to the client and wait for its result; for errors see `RpcCall.ask`."""
        if self.input_ended.is_set() or self.is_gone:
            raise RpcError(INTERNAL_ERROR, "the client cannot answer any more")
        number = f"ask-{next(self._numbers)}"  # a text: the ids of most clients are numbers, and logs show both
        waiting: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._asked[number] = waiting
        try:
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, related)
            return await waiting
        except asyncio.CancelledError:
            await self.notify("notifications/cancelled", {"requestId": number}, related=related)
            raise
        finally:
            del self._asked[number]

    async def _send(self, message: Json, related: Id | None) -> None:
        if self.is_gone:
            return
        try:
            async with self._sending:
                await self._outlet.send(message, related)
        except ConnectionError:
            self.is_gone = True
            self.cancel()

    # the end

    async def finish(self) -> None:
        """The client sends nothing more: let what is under way be answered."""
        self.input_ended.set()
        for waiting in self._asked.values():
            if not waiting.done():
                waiting.set_exception(RpcError(INTERNAL_ERROR, "the client's input ended"))
        while self._running:
            await asyncio.wait(list(self._running.values()))

    def cancel(self) -> None:
        """Nobody waits for an answer any more: stop what is under way."""
        current = asyncio.current_task()
        for task in list(self._running.values()):
            if task is not current:
                task.cancel()


class LineOutlet:
    """Writes each message as one line."""

    def __init__(self, sink: ByteSink) -> None:
        self._sink = sink

    async def send(self, message: Json, related: Id | None) -> None:
        await self._sink.write(await format_reply(message))

    async def unanswered(self, request: Id) -> None:
        pass


async def serve_rpc(
    contract: RpcContract, lines: AsyncIterator[bytes | TooLong], sink: ByteSink, *, limit: int, stop: asyncio.Event
) -> None:
    """Serve one client until its input ends, *stop* is set, or it is gone; what is under way is answered.

    Args:
        limit: Longest line, in bytes.
        stop: When set, no further message is taken.
    """
    session = RpcSession(contract, LineOutlet(sink))
    try:
        async with aclosing(until_stopped(lines, stop)) as taken:
            async for line in taken:
                await session.take_line(line, limit)
                if session.is_gone:
                    break
        await session.finish()
    finally:
        session.cancel()
        await contract.ended()


def check_shape(message: Any) -> None:
    """Refuse what is no single message of JSON-RPC.

    Raises:
        RpcError: it is none.
    """
    if isinstance(message, list):
        raise RpcError(INVALID_REQUEST, "batches are not supported; send one message at a time")
    if not isinstance(message, dict):
        raise RpcError(INVALID_REQUEST, "a message is a JSON object")
    if message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, 'jsonrpc: "2.0" was expected')
    if "method" not in message:
        if "id" in message and ("result" in message or "error" in message):
            return
        raise RpcError(INVALID_REQUEST, "method: is required")
    if not isinstance(message["method"], str):
        raise RpcError(INVALID_REQUEST, "method: a text was expected")
    if "id" in message and _id(message["id"]) is None:
        raise RpcError(INVALID_REQUEST, "id: a text or a whole number was expected; leave it out for a notification")
    if not isinstance(message.get("params"), dict | None):
        raise RpcError(INVALID_PARAMS, "params: an object was expected")


def id_of(message: Any) -> Id | None:
    """Give the id of a message as far as it has one that can be used."""
    return _id(message.get("id")) if isinstance(message, dict) else None


def _id(value: Any) -> Id | None:
    """Give *value* if it can be a request's id: 0 and "" can."""
    return value if isinstance(value, int | str) and not isinstance(value, bool) else None


def _lenient(line: bytes) -> Any:
    """Read JSON that our rules refuse (a key twice, NaN), only to see whose request it was; None when it is no JSON at all.

    A refusal without an id leaves the client waiting for its answer.
    """
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
