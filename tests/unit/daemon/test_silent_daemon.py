"""A daemon that hears and does not answer: who asks is told which process it is, and what to do."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

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
