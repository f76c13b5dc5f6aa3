"""The sockets that are served over TCP send small packets at once; otherwise each answer waits for the other side's delay, 40 ms."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from infinite_memory.daemon import ipc
from infinite_memory.transports.http.listeners import listen_at_port


def listening(kind: str, home: Path) -> socket.socket:
    """Open what the daemon listens on."""
    return listen_at_port(0) if kind == "http" else ipc.listen(home, "tcp")[0]


@pytest.mark.parametrize("kind", ["http", "clients"])
async def test_an_accepted_connection_sends_small_packets_at_once(kind: str, tmp_path: Path) -> None:
    told: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def accepted(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told.set_result(writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    server = await asyncio.start_server(accepted, sock=listening(kind, tmp_path))
    _, writer = await asyncio.open_connection("127.0.0.1", server.sockets[0].getsockname()[1])
    assert await told
    writer.close()
    server.close()
