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


def test_a_daemon_that_does_not_answer_is_named_by_its_process(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    listening, address = ipc.listen(tmp_path, "unix")
    ipc.write_record(tmp_path, {"pid": 12345, "version": "0.1.0"} | address)

    def hang_up() -> None:
        link: socket.socket = listening.accept()[0]
        link.close()

    thread = threading.Thread(target=hang_up)
    thread.start()
    with listening, pytest.raises(DaemonError, match=r"process 12345\) does not answer.*kill -9 12345"):
        greet(tmp_path, {"kind": "status"}, start=False)
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


def test_a_daemon_of_another_version_that_does_not_know_a_command_is_not_said_to_hang(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    listening, address = ipc.listen(tmp_path, "unix")
    ipc.write_record(tmp_path, {"pid": 12345, "version": "0.1.0"} | address)

    def hang_up() -> None:
        link: socket.socket = listening.accept()[0]
        link.close()

    thread = threading.Thread(target=hang_up)
    thread.start()
    with listening, pytest.raises(DaemonError, match=f"is version 0.1.0, this program is version {__version__}"):
        greet(tmp_path, {"kind": "cluster"}, start=False)
    thread.join()
