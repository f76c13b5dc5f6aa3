"""A replica set of three on this machine's loopback, as people run it on three machines: members can be killed and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from infinite_memory.mongod.binary import find_binary
from tests.processes import until
from tests.tcp_gate import TcpGate

NAME = "three"
MEMBERS = 3
# Elections are to begin soon: what is tested is that there is one, not how long a real set would wait.
SETTINGS = {"electionTimeoutMillis": 1500, "heartbeatIntervalMillis": 300}
_WITH_PARENT = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"  # SIGKILL with its parent


class ReplicaSet:
    """Three members, each a process with a folder of its own.

    Args:
        gated: Whether members and clients reach each member by a way that can be cut.
    """

    def __init__(self, folder: Path, *, gated: bool = False) -> None:
        self._folder = folder
        self.ports = _free_ports(MEMBERS)
        self.gates = {port: TcpGate(port) for port in self.ports} if gated else {}
        for gate in self.gates.values():
            gate.open()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def uri(self) -> str:
        """Names all members."""
        return f"mongodb://{','.join(map(self._host, self.ports))}/?replicaSet={NAME}"

    def start(self) -> None:
        """Start all members and wait for a primary."""
        for port in self.ports:
            self.start_member(port)
        members = [{"_id": number, "host": self._host(port)} for number, port in enumerate(self.ports)]
        for port in self.ports:  # who begins asks all the others, and gives up when one does not answer yet
            until(lambda port=port: self._ask(port, {"ping": 1}), "every member answers")  # type: ignore[misc]
        begin = {"replSetInitiate": {"_id": NAME, "members": members, "settings": SETTINGS}}
        until(lambda: self._ask(self.ports[0], begin), "the set begins")
        until(self.primary, "a primary is elected")

    def start_member(self, port: int) -> None:
        """Start one member, or start it again where it left off."""
        data = self._folder / str(port)
        data.mkdir(exist_ok=True)
        command = [
            str(find_binary()), "--replSet", NAME, "--port", str(port), "--bind_ip", "127.0.0.1", "--dbpath", str(data),
            "--nounixsocket", "--oplogSize", "64", "--wiredTigerCacheSizeGB", "0.25", "--logpath", str(data / "log"),
            "--logappend", "--quiet", "--setParameter", "diagnosticDataCollectionEnabled=false",
            "--setParameter", "oplogNetworkTimeoutBufferSeconds=1",
        ]  # fmt: skip
        if sys.platform == "linux":
            command = [sys.executable, "-I", "-S", "-c", _WITH_PARENT, *command]
        self._processes[port] = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def primary(self, beside: int | None = None) -> int | None:
        """Give the port of the member that takes writes; *beside* one that is frozen, and believes to be it."""
        for port in self.ports:
            if port == beside:
                continue
            if self._processes[port].poll() is None and self._ask(port, {"hello": 1}).get("isWritablePrimary"):
                return port
        return None

    def kill(self, port: int) -> None:
        """Kill one member, as a power cut would."""
        self._processes[port].kill()
        self._processes[port].wait(30)

    @contextlib.contextmanager
    def frozen(self, port: int) -> Iterator[None]:
        """Freeze one member for the length of a ``with`` block."""
        pid = self._processes[port].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def stop(self) -> None:
        """End all members."""
        for port in self.ports:
            if port in self._processes:
                self.kill(port)
        for gate in self.gates.values():
            gate.close()

    def _host(self, port: int) -> str:
        return f"127.0.0.1:{self.gates[port].port if self.gates else port}"

    def _ask(self, port: int, command: dict[str, Any]) -> dict[str, Any]:
        client: MongoClient[dict[str, Any]] = MongoClient(
            "127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=500, socketTimeoutMS=5000
        )
        with client, contextlib.suppress(PyMongoError):
            return client.admin.command(command)
        return {}


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
