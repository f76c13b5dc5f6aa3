"""One client's session: its contract, else its first request, decides whether it speaks JSON-RPC or the action loop.

A request is an object with the key ``jsonrpc`` or the name of an ``action``. Lines before it that are neither (not JSON, an array,
too long) get the action loop's error, one each, and decide nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from infinite_memory.transports.jsonrpc import RpcContract, serve_rpc
from infinite_memory.transports.lines import LARGE_LINE, LineContract, LineReader, TooLong, answer_lines
from infinite_memory.transports.stdio import ByteSink, ByteSource
from infinite_memory.transports.strict_json import Speaks, detect_protocol


async def serve_session(
    open_lines: Callable[[], LineContract] | None,
    open_rpc: Callable[[], RpcContract],
    source: ByteSource,
    sink: ByteSink,
    *,
    limit: int,
    stop: asyncio.Event,
    speaks: Speaks | None = None,
) -> None:
    """Serve one client until its input ends or *stop* is set.

    Args:
        open_lines: Opens a session in the action loop; None if there is only JSON-RPC.
        open_rpc: Opens a session in JSON-RPC.
        limit: Maximum line length in bytes.
        stop: Once set, only lines sent before are read.
        speaks: The protocol if it is already decided; None leaves it to the first request.
    """
    lines = LineReader(source, limit).lines()
    contract = None if open_lines is None else open_lines()
    if contract is not None and speaks is None:
        undecided = _Undecided(lines)
        await answer_lines(contract, undecided.lines(), sink, limit=limit, stop=stop)
        if undecided.first is None:
            return
        lines, speaks = _with_first(undecided.first, lines), undecided.speaks
    if contract is None or speaks is Speaks.JSON_RPC:
        await serve_rpc(open_rpc(), lines, sink, limit=limit, stop=stop)
    else:
        await answer_lines(contract, lines, sink, limit=limit, stop=stop)


class _Undecided:
    """The lines before the first request, which it buffers."""

    def __init__(self, rest: AsyncIterator[bytes | TooLong]) -> None:
        self._rest = rest
        self.first: bytes | None = None
        self.speaks: Speaks | None = None

    async def lines(self) -> AsyncIterator[bytes | TooLong]:
        """Yield each line that is not a request."""
        async for line in self._rest:
            if isinstance(line, bytes) and (speaks := await _detect_protocol(line)) is not None:
                self.first, self.speaks = line, speaks
                return
            yield line


async def _detect_protocol(line: bytes) -> Speaks | None:
    return await asyncio.to_thread(detect_protocol, line) if len(line) > LARGE_LINE else detect_protocol(line)


async def _with_first(first: bytes | TooLong, rest: AsyncIterator[bytes | TooLong]) -> AsyncIterator[bytes | TooLong]:
    yield first
    async for line in rest:
        yield line
