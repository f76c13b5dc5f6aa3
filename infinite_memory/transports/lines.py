"""The action loop: one JSON object a line in, one a line out, in order, over any byte stream.

Lines end with LF or CRLF; a byte-order mark before the first and empty lines are skipped; a last line without a line break is served.
A line that is too long is rejected and skipped to its end, and the loop continues.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from infinite_memory.contracts.base import Effect
from infinite_memory.contracts.large_requests import in_thread, is_larger
from infinite_memory.errors import InvalidRequestError, LimitExceededError, truncated_repr
from infinite_memory.loop_watchdog import running
from infinite_memory.transports.stdio import ByteSink, ByteSource
from infinite_memory.transports.strict_json import format_line, format_line_in_pieces, parse_object

T = TypeVar("T")

log = logging.getLogger(__name__)

BOM = b"\xef\xbb\xbf"
IN_FLIGHT_S = 0.1  # once a session is stopped: how long to wait for a line that is being sent
NEXT_IN_FLIGHT_S = 0.02  # and for each line after it
STOPPED_READ_S = 1.0  # in total; then only input that is already there is read, as a client may never stop asking
_TURNS = 8  # of the event loop, in which input that is already there arrives
STOPPED_SEND_S = 5.0  # once a session is stopped: how long a reply may take to be accepted
LARGE_LINE = 64 * 1024  # larger lines are parsed in a thread, so that other sessions need not wait
LARGE_REPLY = 128 * 1024  # characters; larger replies are written in a thread, for the same reason


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line above the limit, whose content was dropped."""

    size: int


class LineReader:
    """Splits a byte stream into lines; buffers at most one line and one chunk."""

    def __init__(self, source: ByteSource, limit: int) -> None:
        self._source, self._limit = source, limit

    async def lines(self) -> AsyncIterator[bytes | TooLong]:
        """Yield each line that is not empty, without its line break."""
        buffer = bytearray()
        size = 0  # of the line so far, buffered or not
        first = True
        while chunk := await self._source.read():
            start = 0
            while (end := chunk.find(b"\n", start)) >= 0:
                line = self._line(buffer, size, chunk[start:end], first)
                first, start, size = False, end + 1, 0
                buffer.clear()
                if line:
                    yield line
            rest = chunk[start:]
            size += len(rest)
            if size <= self._limit + 1:  # one more for the carriage return
                buffer += rest
            else:
                buffer.clear()
        line = self._line(buffer, size, b"", first)
        if line:
            yield line

    def _line(self, buffer: bytearray, size: int, rest: bytes, is_first: bool) -> bytes | TooLong:
        size += len(rest)
        if size > self._limit + 1:
            return TooLong(size)
        line = bytes(buffer) + rest
        line = line.removesuffix(b"\r")
        if is_first:
            line = line.removeprefix(BOM)
        if len(line) > self._limit:
            return TooLong(len(line))
        return line if line.strip() else b""


class _CutShort(Exception):
    """A session was cut short after its request had begun; carries the reply."""

    def __init__(self, reply: dict[str, Any]) -> None:
        super().__init__()
        self.reply = reply


