"""The action loop over streams in memory: framing, order, limits, the end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infinite_memory.contracts.base import Effect
from infinite_memory.errors import InvalidRequestError
from infinite_memory.transports.lines import (
    LARGE_LINE,
    LARGE_REPLY,
    LineReader,
    TooLong,
    answer_lines,
    format_reply,
    is_large,
    until_stopped,
)
from infinite_memory.transports.protocol_detection import serve_session
from infinite_memory.transports.strict_json import Speaks, format_line
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

    def effect(self, request: dict[str, Any]) -> Effect:
        return Effect.WRITES if "writes" in request else Effect.READS


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


async def test_a_long_line_is_never_held_whole() -> None:
    async def read() -> int:
        source = Chunks(*[b"x" * 1000] * 100)
        reader = LineReader(source, LIMIT)
        [line] = [line async for line in reader.lines()]
        assert isinstance(line, TooLong)
        return line.size

    assert await read() == 100_000


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


async def test_what_a_client_sent_before_it_died_is_carried_out() -> None:
    contract, sink = Echo(), Collected(breaks_after=1)
    await answer(contract, Chunks(b'{"n": 1}\n{"n": 2}\n', b'{"n": 3}\n'), sink, asyncio.Event())
    assert [one["n"] for one in contract.asked] == [1, 2, 3]
    assert len(sink.replies()) == 1


async def test_what_was_sent_before_the_session_is_stopped_is_answered() -> None:
    stop, goes_on = asyncio.Event(), asyncio.Event()
    contract, sink = Echo(goes_on), Collected()
    chunks = Chunks(b'{"n": 1}\n{"n": 2}\n', b'{"n": 3}\n{"n": ', stays_open=True)
    serving = asyncio.create_task(answer(contract, chunks, sink, stop))
    while not contract.asked:
        await asyncio.sleep(0)
    stop.set()
    goes_on.set()
    await serving
    assert [one["echo"]["n"] for one in sink.replies()] == [1, 2, 3]


async def test_a_write_outlives_the_session_that_is_cut_short_and_a_read_does_not() -> None:
    for request, lives in ((b'{"writes": 1}\n', True), (b'{"n": 1}\n', False)):
        goes_on = asyncio.Event()
        contract = Echo(goes_on)
        sink = Collected()
        serving = asyncio.create_task(answer(contract, Chunks(request, stays_open=True), sink, asyncio.Event()))
        while not contract.asked:
            await asyncio.sleep(0)
        serving.cancel()
        await asyncio.wait({serving}, timeout=0.05)
        assert serving.done() is not lives
        goes_on.set()
        await asyncio.wait({serving})
        assert serving.cancelled()
        assert len(sink.replies()) == (1 if lives else 0)


async def test_a_stopped_session_does_not_wait_for_a_client_that_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infinite_memory.transports.lines.STOPPED_SEND_S", 0.05)

    class Stuck:
        async def write(self, data: bytes) -> None:
            await asyncio.Event().wait()

    stop, contract = asyncio.Event(), Echo()
    source = Chunks(b'{"n": 1}\n{"n": 2}\n', stays_open=True)
    serving = asyncio.create_task(
        answer_lines(contract, LineReader(source, LIMIT).lines(), Stuck(), limit=LIMIT, stop=stop)
    )
    while not contract.asked:
        await asyncio.sleep(0)
    stop.set()
    await serving
    assert len(contract.asked) == 2


async def test_an_idle_session_ends_when_it_is_told_to() -> None:
    stop = asyncio.Event()
    serving = asyncio.create_task(answer(Echo(), Chunks(stays_open=True), Collected(), stop))
    await asyncio.sleep(0)
    stop.set()
    await serving


async def test_a_long_reply_is_written_like_any_other() -> None:
    for reply in ({"text": "é" * LARGE_REPLY}, {"results": [{"n": n, "t": "x", "f": 0.5} for n in range(100_000)]}):
        assert is_large(reply)
        assert await format_reply(reply) == format_line(reply)
    assert not is_large({"results": [{"text": "tea", "tags": [], "n": None}] * 1000})


async def test_lines_are_taken_until_stopped_and_one_task_waits_for_that() -> None:
    stop = asyncio.Event()
    lines = LineReader(Chunks(b"1\n2\n3\n", stays_open=True), LIMIT).lines()
    taken = []
    async for line in until_stopped(lines, stop):
        taken.append(line)
        assert len(asyncio.all_tasks()) <= 3  # this one, the one that waits, and one that has read
        if len(taken) == 2:
            stop.set()
    assert taken == [b"1", b"2", b"3"]


JUNK = [
    b"no json",
    b"[]",
    b"42",
    b"{}",
    b"null",
    b'"action"',
    b'[{"jsonrpc": "2.0"}]',
    b'{"action": "\xff"}',
    b"x" * 200,
]


@pytest.mark.parametrize("decided", [None, *Speaks])
async def test_junk_is_refused_line_by_line_and_decides_nothing(decided: Speaks | None) -> None:
    """Found by a hostile reading: after a first line that was no JSON the session was taken for another protocol."""

    sink, began = Collected(), []

    class Rpc:
        def serves(self, call: Any) -> bool:
            return True

        def allowed_before_initialize(self, call: Any) -> bool:
            return True

        def effect(self, call: Any) -> Effect:
            return Effect.READS

        async def handle(self, call: Any) -> dict[str, Any]:
            return {}

        async def on_disconnect(self) -> None:
            began.append("rpc")

    def open_rpc() -> Any:
        return Rpc()

    request = {None: b'{"jsonrpc": "2.0", "id": 1, "method": "x"}', Speaks.ACTIONS: b'{"jsonrpc": "2.0"}',
               Speaks.JSON_RPC: b'{"jsonrpc": "2.0", "id": 1, "method": "x"}'}[decided]  # fmt: skip
    stream = b"\n".join([*JUNK, request, *JUNK, b""])
    await serve_session(Echo, open_rpc, Chunks(stream), sink, limit=LIMIT, stop=asyncio.Event(), speaks=decided)
    forms = ["rpc" if "jsonrpc" in reply else "lines" for reply in sink.replies()]
    assert len(forms) == 2 * len(JUNK) + 1
    before = "rpc" if decided is Speaks.JSON_RPC else "lines"
    after = "lines" if decided is Speaks.ACTIONS else "rpc"
    assert set(forms[: len(JUNK)]) == {before}
    assert set(forms[len(JUNK) :]) == {after}


async def test_a_first_line_that_is_long_decides_like_a_short_one() -> None:
    sink = Collected()
    line = json.dumps({"action": "x" * LARGE_LINE}).encode() + b"\n"

    def no_rpc() -> Any:
        raise AssertionError

    await serve_session(Echo, no_rpc, Chunks(line), sink, limit=2 * LARGE_LINE, stop=asyncio.Event())
    assert len(sink.replies()) == 1


async def test_a_client_that_goes_on_asking_does_not_keep_a_stopped_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infinite_memory.transports.lines.STOPPED_READ_S", 0.1)

    async def forever() -> AsyncIterator[bytes | TooLong]:
        while True:
            await asyncio.sleep(0.005)  # the way to a client and back
            yield b"{}"

    stop = asyncio.Event()
    stop.set()
    async with asyncio.timeout(10), aclosing(until_stopped(forever(), stop)) as taken:
        assert [line async for line in taken]


async def test_what_was_sent_before_a_stop_is_all_taken_however_long_that_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("infinite_memory.transports.lines.STOPPED_READ_S", 0.02)

    async def sent() -> AsyncIterator[bytes | TooLong]:
        for number in range(20):
            await asyncio.sleep(0)
            yield b"%d" % number

    stop = asyncio.Event()
    stop.set()
    taken = []
    async with aclosing(until_stopped(sent(), stop)) as lines:
        async for line in lines:
            taken.append(line)
            await asyncio.sleep(0.005)  # carrying it out
    assert len(taken) == 20
