"""The action loop: one JSON object a line in, one a line out, in order. Where the bytes come from is none of its business.

Lines end with LF or CRLF; a byte-order mark before the first and empty lines are skipped; a last line without an end is served.
A line that is too long is refused and skipped to its end, and the loop goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from infinite_memory.errors import InvalidRequestError, LimitExceededError
from infinite_memory.protocols.json_text import format_line, format_line_in_pieces, parse_object
from infinite_memory.protocols.streams import ByteSink, ByteSource

BOM = b"\xef\xbb\xbf"
LARGE_LINE = 256 * 1024  # above this a line is parsed in a thread, so that other sessions do not wait
LARGE_REPLY = 1 << 20  # characters; above this a reply is written in a thread, for the same reason
_SMALLEST = 4  # characters that a value takes at least, with what parts it from the next


@dataclass(frozen=True, slots=True)
class TooLong:
    """Stands for a line above the limit, of which nothing was kept."""

    size: int


class LineReader:
    """Cuts a stream of bytes into lines; keeps at most one line and one chunk in memory."""

    def __init__(self, source: ByteSource, limit: int) -> None:
        self._source, self._limit = source, limit

    async def lines(self) -> AsyncIterator[bytes | TooLong]:
        """Give each line that is not blank, without its end."""
        held = bytearray()
        size = 0  # of the line so far, kept or not
        first = True
        while chunk := await self._source.read():
            start = 0
            while (end := chunk.find(b"\n", start)) >= 0:
                line = self._line(held, size, chunk[start:end], first)
                first, start, size = False, end + 1, 0
                held.clear()
                if line:
                    yield line
            rest = chunk[start:]
            size += len(rest)
            if size <= self._limit + 1:  # one more for the carriage return
                held += rest
            else:
                held.clear()
        line = self._line(held, size, b"", first)
        if line:
            yield line

    def _line(self, held: bytearray, size: int, rest: bytes, first: bool) -> bytes | TooLong:
        size += len(rest)
        if size > self._limit + 1:
            return TooLong(size)
        line = bytes(held) + rest
        line = line.removesuffix(b"\r")
        if first:
            line = line.removeprefix(BOM)
        if len(line) > self._limit:
            return TooLong(len(line))
        return line if line.strip() else b""


class LineContract(Protocol):
    """A contract that speaks in requests and replies."""

    async def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer one request; never raises."""

    def refuse(self, problem: InvalidRequestError) -> dict[str, Any]:
        """Answer a line that is no request."""


async def answer_lines(
    contract: LineContract, lines: AsyncIterator[bytes | TooLong], sink: ByteSink, *, limit: int, stop: asyncio.Event
) -> None:
    """Answer the lines of one client until they end, *stop* is set, or it is gone; the request under way is always answered.

    Args:
        limit: Longest line, in bytes, for the refusal of one that is longer.
        stop: When set, no further request is begun.
    """
    async with aclosing(until_stopped(lines, stop)) as taken:
        async for line in taken:
            reply = await _answer(contract, line, limit)
            try:
                await sink.write(await format_reply(reply))
            except ConnectionError:
                return


async def _answer(contract: LineContract, line: bytes | TooLong, limit: int) -> dict[str, Any]:
    if isinstance(line, TooLong):
        return contract.refuse(LimitExceededError("", line.size, limit, "bytes in a line"))
    try:
        request = await asyncio.to_thread(parse_object, line) if len(line) > LARGE_LINE else parse_object(line)
    except InvalidRequestError as problem:
        return contract.refuse(problem)
    return await contract.handle(request)


async def until_stopped(
    lines: AsyncIterator[bytes | TooLong], stop: asyncio.Event
) -> AsyncGenerator[bytes | TooLong, None]:
    """Give lines until they end or *stop* is set, whichever is first."""
    stopping = asyncio.ensure_future(stop.wait())
    try:
        while not stop.is_set():
            reading = asyncio.ensure_future(anext(lines, None))
            try:
                await asyncio.wait((reading, stopping), return_when=asyncio.FIRST_COMPLETED)
                line = reading.result() if reading.done() else None
            finally:
                reading.cancel()
            if line is None:
                return
            yield line
    finally:
        stopping.cancel()


async def format_reply(reply: dict[str, Any]) -> bytes:
    """Write a reply as a line; one with much text in a thread, so that other sessions do not wait."""
    if is_large(reply):
        return await asyncio.to_thread(format_line_in_pieces, reply)
    return format_line(reply)


def is_large(value: Any) -> bool:
    """Tell whether the texts in a JSON value come to more than `LARGE_REPLY` characters; looks no further than that."""
    left = LARGE_REPLY
    waiting = [value]
    while waiting and left > 0:
        one = waiting.pop()
        if isinstance(one, str):
            left -= len(one)
        elif isinstance(one, dict):
            left -= sum(map(len, one))
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        left -= _SMALLEST
    return left <= 0
