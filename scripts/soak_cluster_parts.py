"""The parts of a cluster that a soak runs over, and what is done to them: a replica set of three, a Milvus, three daemons.

Every server is reached by a way of its own that can be cut, or lose all that is sent. Faults are done from one thread, the one that
started the servers: a member of the set ends with the thread that started it.
"""

from __future__ import annotations

import contextlib
import json
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from scripts.soak_faults import send_signal
from tests.end_to_end.replica_set import ReplicaSet
from tests.milvus_server import LiteServer, MilvusServer
from tests.processes import Installation
from tests.tcp_gate import TcpGate

DAEMONS = 3
LEVEL_S = 60.0  # after a fault every index has what was stored by then
LOOK_EVERY_S = 0.5
SHORT_S, LONG_S = 1.0, 15.0  # a fault lasts so long at least, and at most


class Parts:
    """Everything that runs; leaving the ``with`` block of `running` ends it."""

    def __init__(self, folder: Path, *, standalone: bool) -> None:
        self.members = ReplicaSet(folder / "members", gated=True)
        server = MilvusServer if standalone else LiteServer
        self.milvus: MilvusServer | LiteServer = server(folder / "milvus")
        self.ways = [TcpGate(self.milvus.port) for _ in range(DAEMONS)]
        for way in self.ways:
            way.open()
        self.homes = [
            Installation(folder / f"home-{number}", self._environ(way)) for number, way in enumerate(self.ways)
        ]

    def _environ(self, way: TcpGate) -> dict[str, str]:
        return {
            "INFINITE_MEMORY_MONGODB__URI": self.members.uri,
            "INFINITE_MEMORY_MONGODB__TIMEOUT_S": "5",
            "INFINITE_MEMORY_INDEX__ENGINE": "milvus",
            "INFINITE_MEMORY_INDEX__URI": f"http://127.0.0.1:{way.port}",
            "INFINITE_MEMORY_SIDECAR__SAVE_EVERY_S": "5",
        }

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Start the servers; daemons come with their clients."""
        with contextlib.ExitStack() as ends:
            for way in self.ways:
                ends.callback(way.close)
            ends.callback(self.milvus.kill)
            ends.callback(self.members.stop)
            self.members.start()
            self.milvus.start()
            for home in self.homes:
                home.home.mkdir()
                ends.enter_context(home)
            yield

    def level_after(self) -> float | None:
        """Return how many seconds it takes until every daemon that lives says that its index is level; None if it is too many."""
        began = time.monotonic()
        while time.monotonic() - began < LEVEL_S:
            if self._is_level():
                return round(time.monotonic() - began, 1)
            time.sleep(LOOK_EVERY_S)
        return None

    def _is_level(self) -> bool:
        pids = {pid for home in self.homes if (pid := home.daemon_pid()) is not None}
        states = {one["pid"]: one["index_state"] for one in self.status().get("daemons", ())}
        return bool(pids) and all(states.get(pid) == "ready" for pid in pids)

    def status(self) -> dict[str, Any]:
        """Return what `cluster status` of a daemon that lives says; nothing where none answers."""
        for home in self.homes:
            if home.daemon_pid() is not None:
                with contextlib.suppress(ValueError):
                    told: dict[str, Any] = json.loads(home.command("cluster", "status", "--json").stdout)
                    return told
        return {}


class Faults:
    """What is done to parts, by name. Each ends with the part as it was before, or started again."""

    def __init__(self, parts: Parts, dice: random.Random) -> None:
        self._parts, self._dice = parts, dice
        self.harmed: Installation | None = None  # whose clients wait with it
        self.all: dict[str, Callable[[], None]] = {
            "kill-daemon": lambda: self._signal_daemon(signal.SIGKILL),
            "stop-daemon": lambda: self._signal_daemon(signal.SIGTERM),
            "freeze-daemon": self._freeze_daemon,
            "kill-primary": lambda: self._kill_member(self._primary()),
            "kill-secondary": lambda: self._kill_member(self._secondary()),
            "freeze-primary": self._freeze_primary,
            "silence-primary": lambda: self._silence(parts.members.gates[self._primary()]),
            "cut-primary": lambda: self._cut(parts.members.gates[self._primary()]),
            "kill-milvus": self._kill_milvus,
            "silence-milvus": lambda: self._silence(*parts.ways),
            "silence-milvus-for-one": lambda: self._silence(dice.choice(parts.ways)),
            "cut-milvus-for-one": lambda: self._cut(dice.choice(parts.ways)),
            "kill-primary-and-milvus": lambda: self._kill_member(self._primary(), self._kill_milvus),
        }
        if isinstance(parts.milvus, LiteServer):
            self.all["freeze-milvus"] = self._freeze_milvus
            self.all["fill-milvus"] = self._fill_milvus

    def do(self, name: str) -> None:
        """Do one, and wait until it is over."""
        self.harmed = None
        self.all[name]()

    def _wait(self) -> None:
        time.sleep(self._dice.uniform(SHORT_S, LONG_S))

    def _signal_daemon(self, number: int) -> None:
        self.harmed = self._dice.choice(self._parts.homes)
        send_signal(self.harmed.daemon_pid(), number)
        self._wait()

    def _freeze_daemon(self) -> None:
        self.harmed = self._dice.choice(self._parts.homes)
        pid = self.harmed.daemon_pid()
        send_signal(pid, signal.SIGSTOP)
        self._wait()
        send_signal(pid, signal.SIGCONT)

    def _primary(self) -> int:
        while (port := self._parts.members.primary()) is None:
            time.sleep(LOOK_EVERY_S)
        return port

    def _secondary(self) -> int:
        primary = self._primary()
        return self._dice.choice([port for port in self._parts.members.ports if port != primary])

    def _kill_member(self, port: int, meanwhile: Callable[[], None] | None = None) -> None:
        self._parts.members.kill(port)
        (meanwhile or self._wait)()
        self._parts.members.start_member(port)

    def _freeze_primary(self) -> None:
        with self._parts.members.frozen(self._primary()):
            self._wait()

    def _kill_milvus(self) -> None:
        self._parts.milvus.kill()
        self._wait()
        self._parts.milvus.start()

    def _freeze_milvus(self) -> None:
        assert isinstance(self._parts.milvus, LiteServer)
        self._parts.milvus.freeze()
        self._wait()
        self._parts.milvus.thaw()

    def _fill_milvus(self) -> None:
        assert isinstance(self._parts.milvus, LiteServer)
        self._parts.milvus.fill()
        self._wait()
        self._parts.milvus.make_room()

    def _silence(self, *ways: TcpGate) -> None:
        for way in ways:
            way.fall_silent()
        self._wait()
        for way in ways:
            way.speak()

    def _cut(self, way: TcpGate) -> None:
        way.cut()
        self._wait()
        way.open()
