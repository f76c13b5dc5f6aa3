"""The daemon's listener at a port: who proves that they know its token may speak, and who says nothing keeps nobody out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from infinite_memory import proofs
from infinite_memory.daemon import ipc
from infinite_memory.daemon.peer_auth import BUFFER_BYTES, MAX_SILENT, Admission, quieten_accept_errors

Json = dict[str, Any]


@asynccontextmanager
async def listening(home: Path) -> AsyncIterator[Json]:
    """Listen as a daemon over TCP does, and answer each greeting with what was read."""
    sock, address = ipc.listen(home, "tcp")
    record = {"pid": 1, "version": "1"} | address
    ipc.write_record(home, record)
    admission = Admission(record)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting = await admission.read_greeting(reader, writer)
        if greeting is not None:
            writer.write(json.dumps(greeting).encode() + b"\n")
        writer.close()

    server = await asyncio.start_server(connected, sock=sock, limit=BUFFER_BYTES)
    with ipc.locked(ipc.lock_path(home), wait=False):
        yield record
        server.close()
        await asyncio.sleep(0.05)  # what the server closed is closed by then


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a connection to its end; an open one would be noticed in some later test."""
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def greet(home: Path, greeting: Json) -> Json | None:
    """Connect as a client does and say one line."""
    link = ipc.connect(home, 5.0)
    if link is None:
        return None
    with link:
        link.sendall(json.dumps(greeting).encode() + b"\n")
        reply: Json = json.loads(ipc.read_line(link))
        return reply


async def test_a_client_and_the_daemon_prove_that_they_know_the_token_and_neither_shows_it(tmp_path: Path) -> None:
    async with listening(tmp_path) as record:
        long = {"kind": "x" * 500_000}  # longer than what is read ahead of a stranger
        for said in ({"kind": "status"}, long):
            assert await asyncio.to_thread(greet, tmp_path, said) == said
        ipc.write_record(tmp_path, record | {"token": "another"})
        assert await asyncio.to_thread(greet, tmp_path, {"kind": "status"}) is None


async def test_a_client_of_0_1_0_that_shows_the_token_is_still_read(tmp_path: Path) -> None:
    async with listening(tmp_path) as record:
        reader, writer = await asyncio.open_connection("127.0.0.1", record["port"])
        writer.write(record["token"].encode() + b'\n{"kind": "stop"}\n')
        assert json.loads(await reader.readline()) == {"kind": "stop"}
        await hang_up(writer)


@pytest.mark.parametrize("answer", ["", "0" * 64, "the daemon's own proof"])
async def test_a_client_that_cannot_prove_anything_is_not_read(tmp_path: Path, answer: str) -> None:
    async with listening(tmp_path) as record:
        reader, writer = await asyncio.open_connection("127.0.0.1", record["port"])
        writer.write(json.dumps({"challenge": 1, "nonce": proofs.make_nonce()}).encode() + b"\n")
        said = json.loads(await reader.readline())
        assert set(said) == {"nonce", "proof"}
        told = said["proof"] if answer.startswith("the") else answer
        writer.write(told.encode() + b'\n{"kind": "status"}\n')
        assert await reader.read() == b""
        await hang_up(writer)


def test_a_daemon_of_an_older_version_over_tcp_is_named_and_told_nothing(tmp_path: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as old,
        ipc.locked(ipc.lock_path(tmp_path), wait=False),
    ):
        old.settimeout(0.2)
        record = {"pid": 77, "version": "0.1.0", "port": old.getsockname()[1], "token": "secret"}
        ipc.write_record(tmp_path, record)
        with pytest.raises(ipc.DaemonError, match=r"version 0\.1\.0 .* \(process 77\)"):
            ipc.connect(tmp_path, 1.0)
        with pytest.raises(TimeoutError):
            old.accept()


async def test_the_newest_connections_are_read_however_many_say_nothing(tmp_path: Path) -> None:
    async with listening(tmp_path) as record:
        silent = [await asyncio.open_connection("127.0.0.1", record["port"]) for _ in range(2 * MAX_SILENT["tcp"])]
        assert await asyncio.to_thread(greet, tmp_path, {"kind": "status"}) == {"kind": "status"}
        with pytest.raises(ConnectionError):
            if not await silent[0][0].read(1):
                raise ConnectionResetError
        for _, writer in silent:
            await hang_up(writer)


async def test_that_nothing_can_be_accepted_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        loop = asyncio.get_running_loop()
        quieten_accept_errors(loop)
        for _ in range(1000):
            exc = OSError(24, "Too many open files")
            loop.call_exception_handler({"message": "socket.accept() out of system resource", "exception": exc})
    assert [record.getMessage() for record in caplog.records if "accept" in record.getMessage()] == [
        "no connection can be accepted: Too many open files"
    ]


def test_a_record_that_a_crash_left_is_removed_by_whoever_holds_the_lock(tmp_path: Path) -> None:
    ipc.write_record(tmp_path, {"pid": 1, "port": 5, "token": "x"})
    ipc.remove_stale_record(tmp_path)
    assert ipc.read_record(tmp_path) is None
    ipc.remove_stale_record(tmp_path)