class LineContract(Protocol):
    """A contract of requests and replies."""

    async def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request; never raises."""

    def refuse(self, exc: InvalidRequestError) -> dict[str, Any]:
        """Answer a line that is not a request."""

    def effect(self, request: dict[str, Any]) -> Effect:
        """Return the effect of *request*, for a session that is cut short."""


async def answer_lines(
    contract: LineContract, lines: AsyncIterator[bytes | TooLong], sink: ByteSink, *, limit: int, stop: asyncio.Event
) -> None:
    """Answer the lines of one client in order, until they end or *stop* is set.

    What was received is executed even if the client disconnects, which then gets no replies. If this task is
    cancelled, a running write is completed and answered first.

    Args:
        limit: Maximum line length in bytes, for the error about a longer one.
        stop: Once set, only lines sent before are read.
    """
    is_gone = False
    async with aclosing(until_stopped(lines, stop)) as incoming:
        async for line in incoming:
            try:
                reply = await _answer(contract, line, limit)
            except _CutShort as cut:
                if not is_gone:
                    with contextlib.suppress(ConnectionError):
                        await write_unless_stopped(sink, await format_reply(cut.reply), stop)
                raise asyncio.CancelledError from None
            if is_gone:
                continue
            try:
                await write_unless_stopped(sink, await format_reply(reply), stop)
            except ConnectionError:
                is_gone = True


async def _answer(contract: LineContract, line: bytes | TooLong, limit: int) -> dict[str, Any]:
    if isinstance(line, TooLong):
        return contract.refuse(too_long(line, limit))
    try:
        request = await read_line(line, parse_object)
    except InvalidRequestError as exc:
        return contract.refuse(exc)
    began = time.monotonic()
    with running("a request line"):
        reply = await _carry_out(contract, request)
    name = request.get("action", request.get("route"))
    log.debug("%s in %.1f ms", truncated_repr(name), (time.monotonic() - began) * 1000, extra={"event": "request"})
    return reply


async def _carry_out(contract: LineContract, request: dict[str, Any]) -> dict[str, Any]:
    """Run one request; a write outlives the cancellation of this task, which waits for it.

    Raises:
        _CutShort: the task was cancelled, and the write is done.
    """
    if contract.effect(request) is not Effect.WRITES:
        return await contract.handle(request)
    work = asyncio.ensure_future(contract.handle(request))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        await asyncio.wait({work})
        raise _CutShort(work.result()) from None


def too_long(line: TooLong, limit: int) -> LimitExceededError:
    """Return the error for a line above the limit."""
    return LimitExceededError("", line.size, limit, "bytes in a line")


async def write_unless_stopped(sink: ByteSink, data: bytes, stop: asyncio.Event) -> None:
    """Write *data*; once *stop* is set, a client that does not accept it within `STOPPED_SEND_S` counts as gone.

    Raises:
        ConnectionError: the client is gone.
    """
    writing = asyncio.ensure_future(sink.write(data))
    try:
        await asyncio.sleep(0)
        if writing.done():  # the usual case: the client reads
            writing.result()
            return
    except BaseException:
        writing.cancel()
        raise
    stopping = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({writing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        if not writing.done() and not (await asyncio.wait({writing}, timeout=STOPPED_SEND_S))[0]:
            raise ConnectionResetError("the client does not read")
        writing.result()
    finally:
        stopping.cancel()
        writing.cancel()


async def read_line(line: bytes, parse: Callable[[bytes], T]) -> T:
    """Return the result of *parse* for a line; run it in a thread if the line is large."""
    return await in_thread(lambda: parse(line)) if len(line) > LARGE_LINE else parse(line)


async def until_stopped(
    lines: AsyncIterator[bytes | TooLong], stop: asyncio.Event
) -> AsyncGenerator[bytes | TooLong, None]:
    """Yield lines until they end, or *stop* is set and everything sent before it has been read."""
    stopping = asyncio.ensure_future(stop.wait())
    patience_s, deadline = IN_FLIGHT_S, None
    try:
        while True:
            reading = asyncio.ensure_future(anext(lines, None))
            try:
                await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    deadline = deadline or time.monotonic() + STOPPED_READ_S
                    await _wait_for_line(reading, patience_s if time.monotonic() < deadline else None)
                    patience_s = NEXT_IN_FLIGHT_S
                line = reading.result() if reading.done() else None
            finally:
                reading.cancel()
            if line is None:
                return
            yield line
    finally:
        stopping.cancel()


async def _wait_for_line(reading: asyncio.Future[Any], timeout_s: float | None) -> None:
    """Wait for a line, or with None only as long as one that is already there takes."""
    if timeout_s is not None:
        await asyncio.wait({reading}, timeout=timeout_s)
        return
    for _ in range(_TURNS):
        if reading.done():
            return
        await asyncio.sleep(0)


async def format_reply(reply: dict[str, Any]) -> bytes:
    """Write a reply as a line; in a thread if it has much text, so that other sessions need not wait."""
    if is_large(reply):
        return await in_thread(lambda: format_line_in_pieces(reply))
    return format_line(reply)


def is_large(value: Any) -> bool:
    """True if the texts in a JSON value have more than `LARGE_REPLY` characters in total; stops counting there."""
    return is_larger(value, LARGE_REPLY)
