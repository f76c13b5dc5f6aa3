"""Real Milvus servers for tests: the standalone server of the package ``milvus``, and the embedded form of ``milvus-lite`` in a process
of its own, which starts in two seconds and so can be killed and frozen in every run."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

START_S = 280.0
TOKEN = "root:Milvus"  # of a server that wants one
SETTINGS = {
    "proxy.timeTickInterval": 20,
    "common.session.ttl": 5,
    "queryCoord.checkInterval": 50,
    "queryCoord.distPullInterval": 50,
}
"""How often, in ms, the server lets reads see what was written before, and looks for collections to load: by default ten and
twenty times as seldom, which every test would wait for."""


IN_MEMORY_BYTES = 500_000
"""What the embedded form keeps before it writes a file, 128 MB by default: each query reads those rows one by one, in Python."""


class MilvusServer:
    """One server with its data in a folder."""

    def __init__(self, folder: Path, *, wants_token: bool = False) -> None:
        self._folder, self._wants_token = folder, wants_token
        self.port, self._etcd_port, self._peer_port = (_free_port() for _ in range(3))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """Where clients reach it."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and return when it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        program = Path(sys.executable).with_name("milvus-server")
        environ = os.environ | {"ETCD_CONFIG_PATH": str(self._write_etcd_config())}
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [
                    program, "--data", self._folder / "data", "--proxy-port", str(self.port),
                    *(("--authorization-enabled", "true") if self._wants_token else ()),
                    "--etcd-port", str(self._etcd_port),
                    *(part for name, value in SETTINGS.items() for part in ("--extra-config", f"{name}={value}")),
                ],
                stdout=output, stderr=output, start_new_session=True, env=environ,
            )  # fmt: skip
        try:
            self._wait(self._process)
        except BaseException:
            self.kill()
            raise

    def _write_etcd_config(self) -> Path:
        """Give its etcd a port of its own for peers, which is 2380 otherwise, whoever has that."""
        client, peer = (f"http://127.0.0.1:{port}" for port in (self._etcd_port, self._peer_port))
        file = self._folder / "etcd.yaml"
        file.write_text(
            f"listen-client-urls: {client}\nadvertise-client-urls: {client}\nlisten-peer-urls: {peer}\n"
            f"initial-advertise-peer-urls: {peer}\ninitial-cluster: default={peer}\n"
        )
        return file

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + START_S
        while not self._answers():
            assert process.poll() is None, (self._folder / "output").read_text("utf-8", "replace")
            assert time.monotonic() < deadline, "Milvus did not start"
            time.sleep(0.5)

    def _answers(self) -> bool:
        from grpc import RpcError
        from pymilvus import MilvusClient
        from pymilvus.exceptions import MilvusException

        try:
            client = MilvusClient(uri=self.uri, timeout=5, token=TOKEN if self._wants_token else "")
            client.list_collections(timeout=5)
            client.close()
        except (MilvusException, RpcError):  # the library lets some of the latter through
            return False
        return True

    def stop(self) -> None:
        """Stop it in order."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it as a power failure would."""
        self._end(signal.SIGKILL)

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number) if number == signal.SIGINT else os.killpg(process.pid, number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # nothing of it is left running


class LiteServer:
    """Milvus' embedded form behind a port, with its data in a folder. It asks for no token."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.port = folder, _free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def uri(self) -> str:
        """Where clients reach it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def data(self) -> Path:
        """The folder of its data."""
        return self._folder / "data"

    def start(self) -> None:
        """Start it, and return when it takes connections."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [
                    sys.executable, "-m", "milvus_lite", "server", "--data-dir", self.data,
                    "--port", str(self.port),
                ],
                stdout=output, stderr=output, env=os.environ | {"MILVUS_LITE_MEMTABLE_MEMORY_LIMIT_BYTES": str(IN_MEMORY_BYTES)},
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while not _takes_connections(self.port):
            assert self._process.poll() is None, (self._folder / "output").read_text("utf-8", "replace")
            assert time.monotonic() < deadline, "Milvus did not start"
            time.sleep(0.05)

    def freeze(self) -> None:
        """Let it take connections and answer nothing, as a machine does that is out of memory."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def fill(self) -> None:
        """Let it write no files any more, as on a full disk."""
        self._limit_files(0)

    def make_room(self) -> None:
        """Let it write files again."""
        self._limit_files(resource.RLIM_INFINITY)

    def _limit_files(self, size: int) -> None:
        assert self._process is not None
        _, hard = resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (size, hard))

    def kill(self) -> None:
        """End it as a power failure would; nothing happens where it does not run."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()


def _takes_connections(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
