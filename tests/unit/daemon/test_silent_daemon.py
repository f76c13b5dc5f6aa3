"""A daemon that hears and does not answer: who asks is told which process it is, and what to do."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path

import pytest

from infinite_memory import __version__
from infinite_memory.daemon import ipc
from infinite_memory.daemon.handshake import greet
from infinite_memory.errors import DaemonError


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        pytest.param("status", r"process 12345\) does not answer.*kill -9 12345", id="a command of every version"),
        pytest.param("cluster", f"is version 0.1.0, this program is version {__version__}", id="one it may not know"),
    ],
)
def test_a_daemon_that_does_not_answer_is_named(tmp_path: Path, kind: str, message: str) -> None:
    """By its process, or by its version where it may not know the command; then it is not said to hang."""
    tmp_path.chmod(0o700)
    listening, address = ipc.listen(tmp_path, "unix")
    ipc.write_record(tmp_path, {"pid": 12345, "version": "0.1.0"} | address)

    def hang_up() -> None:
        link: socket.socket = listening.accept()[0]
        link.close()

    thread = threading.Thread(target=hang_up)
    thread.start()
    with listening, pytest.raises(DaemonError, match=message):
        greet(tmp_path, {"kind": kind}, start=False)
    thread.join()


def test_a_service_of_another_version_that_stays_is_asked_after_it_said_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    listening, address = ipc.listen(tmp_path, "unix")
    ipc.write_record(tmp_path, {"pid": 12345, "version": "0.1.9"} | address)
    heard = []

    def answer() -> None:
        for reply in ({"ok": True, "version": "0.1.9", "notes": ["it stays"]}, {"ok": True}):
            link: socket.socket = listening.accept()[0]
            with link:
                heard.append(json.loads(ipc.read_line(link))["kind"])
                link.sendall(json.dumps(reply).encode() + b"\n")

    thread = threading.Thread(target=answer)
    thread.start()
    with listening:
        link, told = greet(tmp_path, {"kind": "tokens"})
        link.close()
        thread.join()
    assert heard == ["session", "tokens"]
    assert told["notes"] == ["it stays"]
