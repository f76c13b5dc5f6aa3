"""The process's own pipes as a session sees them."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from infinite_memory.transports.stdio import DescriptorSink, DescriptorSource, SocketSink


async def test_bytes_come_through_in_order_and_the_end_stays_the_end() -> None:
    reads, writes = os.pipe()
    source, sink = DescriptorSource(reads), DescriptorSink(writes)
    data = os.urandom(1_000_000)
    writing = asyncio.create_task(sink.write(data))
    got = b""
    while len(got) < len(data):
        got += await source.read()
    await writing
    assert got == data
    os.close(writes)
    assert await source.read() == b""
    assert await source.read() == b""
    os.close(reads)


async def test_a_reader_that_is_gone_is_a_connection_error() -> None:
    reads, writes = os.pipe()
    os.close(reads)
    with pytest.raises(ConnectionError):
        await DescriptorSink(writes).write(b"hello")
    os.close(writes)


async def test_a_read_that_was_given_up_loses_nothing() -> None:
    reads, writes = os.pipe()
    source = DescriptorSource(reads)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(source.read(), 0.01)
    os.write(writes, b"hello")
    os.close(writes)
    assert await source.read() == b"hello"
    assert await source.read() == b""
    os.close(reads)


async def test_what_a_socket_does_not_take_at_once_is_sent_in_order() -> None:
    ours, theirs = socket.socketpair()
    sink = SocketSink(ours)
    await sink.write(b"first ")  # taken at once
    large = os.urandom(4_000_000)
    writing = [asyncio.create_task(sink.write(one)) for one in (large, b" last")]
    await asyncio.sleep(0.01)
    assert not any(one.done() for one in writing)
    got = await asyncio.to_thread(_read_exactly, theirs, 6 + len(large) + 5)
    await asyncio.gather(*writing)
    assert got == b"first " + large + b" last"
    theirs.close()
    with pytest.raises(ConnectionError):
        await sink.write(b"more")
    await sink.close()
    ours.close()


def _read_exactly(connection: socket.socket, count: int) -> bytes:
    got = bytearray()
    while len(got) < count:
        got += connection.recv(1 << 20)
    return bytes(got)
