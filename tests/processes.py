"""Real processes: homes with their daemons, `serve` clients with their pipes, and what the system tells about any process.

A test makes an `Installation` over a temporary folder, opens `Client`s, and need not tidy up: leaving the installation's
``with`` block ends everything that still runs in its home.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from infinite_memory.embedding.manifest import DEFAULT_MODEL, SECOND_MODEL, get_folder, is_exported
from infinite_memory.errors import StoreUnavailableError
from infinite_memory.mongod.binary import find_binary

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1]
LONG = bool(os.environ.get("INFINITE_MEMORY_TEST_LONG"))
PATIENCE_S = 60.0  # no test waits longer for anything; nothing is expected to take a tenth of it
TOLERATED_MS = 150  # of processor time in one turn of the loop; see `mongo_server.TOLERATED_S`
TOLERATED_AT_START_MS = (
    500  # the daemon's first minute, where it logs at INFO: imports and loading share turns with what is asked
)
_HELD = re.compile(
    r" (INFO|WARNING) .*was held for (\d+) ms of processor time .* during (?!no command).*event=loop_held"
)
_KEPT = ("PATH", "LD_LIBRARY_PATH", "LANG", "VIRTUAL_ENV", "TMPDIR", "SYSTEMROOT")


def need_parts() -> None:
    """Skip on a desk, and fail in CI, where there is no mongod or no model."""
    missing = ""
    try:
        find_binary()
    except StoreUnavailableError as exc:
        missing = str(exc)
    if not is_exported(get_folder(DEFAULT_MODEL)):
        missing = "the exported model is missing; scripts/test makes it ready"
    if missing and os.environ.get("CI"):
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)


def need_second_model() -> None:
    """Skip on a desk, and fail in CI, where the second model is missing."""
    need_parts()
    if not is_exported(get_folder(SECOND_MODEL)):
        missing = "the second model is missing; scripts/test makes it ready"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)


class Installation:
    """One home, and the command that serves it.

    At the end its daemon is stopped in order; where *is_stopped* is false, for nobody looks at the home again, it is killed, which spares a
    second.
    """

    def __init__(self, home: Path, environ: Mapping[str, str] | None = None, *, is_stopped: bool = True) -> None:
        self.home = home
        self.is_stopped = is_stopped
        self.environ = (
            {name: os.environ[name] for name in _KEPT if name in os.environ}
            | {
                "HOME": str(home.parent),
                "TZ": "UTC",
                "HF_HUB_OFFLINE": "1",
                "PYTHONPATH": str(ROOT),
                "INFINITE_MEMORY_HOME": str(home),
                "INFINITE_MEMORY_MONGODB__TIMEOUT_S": "20",  # a busy machine may keep MongoDB waiting for its disk for seconds
                **(environ or {}),
            }
        )
        self.clients: list[Client] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, at: TracebackType | None
    ) -> None:
        for client in self.clients:
            client.kill()
        if self.is_stopped and self.daemon_pid() is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.command("daemon", "stop")
        self.kill_everything()
        if kind is None:
            self.check_loop()

    def check_loop(self) -> None:
        """Fail where a command held up the daemon's event loop, as its log says."""
        held = []
        for file in sorted((self.home / "logs").glob("infinite-memory.log*")):
            for line in file.read_text("utf-8", "replace").splitlines():
                found = _HELD.search(line)
                if found and int(found[2]) > (TOLERATED_AT_START_MS if found[1] == "INFO" else TOLERATED_MS):
                    held.append(line)
        assert not held, "\n".join(held)

    def command(
        self, *arguments: str, timeout_s: float = PATIENCE_S, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run one `infinite-memory` command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "infinite_memory", *arguments],
            env=self.environ, cwd=self.home.parent, capture_output=True, text=True, encoding="utf-8",
            timeout=timeout_s, check=False, **options,
        )  # fmt: skip

    def serve(self, *arguments: str, environ: Mapping[str, str] | None = None) -> Client:
        """Start one `serve`."""
        client = Client(self, arguments, self.environ | dict(environ or {}))
        self.clients.append(client)
        return client

    def call(self, action: str, **fields: Any) -> Json:
        """Send one request by `infinite-memory call`."""
        done = self.command("call", action, json.dumps(fields))
        assert done.stdout, done.stderr
        reply: Json = json.loads(done.stdout)
        return reply

    def status(self) -> Json:
        """Ask what `daemon status --json` tells."""
        told: Json = json.loads(self.command("daemon", "status", "--json").stdout)
        return told

    def daemon_pid(self) -> int | None:
        """Give the daemon's process id while it lives and listens."""
        try:
            pid = int(json.loads((self.home / "daemon.json").read_text())["pid"])
        except (OSError, ValueError, KeyError):
            return None
        return pid if is_alive(pid) else None

    def mongod_pid(self) -> int | None:
        """Give the process id of the home's mongod while it lives."""
        try:
            pid = int((self.home / "mongodb" / "mongod.lock").read_text())
        except (OSError, ValueError):
            return None
        return pid if is_alive(pid) else None

    def processes(self) -> list[int]:
        """List the processes of this home but for its clients: daemon, mongod, and what was left behind."""
        known = {client.process.pid for client in self.clients}
        return [pid for pid in processes_of(self.home) if pid not in known]

    def kill_everything(self) -> None:
        """Kill every process of this home but for its clients, as a power cut would."""
        pids = self.processes()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        until(lambda: not any(map(is_alive, pids)), "the killed processes are gone")


