"""The JSON-RPC 2.0 front of all contracts: parsing, validation, session state, dispatch, cancellation, and requests to the client.

A message passes five checks, and the first that fails answers: it is JSON (-32700), it is one request object and not a batch
(-32600), its method exists (-32601), the session has begun (-32002), and the contract runs it. Requests run concurrently,
commands within the limits of `turns`, and are answered when they are ready; `initialize` alone is answered before anything after it is
read. The contract decides how its errors look (`RpcContract.failure`).

Why not the official SDK's session: it answers an `initialize` without capabilities with an error and a malformed line with
nothing, cannot return -32002, and takes over a second to import, for which a handshake must not wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from infinite_memory.contracts.base import Effect
from infinite_memory.contracts.mcp import (
    INTERNAL_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    NOT_INITIALIZED,
    PARSE_ERROR,
    Json,
    RpcError,
)
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError
from infinite_memory.loop_watchdog import running
from infinite_memory.transports.jsonrpc_messages import Id, check_shape, describe_request, get_id, parse_id
from infinite_memory.transports.lines import (
    TooLong,
    format_reply,
    read_line,
    too_long,
    until_stopped,
    write_unless_stopped,
)
from infinite_memory.transports.stdio import ByteSink
from infinite_memory.transports.strict_json import find_value, parse_value
from infinite_memory.transports.turns import ANSWER_S, Turns

log = logging.getLogger(__name__)

OURS = "internal error; the log has the details"
RUNNING = 1000  # concurrent requests of one client; beyond that its next message waits


class MessageSink(Protocol):
    """The destination of a session's messages."""

    async def send(self, message: Json, related_id: Id | None) -> None:
        """Send a message to the client; *related_id* is the request it belongs to, if any.

        Raises:
            ConnectionError: the client is gone.
        """

    async def unanswered(self, request: Id) -> None:
        """Called when *request* was cancelled and gets no reply."""


@dataclass(slots=True)
class RpcCall:
    """A running request: the message, and ways to reach the client while it runs."""

    id: Id
    method: str
    params: Json
    session: RpcSession

    async def notify(self, method: str, params: Json) -> None:
        """Send a notification that belongs to this request."""
        await self.session.notify(method, params, related_id=self.id)

    async def ask(self, method: str, params: Json) -> Json:
        """Send a request to the client and wait for its result.

        Raises:
            RpcError: the client answered with an error, or its input ended.
        """
        return await self.session.ask(method, params, related_id=self.id)


class RpcContract(Protocol):
    """The interface between a contract and the front."""

    def serves(self, call: RpcCall) -> bool:
        """True if the method exists; `initialize` need not be included."""

    def allowed_before_initialize(self, call: RpcCall) -> bool:
        """True if *call* is allowed before `initialize`."""

    async def initialize(self, params: Json, session: RpcSession) -> Json:
        """Answer the handshake; must not wait. Every member of *params* may be missing or invalid."""

    async def handle(self, call: RpcCall) -> Json:
        """Run a request and return its result. Cancelled according to its `effect`.

        Raises:
            RpcError: sent as the answer.
            InfiniteMemoryError: sent as mapped by `failure`.
        """

    def effect(self, call: RpcCall) -> Effect:
        """Return the effect of a request, for when its client cancels it or disconnects."""

    def takes_turn(self, call: RpcCall) -> bool:
        """True if a request is work on the memory, which is limited for each session."""

    async def notified(self, method: str, params: Json, session: RpcSession) -> None:
        """Handle a notification of the client, except cancellation."""

    def failure(self, exc: InfiniteMemoryError) -> RpcError:
        """Map one of our errors to an `RpcError`."""

    async def on_disconnect(self) -> None:
        """Called when the client has disconnected."""


@dataclass(slots=True)
class _Question:
    """A request to the client that it has not answered."""

    answer: asyncio.Future[Json]
    related: Id | None


