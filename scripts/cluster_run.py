"""Starts and removes a cluster on this machine: a replica set of three, a Milvus, three daemons with HTTP. For trying things out.

Everything has its data in one folder, whose ``cluster.json`` names the processes; all listens on loopback but Milvus' standalone server.
Nothing here asks for a password: whoever has an account on this machine can read it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from infinite_memory.mongod.binary import find_binary

ROOT = Path(__file__).resolve().parents[1]
DAEMONS = MEMBERS = 3
PATIENCE_S = 180.0  # a machine that does other things too takes a minute for what takes some seconds
STOP_S = 60.0  # a daemon answers, writes and saves its index before it goes
SET = "cluster"


class Cluster:
    """The processes of one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._file = folder, folder / "cluster.json"
        self._servers: list[int] = []
        self._daemons: list[int] = []

    # up

    def up(self, *, standalone: bool) -> None:
        """Start everything, and print where it is.

        Raises:
            SystemExit: there is one in this folder already, or a part did not start.
        """
        if self._folder.exists():
            raise SystemExit(f"{self._folder} is there already: scripts/cluster down --folder {self._folder}")
        self._folder.mkdir(parents=True, mode=0o700)
        try:
            database = self._start_database()
            index = self._start_milvus(standalone=standalone)
            for number, port in enumerate(_free_ports(DAEMONS), 1):
                home = self._folder / f"daemon-{number}"
                self._start_daemon(
                    home, {"mongodb": {"uri": database}, "index": {"engine": "milvus", "uri": index}}, port
                )
                print(f"daemon {number}: http://127.0.0.1:{port}, token in {home / 'http.token'}", flush=True)
        except BaseException:
            self.down()
            raise
        print(f"MongoDB: {database}\nMilvus: {index}")
        print(f"INFINITE_MEMORY_HOME={self._folder / 'daemon-1'} .venv/bin/infinite-memory cluster status")

    def _start_database(self) -> str:
        ports = _free_ports(MEMBERS)
        for port in ports:
            data = self._folder / f"mongodb-{port}"
            data.mkdir()
            self._start(
                data / "output", find_binary(), "--replSet", SET, "--port", port, "--bind_ip", "127.0.0.1", "--dbpath", data,
                "--nounixsocket", "--oplogSize", 64, "--wiredTigerCacheSizeGB", 0.25, "--quiet",
                "--setParameter", "oplogNetworkTimeoutBufferSeconds=1",
            )  # fmt: skip
        for port in ports:
            _until(lambda port=port: _ask(port, {"ping": 1}), f"MongoDB answers at port {port}")  # type: ignore[misc]
        members = [{"_id": number, "host": f"127.0.0.1:{port}"} for number, port in enumerate(ports)]
        settings = {"electionTimeoutMillis": 2000}
        begin = {"replSetInitiate": {"_id": SET, "members": members, "settings": settings}}
        _until(lambda: _ask(ports[0], begin), "the replica set begins")
        _until(lambda: any(_ask(port, {"hello": 1}).get("isWritablePrimary") for port in ports), "a primary is elected")
        return f"mongodb://{','.join(str(member['host']) for member in members)}/?replicaSet={SET}"

    def _start_milvus(self, *, standalone: bool) -> str:
        [port] = _free_ports(1)
        output, data = self._folder / "milvus.output", self._folder / "milvus"
        if standalone:
            server = Path(sys.executable).with_name("milvus-server")
            self._start(output, server, "--data", data, "--proxy-port", port)
        else:
            self._start(output, sys.executable, "-m", "milvus_lite", "server", "--data-dir", data, "--port", port)
        _until(lambda: _takes_connections(port), "Milvus takes connections")
        return f"http://127.0.0.1:{port}"

    def _start_daemon(self, home: Path, settings: Mapping[str, Mapping[str, object]], port: int) -> None:
        home.mkdir(mode=0o700)
        tables = settings | {"http": {"port": port}, "daemon": {"idle_exit_s": 0}}
        lines = [
            line
            for table, entries in tables.items()
            for line in (f"[{table}]", *(f"{name} = {json.dumps(value)}" for name, value in entries.items()))
        ]
        (home / "config.toml").write_text("\n".join(lines) + "\n", "utf-8")
        self._start(home / "output", sys.executable, "-m", "infinite_memory", "daemon", "run", home=home)
        _until(lambda: _takes_connections(port), f"the daemon of {home.name} takes connections")

    def _start(self, output: Path, *command: object, home: Path | None = None) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("INFINITE_MEMORY_")}
        if home is not None:
            environ["INFINITE_MEMORY_HOME"] = str(home)
        with output.open("ab") as file:
            process = subprocess.Popen(
                list(map(str, command)), stdin=subprocess.DEVNULL, stdout=file, stderr=file, cwd=ROOT, env=environ,
                start_new_session=True,
            )  # fmt: skip
        (self._servers if home is None else self._daemons).append(process.pid)
        self._file.write_text(json.dumps({"servers": self._servers, "daemons": self._daemons}), "utf-8")

    # down

    def down(self) -> None:
        """Let the daemons finish, kill the servers, whose data goes with them, and remove the folder.

        Raises:
            SystemExit: there is no cluster in this folder.
        """
        if not self._file.is_file():
            raise SystemExit(f"{self._folder} holds no cluster")
        known = json.loads(self._file.read_text("utf-8"))
        daemons, servers = ([pid for pid in known[kind] if self._is_ours(pid)] for kind in ("daemons", "servers"))
        _signal(daemons, signal.SIGTERM)
        _waited(lambda: not any(map(_is_alive, daemons)), STOP_S)
        _signal([*daemons, *servers], signal.SIGKILL)
        _waited(lambda: not any(map(_is_alive, servers)), STOP_S)
        shutil.rmtree(self._folder)
        print(f"{self._folder} is removed")

    def _is_ours(self, pid: int) -> bool:
        """True for a process that names our folder: ids come again."""
        with contextlib.suppress(OSError):
            told = Path(f"/proc/{pid}/environ").read_bytes() + Path(f"/proc/{pid}/cmdline").read_bytes()
            return os.fsencode(self._folder) in told
        return False


def _signal(pids: list[int], number: int) -> None:
    """Send a signal to processes and what they started."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, number)


def _until(is_true: Callable[[], Any], what: str) -> None:
    if not _waited(is_true, PATIENCE_S):
        raise SystemExit(f"after {PATIENCE_S:g} s it is not so that {what}; see the files named output")


def _waited(is_true: Callable[[], Any], wait_s: float) -> bool:
    end = time.monotonic() + wait_s
    while not is_true():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def _ask(port: int, command: dict[str, Any]) -> dict[str, Any]:
    client: MongoClient[dict[str, Any]] = MongoClient(
        "127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=500
    )
    with client, contextlib.suppress(PyMongoError):
        return client.admin.command(command)
    return {}


def _takes_connections(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


def main() -> None:
    """Start or remove a cluster."""
    parser = argparse.ArgumentParser(description="A cluster on this machine, to try things out (Linux).")
    parser.add_argument("what", choices=("up", "down"))
    parser.add_argument("--folder", type=Path, default=ROOT / ".cluster", help="where everything has its data")
    parser.add_argument(
        "--standalone", action="store_true", help="take Milvus' server, which listens on all interfaces"
    )
    arguments = parser.parse_args()
    cluster = Cluster(arguments.folder.absolute())
    if arguments.what == "up":
        cluster.up(standalone=arguments.standalone)
    else:
        cluster.down()


if __name__ == "__main__":
    main()
