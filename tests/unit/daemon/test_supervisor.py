"""What systemd is told: datagrams to a real socket, and nothing where it runs nothing."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Iterator

import pytest

from infinite_memory.daemon.sd_notify import Supervisor


@pytest.fixture
def systemd() -> Iterator[socket.socket]:
    """A socket as systemd listens at one."""
    with (
        tempfile.TemporaryDirectory(prefix="im-") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel,
    ):
        channel.bind(f"{folder}/notify")
        channel.settimeout(30)
        yield channel


async def test_the_watchdog_is_content_while_the_loop_turns(systemd: socket.socket) -> None:
    environ = {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "3000", "WATCHDOG_PID": str(os.getpid())}

    async with Supervisor(environ) as supervisor:
        supervisor.report_ready()
        for _ in range(3):
            assert await asyncio.to_thread(systemd.recv, 64) in (b"READY=1", b"WATCHDOG=1")
    assert environ == {}, "what it starts must not speak for it"


def test_an_abstract_address_is_taken() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.bind(f"\0infinite-memory-test-{os.getpid()}")
        Supervisor({"NOTIFY_SOCKET": f"@infinite-memory-test-{os.getpid()}"}).report_stopping()
        assert channel.recv(64) == b"STOPPING=1"


@pytest.mark.parametrize("named", [{}, {"WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "often"}])
async def test_nothing_is_sent_that_nobody_asked_for(systemd: socket.socket, named: dict[str, str]) -> None:
    is_asked = {"WATCHDOG_USEC": "3000"} | named if named else {}
    environ = {"NOTIFY_SOCKET": systemd.getsockname()} | is_asked

    async with Supervisor(environ) as supervisor:
        await asyncio.sleep(0.02)
        supervisor.report_stopping()
    assert systemd.recv(64) == b"STOPPING=1"


def test_a_socket_that_is_not_there_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    Supervisor({"NOTIFY_SOCKET": "/nowhere/notify"}).report_ready()
    assert "systemd was not told READY=1" in caplog.text
    caplog.clear()
    Supervisor({}).report_ready()
    assert caplog.text == ""
