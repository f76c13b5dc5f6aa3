"""The action loop over streams in memory: framing, order, limits, the end."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infinite_memory.errors import InvalidRequestError
from infinite_memory.protocols.json_text import format_line
from infinite_memory.protocols.lines import (
    LARGE_LINE,
    LARGE_REPLY,
    LineReader,
    TooLong,
    answer_lines,
    format_reply,
    is_large,
    until_stopped,
)
from infinite_memory.protocols.session import serve_session
from tests.mongo_server import run

LIMIT = 64


class Chunks:
    """Gives bytes chunk by chunk, then the end; or, with ``stays_open``, nothing more."""

    def __init__(self, *chunks: bytes, stays_open: bool = False) -> None:
        self._chunks, self._stays_open = list(chunks), stays_open

    async def read(self) -> bytes:
        if self._chunks:
            return self._chunks.pop(0)
        if self._stays_open:
            await asyncio.Event().wait()
        return b""


class Collected:
    """Takes bytes; breaks after ``breaks_after`` writes."""

    def __init__(self, breaks_after: int | None = None) -> None:
        self.data = b""
        self._left = breaks_after

    async def write(self, data: bytes) -> None:
        if self._left == 0:
            raise BrokenPipeError
        self.data += data
        self._left = None if self._left is None else self._left - 1

    def replies(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.data.splitlines()]


class Echo:
    """Answers with what it was asked."""

    def __init__(self, waits: asyncio.Event | None = None) -> None:
        self.asked: list[dict[str, Any]] = []
        self._waits = waits

    async def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request)
        if self._waits is not None:
            await self._waits.wait()
        return {"echo": request}

    def refuse(self, problem: InvalidRequestError) -> dict[str, Any]:
        return {"refused": str(problem)}


def cut(*chunks: bytes) -> list[bytes | TooLong]:
    async def read() -> list[bytes | TooLong]:
        return [line async for line in LineReader(Chunks(*chunks), LIMIT).lines()]

    return run(read())


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b\n", b"c"], [b"ab", b"c"]),
        ([b"a\r\nb\r", b"\n"], [b"a", b"b"]),
        ([b"\n \n\t\r\n\na\n\n"], [b"a"]),
        ([b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n"], [b"a", b"\xef\xbb\xbfb"]),
        ([b"\xef", b"\xbb", b"\xbfa\n"], [b"a"]),
        ([b"\xef\xbb\xbf\n"], []),
        ([], []),
        ([b"x" * LIMIT + b"\n"], [b"x" * LIMIT]),
        ([b"x" * LIMIT + b"\r\n"], [b"x" * LIMIT]),
        ([b"x" * LIMIT], [b"x" * LIMIT]),
        ([b"x" * (LIMIT + 1) + b"\na\n"], [TooLong(LIMIT + 1), b"a"]),
        ([b"x" * 1000, b"x" * 1000, b"\na"], [TooLong(2000), b"a"]),
        ([b"x" * 1000], [TooLong(1000)]),
    ],
)
def test_a_stream_is_cut_into_lines(chunks: list[bytes], lines: list[bytes | TooLong]) -> None:
    assert cut(*chunks) == lines


@given(st.lists(st.binary(max_size=100).filter(lambda one: b"\n" not in one), max_size=6), st.data())
def test_lines_do_not_depend_on_where_the_chunks_are_cut(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    places = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=8)))
    chunks = [stream[a:b] for a, b in zip([0, *places], [*places, len(stream)], strict=True) if a != b]
    assert cut(*chunks) == cut(stream)


def test_a_long_line_is_never_held_whole() -> None:
    async def read() -> int:
        source = Chunks(*[b"x" * 1000] * 100)
        reader = LineReader(source, LIMIT)
        [line] = [line async for line in reader.lines()]
        assert isinstance(line, TooLong)
        return line.size

    assert run(read()) == 100_000


async def answer(contract: Echo, source: Chunks, sink: Collected, stop: asyncio.Event) -> None:
    await answer_lines(contract, LineReader(source, LIMIT).lines(), sink, limit=LIMIT, stop=stop)


def serve(*chunks: bytes, sink: Collected | None = None) -> list[dict[str, Any]]:
    async def session() -> list[dict[str, Any]]:
        taken = sink or Collected()
        await answer(Echo(), Chunks(*chunks), taken, asyncio.Event())
        return taken.replies()

    return run(session())


def test_each_line_gets_one_reply_in_order_and_bad_ones_end_nothing() -> None:
    replies = serve(b'{"n": 1}\nnonsense\n\n{"n": 2}\n' + b"x" * 100 + b'\n[]\n{"n": 3}')
    assert [sorted(reply)[0] for reply in replies] == ["echo", "refused", "echo", "refused", "refused", "echo"]
    assert [reply["echo"]["n"] for reply in replies if "echo" in reply] == [1, 2, 3]
    assert "100 bytes in a line is more than the limit of 64" in replies[3]["refused"]


def test_a_client_that_is_gone_ends_the_session() -> None:
    sink = Collected(breaks_after=1)
    assert len(serve(b"{}\n{}\n{}\n", sink=sink)) == 1


def test_a_request_under_way_is_answered_before_the_session_stops_and_no_other_is_begun() -> None:
    async def session() -> None:
        stop, goes_on = asyncio.Event(), asyncio.Event()
        contract, sink = Echo(goes_on), Collected()
        serving = asyncio.create_task(answer(contract, Chunks(b'{"n": 1}\n{"n": 2}\n', stays_open=True), sink, stop))
        while not contract.asked:
            await asyncio.sleep(0)
        stop.set()
        goes_on.set()
        await serving
        assert sink.replies() == [{"echo": {"n": 1}}]
        assert len(contract.asked) == 1

    run(session())


def test_an_idle_session_ends_when_it_is_told_to() -> None:
    async def session() -> None:
        stop = asyncio.Event()
        serving = asyncio.create_task(answer(Echo(), Chunks(stays_open=True), Collected(), stop))
        await asyncio.sleep(0)
        stop.set()
        await serving

    run(session())


def test_a_long_reply_is_written_like_any_other() -> None:
    for reply in ({"text": "é" * LARGE_REPLY}, {"results": [{"n": n, "t": "x", "f": 0.5} for n in range(100_000)]}):
        assert is_large(reply)
        assert run(format_reply(reply)) == format_line(reply)
    assert not is_large({"results": [{"text": "tea", "tags": [], "n": None}] * 1000})


def test_lines_are_taken_until_stopped_and_one_task_waits_for_that() -> None:
    async def scenario() -> None:
        stop = asyncio.Event()
        lines = LineReader(Chunks(b"1\n2\n3\n", stays_open=True), LIMIT).lines()
        taken = []
        async for line in until_stopped(lines, stop):
            taken.append(line)
            assert len(asyncio.all_tasks()) <= 3  # this one, the one that waits, and one that has read
            if len(taken) == 3:
                stop.set()
        assert taken == [b"1", b"2", b"3"]

    run(scenario())


def test_a_first_line_that_is_long_decides_like_a_short_one() -> None:
    async def scenario() -> None:
        sink = Collected()
        line = json.dumps({"n": "x" * LARGE_LINE}).encode() + b"\n"

        def no_rpc() -> Any:
            raise AssertionError

        await serve_session(Echo, no_rpc, Chunks(line), sink, limit=2 * LARGE_LINE, stop=asyncio.Event())
        assert len(sink.replies()) == 1

    run(scenario())