class RpcSession:
    """One client's session, over any transport.

    A request that was read is executed even if the client disconnects: writes are completed, while reads are stopped
    when the client no longer waits.
    """

    def __init__(self, contract: RpcContract, outlet: MessageSink) -> None:
        self._contract, self._outlet = contract, outlet
        self._running: dict[Id, asyncio.Task[None]] = {}
        self._effects: dict[Id, Effect] = {}
        self._replying = set[asyncio.Task[None]]()  # their ids are free: a client with the reply may reuse one
        self._turns = Turns()
        self._cancelled: set[Id] = set()
        self._notifying_tasks: set[asyncio.Future[None]] = set()
        self._questions: dict[Id, _Question] = {}
        self._numbers = itertools.count(1)
        self._sending = asyncio.Lock()
        self.input_ended = asyncio.Event()
        self.is_initialized = False
        self.is_gone = False

    # incoming

    async def take_line(self, line: bytes | TooLong, limit: int) -> None:
        """Handle one line from the client."""
        if isinstance(line, TooLong):
            await self.refuse(None, RpcError(INVALID_REQUEST, str(too_long(line, limit))))
            return
        try:
            message = await read_line(line, parse_value)
        except InvalidRequestError as exc:
            # An error without an id would leave the client waiting for its answer.
            sent = await read_line(line, find_value)
            code = PARSE_ERROR if sent is None else INVALID_REQUEST
            await self.refuse(get_id(sent), RpcError(code, str(exc)))
            return
        await self.take(message)

    async def take(self, message: Any) -> None:
        """Handle one message from the client; return once it is running, or answered if it need not wait."""
        message_id = get_id(message)
        try:
            check_shape(message)
        except RpcError as exc:
            await self.refuse(message_id, exc)
            return
        if "method" not in message:
            self._take_answer(message)
        elif "id" not in message:
            await self._take_notification(message["method"], message.get("params") or {})
        else:
            assert message_id is not None
            await self._take_request(RpcCall(message_id, message["method"], message.get("params") or {}, self))

    async def _take_request(self, call: RpcCall) -> None:
        try:
            if call.method == "initialize":
                await self._begin(call)
                return
            if not self._contract.serves(call):
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {call.method[:200]}")
            if not self.is_initialized and not self._contract.allowed_before_initialize(call):
                raise RpcError(NOT_INITIALIZED, "Server not initialized: send initialize first")
            if call.id in self._running:
                raise RpcError(INVALID_REQUEST, "a request of this id is under way")
        except RpcError as exc:
            await self.refuse(call.id, exc)
            return
        effect = self._contract.effect(call)
        if self.is_gone and effect is Effect.READS:
            return
        while len(self._running) + len(self._replying) >= RUNNING:
            await asyncio.wait(self._under_way(), return_when=asyncio.FIRST_COMPLETED)
        task = asyncio.create_task(self._answer(call), name=f"rpc {call.method[:80]}")
        self._running[call.id], self._effects[call.id] = task, effect
        task.add_done_callback(lambda done: self._done(call.id, done))

    def _done(self, request: Id, task: asyncio.Task[None]) -> None:
        """A task cancelled before its first step runs no code of its own, so this cannot be in `_answer`."""
        self._replying.discard(task)
        if self._running.get(request) is not task:
            return
        del self._running[request], self._effects[request]
        was_cancelled = request in self._cancelled
        self._cancelled.discard(request)
        if task.cancelled() and was_cancelled:
            telling = asyncio.ensure_future(self._outlet.unanswered(request))
            self._notifying_tasks.add(telling)
            telling.add_done_callback(self._notifying_tasks.discard)

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
            request = parse_id(params.get("requestId"))
            if request is not None and request in self._running:
                self._cancelled.add(request)
                self._take_back(request)
            return
        await self._contract.notified(method, params, self)

    def _take_back(self, request: Id) -> None:
        """Stop a request that the client cancelled; a write only while it waits for the client's answer to a question."""
        if self._effects[request] is not Effect.WRITES:
            self._running[request].cancel()
            return
        for question in self._questions.values():
            if question.related == request:
                question.answer.cancel()

    def _take_answer(self, message: Json) -> None:
        number = parse_id(message["id"])
        question = self._questions.get(number) if number is not None else None
        if question is None or question.answer.done():
            return  # no longer awaited
        error, result = message.get("error"), message.get("result")
        if isinstance(error, dict):
            code = error.get("code")
            rpc_error = RpcError(code if isinstance(code, int) else INTERNAL_ERROR, str(error.get("message")))
            question.answer.set_exception(rpc_error)
        else:
            question.answer.set_result(result if isinstance(result, dict) else {})

    async def _answer(self, call: RpcCall) -> None:
        reply: Json
        began = time.monotonic()
        try:
            async with self._turns.turn(call.id) if self._contract.takes_turn(call) else contextlib.nullcontext():
                with running("a JSON-RPC request"):
                    reply = {"result": await self._contract.handle(call)}
        except RpcError as exc:
            reply = {"error": exc.out()}
        except InfiniteMemoryError as exc:
            reply = {"error": self._contract.failure(exc).out()}
        except Exception:
            log.exception("a request failed", extra={"event": "request_failed", "method": call.method[:200]})
            reply = {"error": RpcError(INTERNAL_ERROR, OURS).out()}
        log.debug("%s %s in %.1f ms", describe_request(call.method, call.params), "failed" if "error" in reply else "done",
                  (time.monotonic() - began) * 1000, extra={"event": "request"})  # fmt: skip
        if call.id in self._cancelled:  # it finished before it could be stopped; the client does not wait for it
            await self._outlet.unanswered(call.id)
            return
        self._replying.add(self._running.pop(call.id))
        del self._effects[call.id]
        await self._send({"jsonrpc": "2.0", "id": call.id} | reply, call.id)

    def _under_way(self) -> list[asyncio.Task[None]]:
        return [*self._running.values(), *self._replying]

    # outgoing

    async def refuse(self, request: Id | None, exc: RpcError) -> None:
        """Answer with an error; *request* is None if the id of the message is unknown."""
        await self._send({"jsonrpc": "2.0", "id": request, "error": exc.out()}, request)

    async def notify(self, method: str, params: Mapping[str, Any], *, related_id: Id | None = None) -> None:
        """Send a notification; do nothing if the client is gone."""
        message: Json = {"jsonrpc": "2.0", "method": method}
        await self._send(message | ({"params": dict(params)} if params else {}), related_id)

    async def ask(self, method: str, params: Json, *, related_id: Id | None = None) -> Json:
        """Send a request to the client and wait for its result; for errors see `RpcCall.ask`."""
        if self.input_ended.is_set() or self.is_gone:
            raise RpcError(INTERNAL_ERROR, "the client cannot answer any more")
        number = f"ask-{next(self._numbers)}"  # a string: the ids of most clients are numbers, and logs show both
        waiting: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._questions[number] = _Question(waiting, related_id)
        try:
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, related_id)
            async with self._turns.paused(related_id), asyncio.timeout(ANSWER_S):
                return await waiting
        except (asyncio.CancelledError, TimeoutError) as exc:
            await self.notify("notifications/cancelled", {"requestId": number}, related_id=related_id)
            if isinstance(exc, TimeoutError):
                raise RpcError(INTERNAL_ERROR, f"the client did not answer within {ANSWER_S:.0f} s") from None
            raise
        finally:
            del self._questions[number]

    async def _send(self, message: Json, related_id: Id | None) -> None:
        if self.is_gone:
            return
        try:
            async with self._sending:
                await self._outlet.send(message, related_id)
        except ConnectionError:
            self.abandon()

    # shutdown

    async def finish(self) -> None:
        """The client's input has ended: let running requests finish."""
        self._end_input()
        while under_way := self._under_way():
            await asyncio.wait(under_way)

    def abandon(self) -> None:
        """The client no longer waits: stop reads. `finish` waits for the rest."""
        self.is_gone = True
        self._end_input()
        self._stop({Effect.READS})

    async def cut_short(self) -> None:
        """Stop everything except running writes, and let those be answered; for a process that has to exit."""
        self._end_input()
        self._stop({Effect.READS, Effect.LONG})
        await self.finish()

    def _end_input(self) -> None:
        self.input_ended.set()
        for question in self._questions.values():
            if not question.answer.done():
                question.answer.set_exception(RpcError(INTERNAL_ERROR, "the client's input ended"))

    def _stop(self, effects: set[Effect]) -> None:
        current = asyncio.current_task()
        for request, task in list(self._running.items()):
            if task is not current and self._effects[request] in effects:
                task.cancel()


class LineSink:
    """Writes each message as one line."""

    def __init__(self, sink: ByteSink, stop: asyncio.Event) -> None:
        self._sink, self._stop = sink, stop

    async def send(self, message: Json, related_id: Id | None) -> None:
        await write_unless_stopped(self._sink, await format_reply(message), self._stop)

    async def unanswered(self, request: Id) -> None:
        pass


async def serve_rpc(
    contract: RpcContract, lines: AsyncIterator[bytes | TooLong], sink: ByteSink, *, limit: int, stop: asyncio.Event
) -> None:
    """Serve one client until its input ends or *stop* is set; what was received is executed and, if the client is still there, answered.

    If this task is cancelled, running writes are completed first.

    Args:
        limit: Maximum line length in bytes.
        stop: Once set, only messages sent before are handled.
    """
    session = RpcSession(contract, LineSink(sink, stop))
    try:
        async with aclosing(until_stopped(lines, stop)) as incoming:
            async for line in incoming:
                await session.take_line(line, limit)
        await session.finish()
    finally:
        await session.cut_short()
        await contract.on_disconnect()