class Client:
    """One `serve` process. A thread takes up what it writes, line by line, unless it is told to hold."""

    def __init__(self, installation: Installation, arguments: tuple[str, ...], environ: Mapping[str, str]) -> None:
        self._errors = installation.home.parent / f"{installation.home.name}-client-{next(_numbers)}.err"
        with self._errors.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "infinite_memory", "serve", *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=dict(environ),
                cwd=installation.home.parent,
            )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reads = threading.Event()
        self._reads.set()
        self._thread = threading.Thread(target=self._take_lines, daemon=True)
        self._thread.start()

    def ask(self, action: str, **fields: Any) -> Json:
        """Send one request and give its reply."""
        self.send({"action": action, **fields})
        return self.reply()

    def rpc(self, number: int, method: str, **params: Any) -> Json:
        """Send one JSON-RPC request and give its reply."""
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return self.answer()

    def tool(self, number: int, name: str, **arguments: Any) -> Json:
        """Call one MCP tool and give the reply."""
        return self.rpc(number, "tools/call", name=name, arguments=arguments)

    def initialize(self) -> Json:
        """Go through MCP's handshake."""
        about = {"name": "test", "version": "1"}
        reply = self.rpc(0, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=about)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return reply

    def send(self, *requests: Json) -> None:
        """Send requests without waiting for replies."""
        self.send_bytes(b"".join(json.dumps(request, ensure_ascii=False).encode() + b"\n" for request in requests))

    def send_bytes(self, data: bytes) -> None:
        """Write to standard input as it is."""
        self.stdin.write(data)
        self.stdin.flush()

    def reply(self, timeout_s: float = PATIENCE_S) -> Json:
        """Give the next line that comes, as JSON."""
        line = self.line(timeout_s)
        assert line, f"the client ended with {self.process.poll()}: {self.errors()}"
        reply: Json = json.loads(line)
        return reply

    def answer(self) -> Json:
        """Give the next JSON-RPC reply; notifications before it are skipped."""
        while "method" in (reply := self.reply()):
            pass
        return reply

    def line(self, timeout_s: float = PATIENCE_S) -> bytes:
        """Give the next line that comes, b"" at the end."""
        try:
            line = self._lines.get(timeout=timeout_s)
        except queue.Empty:
            raise AssertionError(f"no reply came within {timeout_s:g} s; {self.errors()}") from None
        if not line:
            self._lines.put(b"")
        return line

    def rest(self) -> list[Json]:
        """Give every line that still comes until the process ends its output."""
        return [json.loads(line) for line in iter(self.line, b"")]

    def has_more(self) -> bool:
        """Tell whether a line has come that nobody took."""
        return not self._lines.empty()

    def hold(self) -> None:
        """Read no more of what the process writes (but for the line that is awaited now)."""
        self._reads.clear()

    def go_on(self) -> None:
        """Read again."""
        self._reads.set()

    def close(self, timeout_s: float = PATIENCE_S) -> int:
        """Close standard input and give the exit code."""
        self.stdin.close()
        return self.process.wait(timeout_s)

    def terminate(self, timeout_s: float = PATIENCE_S) -> int:
        """Send SIGTERM and give the exit code."""
        self.process.terminate()
        return self.process.wait(timeout_s)

    def errors(self) -> str:
        """Give what the process wrote to standard error."""
        return self._errors.read_text("utf-8", "replace")

    def kill(self) -> None:
        """End the process whatever it does, and close the pipes."""
        self._reads.set()
        self.process.kill()
        self.process.wait(PATIENCE_S)
        self._thread.join(PATIENCE_S)
        for pipe in (self.stdin, self.stdout):
            with contextlib.suppress(OSError):
                pipe.close()

    def _take_lines(self) -> None:
        with contextlib.suppress(ValueError, OSError):  # closed under our hands
            for line in self.stdout:
                self._lines.put(line)
                self._reads.wait()
        self._lines.put(b"")


_numbers = itertools.count(1)


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that ended, with all its threads, and was not yet collected does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state not in "ZX" or len(list(Path(f"/proc/{pid}/task").iterdir())) > 1
    except OSError:
        if Path("/proc/self/stat").exists():
            return False
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def processes_of(home: Path) -> list[int]:
    """List the processes whose environment or command line names *home* (Linux; elsewhere none)."""
    marks = (os.fsencode(home) + b"\0", os.fsencode(home) + b"/")
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            text = (entry / "environ").read_bytes() + b"\0" + (entry / "cmdline").read_bytes() + b"\0"
            if any(mark in text for mark in marks) and int(entry.name) != os.getpid() and is_alive(int(entry.name)):
                found.append(int(entry.name))
    return found


def rss_bytes(pid: int) -> int:
    """Give the resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def until(is_true: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Wait for something that tells nobody when it happens."""
    end = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < end, f"after {timeout_s:g} s it is still not so that {what}"
        time.sleep(0.02)


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Freeze a process for the length of a ``with`` block."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
