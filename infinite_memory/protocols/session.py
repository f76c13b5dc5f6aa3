"""One client's session: its first line decides whether it speaks JSON-RPC or the action loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from infinite_memory.protocols.jsonrpc import RpcContract, serve_rpc
from infinite_memory.protocols.lines import (
    LARGE_LINE,
    LineContract,
    LineReader,
    TooLong,
    answer_lines,
    until_stopped,
)
from infinite_memory.protocols.streams import ByteSink, ByteSource


async def serve_session(
    open_lines: Callable[[], LineContract] | None,
    open_rpc: Callable[[], RpcContract],
    source: ByteSource,
    sink: ByteSink,
    *,
    limit: int,
    stop: asyncio.Event,
) -> None:
    """Serve one client until its input ends, *stop* is set, or it is gone.

    Args:
        open_lines: Begins the conversation in the action loop; None where there is only JSON-RPC.
        open_rpc: Begins it in JSON-RPC.
        limit: Longest line, in bytes.
        stop: When set, no further request is begun.
    """
    lines = LineReader(source, limit).lines()
    async with aclosing(until_stopped(lines, stop)) as taken:
        first = await anext(taken, None)
    if first is None:
        return
    everything = _with_first(first, lines)
    if open_lines is None or await _is_rpc(first):
        await serve_rpc(open_rpc(), everything, sink, limit=limit, stop=stop)
    else:
        await answer_lines(open_lines(), everything, sink, limit=limit, stop=stop)


async def _is_rpc(first: bytes | TooLong) -> bool:
    if isinstance(first, TooLong) or len(first) <= LARGE_LINE:
        return is_rpc(first)
    return await asyncio.to_thread(is_rpc, first)


def is_rpc(first: bytes | TooLong) -> bool:
    """Tell whether a session's first line is JSON-RPC: an object with a key ``jsonrpc``, or an array (a batch)."""
    if isinstance(first, TooLong):
        return False
    try:
        message = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return isinstance(message, list) or (isinstance(message, dict) and "jsonrpc" in message)


async def _with_first(first: bytes | TooLong, rest: AsyncIterator[bytes | TooLong]) -> AsyncIterator[bytes | TooLong]:
    yield first
    async for line in rest:
        yield line
