"""The managed MongoDB server: found, started once per home, restarted when it dies, stopped cleanly.

It is a replica set of one member, so that change streams, snapshot reads and transactions work, and listens only on a
Unix socket that only this user may open; there is no TCP port and hence no password to keep. Uses the standard library
only: it starts while the driver is still being imported.

Why the member is called ``./mongod.sock``: a replica set stores the addresses of its members, and a server that is not at
its stored address refuses to work. mongod runs in the folder of its socket and gets the path relative to it, so a home may be
moved, and a path too long for a socket (108 bytes) does not matter.

Who may start it: the process that holds the lock on ``owner.lock``. Others of the same home use the running server and take
over when its owner exits. mongod itself locks ``mongod.lock`` in its data folder, which shows without a race whether one is
running; one that outlived its owner is stopped before a new one is started, so there are never two.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

from infinite_memory.errors import StoreUnavailableError, format_count
from infinite_memory.mongod import wire
from infinite_memory.mongod.binary import find_binary
from infinite_memory.mongod.first_start import FirstStart
from infinite_memory.mongod.log import MongodLog, has_space
from infinite_memory.mongod.process import end_process, environment, running_pid, take_lock, with_parent
from infinite_memory.mongod.restart_pauses import RestartPauses
from infinite_memory.paths import make_socket_folder, place_of_socket, remove_socket_folder
from infinite_memory.platform_files import check_regular

log = logging.getLogger(__name__)

SOCKET_NAME = "mongod.sock"
REPLICA_SET = "infinite-memory"
MEMBER = f"./{SOCKET_NAME}"
_OWNER_LOCK = "owner.lock"

_START_TIMEOUT_S = 60.0
"""Recovery of a large data set after kill -9 may take long; a start that fails exits much sooner by itself."""

_POLL_S = 0.02  # while it starts
_WATCH_S = 0.1  # while it runs
_JOURNAL_FILE_MB = 16
"""WiredTiger preallocates up to three journal files, of 100 MB by default: a lot for a home with a few notes."""

_ANY_CLOCK = "maxAcceptableLogicalClockDriftSecs=4294967295"
"""A server refuses all requests while the time of its last write is more than a year ahead of its clock, which lasts until the clock
catches up, even if it was ahead only for a moment. With this it continues from the time of the last write."""

_MAX_RESTARTS = 5
"""A server that dies more often than this in a row is not restarted until the next request."""

_PATIENCE_S = 2.5
"""How long a request waits for a server in backoff; if that takes longer, the error says why it died and when it is restarted."""


class LocalMongo:
    """The MongoDB server of one home.

    `start` must be called from a thread that lives as long as the process: Linux terminates mongod with the thread that started it.

    Args:
        home: The home folder; data goes to ``<home>/mongodb``.
        binary: The mongod to run; None searches for one.
        cache_mb: Size of WiredTiger's cache; mongod's minimum is 256.
        oplog_mb: Size of the operation log, for a new home only. mongod accepts any size at the first start (its minimum of 990
            is for resizing); it limits how far back a change stream can resume.
        log_dir: Where mongod's log goes.
        find_obstacle: Returns why a server must not be started here, or None.
    """

    def __init__(
        self, home: Path, *, log_dir: Path, binary: Path | None = None, cache_mb: int = 256, oplog_mb: int = 256,
        find_obstacle: Callable[[], str | None] = lambda: None,
    ) -> None:  # fmt: skip
        self._home = home.absolute()
        self._data = self._home / "mongodb"
        self._log = MongodLog(log_dir.absolute())
        self._binary = binary
        self._cache_mb = cache_mb
        self._oplog_mb = oplog_mb
        self._find_obstacle = find_obstacle
        self._process: subprocess.Popen[bytes] | None = None
        self._owner_fd: int | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._starting = asyncio.Lock()
        self._pauses = RestartPauses()
        self._died_without_space = False
        self._is_ready = False
        self._is_stopping = False
        self._socket_file = self._data / SOCKET_NAME
        self._first_start = FirstStart(self._data, own_names=(_OWNER_LOCK, SOCKET_NAME))

    @property
    def pid(self) -> int | None:
        """The process id of the running server, ours or another owner's, or None."""
        if self._process is not None:
            return self._process.pid if self._process.poll() is None else None
        return running_pid(self._data)

    def own_pid(self) -> int | None:
        """Return the process id of the server that this process started last, dead or alive, or None."""
        return self._process.pid if self._process is not None else None

    @property
    def uri(self) -> str:
        """The URI of the server."""
        return f"mongodb://{quote(str(self._socket_file), safe='')}/?directConnection=true"

    async def start(self) -> str:
        """Start the server, or join the one that another process of this home runs; returns its URI once it accepts writes.

        Raises:
            StoreUnavailableError: it cannot be started; says why, if mongod did.
        """
        if sys.platform == "win32":
            raise StoreUnavailableError("MongoDB is not started for you on Windows: start one and set mongodb.uri")
        async with self._starting:
            try:
                await self._start_or_join()
            except OSError as exc:  # disk full, permission denied, no place for the socket
                message = exc.strerror or str(exc)
                if exc.filename is not None and str(exc.filename) not in message:
                    message = f"{exc.filename}: {message}"
                raise StoreUnavailableError(f"the MongoDB of {self._home} cannot be started: {message}") from exc
        return self.uri

    async def ensure(self) -> str:
        """Make sure that the server runs, restarting it if it died; returns its URI.

        Raises:
            StoreUnavailableError: as in `start`.
        """
        return await self.start()

    async def stop(self) -> None:
        """Stop the server if it is ours: terminated, then killed after 20 s. Idempotent."""
        self._is_stopping = True  # aborts a running start
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
                    self._remove_socket()
            self._pauses = RestartPauses()  # a stop is not a death
        finally:
            self._is_stopping = False

    def _remove_socket(self) -> None:
        if self._socket_file.parent != self._data:
            self._socket_file.unlink(missing_ok=True)
            remove_socket_folder(self._socket_file.parent)

    async def _end_own(self) -> None:
        process = self._process
        if process is not None:
            await end_process(process.pid, lambda: process.poll() is not None)
            if self._process is process:
                self._process = None

    # starting

    async def _start_or_join(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT_S
        if not self._has_exited():
            if not self._is_ready:  # the caller of an earlier start gave up while it continued
                await self._await_ready(deadline)
            return
        if not self._home.exists():
            _make_private(self._home)
        _make_private(self._data)
        folder = place_of_socket(self._data, SOCKET_NAME)
        if folder != self._data:
            make_socket_folder(folder)
        self._socket_file = folder / SOCKET_NAME
        while not self._own():
            if await self._is_writable() and not self._first_start.is_under_way():
                return
            if self._is_stopping or time.monotonic() > deadline:
                raise StoreUnavailableError(
                    f"another process owns the MongoDB of {self._home}, but it does not answer; see {self._log.file}"
                )
            await asyncio.sleep(_POLL_S)
        await self._stop_orphan()
        await self._rest()
        if self._is_stopping:
            raise StoreUnavailableError("MongoDB is being stopped")
        if (obstacle := self._find_obstacle()) is not None:
            raise StoreUnavailableError(f"MongoDB is not started: {obstacle}")
        self._first_start.begin()
        self._run()
        if self._supervisor is None or self._supervisor.done():
            self._supervisor = asyncio.create_task(self._supervise(), name="mongod-supervisor")
        try:
            await self._await_ready(deadline)
        except StoreUnavailableError:
            if self._is_stopping or not self._has_exited() or not self._first_start.put_aside():
                raise
            self._run()
            await self._await_ready(deadline)

    def _run(self) -> None:
        self._is_ready = False
        self._process = self._spawn()
        self._pauses.on_start()

    async def _rest(self) -> None:
        """Wait until a server that keeps dying may be started again.

        Raises:
            StoreUnavailableError: that takes longer than a request waits.
        """
        self._on_exit()
        if self._died_without_space and has_space(self._data):
            self._pauses = RestartPauses()  # space was freed
        if self._pauses.remaining_s > _PATIENCE_S:
            raise StoreUnavailableError(
                f"MongoDB died {format_count(self._pauses.short_runs, 'time')} in a row and is started again in "
                f"{self._pauses.remaining_s:.0f} s: {self._log.last_words(self._data)}"
            )
        while self._pauses.remaining_s and not self._is_stopping:
            await asyncio.sleep(min(self._pauses.remaining_s, _WATCH_S))

    def _on_exit(self) -> None:
        """Record that the server died, and whether the disk was full."""
        if self._pauses.on_exit():
            self._died_without_space = not has_space(self._data)

    def _own(self) -> bool:
        """Take the lock that makes this process the server's owner; True if it is held."""
        if self._owner_fd is not None:
            return True
        fd = os.open(self._data / _OWNER_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not take_lock(fd):
            os.close(fd)
            return False
        self._owner_fd = fd
        return True

    async def _stop_orphan(self) -> None:
        """Stop a server that outlived its owner; it may be exiting already."""
        pid = running_pid(self._data)
        if pid is None:
            return
        log.warning("stopping a mongod that outlived its owner", extra={"event": "mongod_orphan", "pid": pid})
        await end_process(pid, lambda: running_pid(self._data) is None)

    async def _await_ready(self, deadline: float) -> None:
        while not await self._is_writable():
            if self._process is None or self._process.poll() is not None:
                code = self._process.returncode if self._process is not None else 0
                self._process = None
                self._on_exit()
                raise StoreUnavailableError(
                    f"MongoDB ended with exit code {code} while it started: {self._log.last_words(self._data)}"
                )
            if time.monotonic() > deadline:
                raise StoreUnavailableError(f"MongoDB takes too long to start; see {self._log.file}")
            await asyncio.sleep(_POLL_S)
        self._first_start.end()
        self._is_ready = True
        log.info("mongod is ready", extra={"event": "mongod_ready", "pid": self.pid})

    def _spawn(self) -> subprocess.Popen[bytes]:
        binary = find_binary(self._binary)
        _make_private(self._log.file.parent)
        self._log.bound()
        self._socket_file.unlink(missing_ok=True)
        command = with_parent([str(binary), *self._arguments()])
        try:
            for file in (self._log.file, self._log.printed):
                check_regular(file)
        except OSError as exc:
            raise StoreUnavailableError(f"mongod cannot be run: {exc.filename}: {exc.strerror}") from exc
        with self._log.printed.open("wb") as output:
            try:
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self._socket_file.parent,
                    env=environment(os.environ, self._home),
                    start_new_session=True,
                )
            except OSError as exc:
                raise StoreUnavailableError(f"mongod cannot be run: {exc}") from exc

    def _arguments(self) -> list[str]:
        # Slow operations are not logged: their lines would contain the text of memories.
        return [
            *("--dbpath", str(self._data), "--bind_ip", MEMBER, "--nounixsocket", "--filePermissions", "0700"),
            *("--logpath", str(self._log.file), "--logappend", "--logRotate", "reopen", "--quiet"),
            *("--slowms", "1000000", "--slowOpSampleRate", "0", "--noscripting"),
            *("--wiredTigerCacheSizeGB", str(max(self._cache_mb, 256) / 1024)),
            *("--wiredTigerEngineConfigString", f"log=(file_max={_JOURNAL_FILE_MB}MB)"),
            *("--setParameter", "diagnosticDataCollectionEnabled=false", "--setParameter", "maxLogSizeKB=1"),
            *("--setParameter", _ANY_CLOCK),
            *self._replication_arguments(),
        ]

    def _replication_arguments(self) -> list[str]:
        return ["--replSet", REPLICA_SET, "--oplogSize", str(self._oplog_mb)]

    async def _is_writable(self) -> bool:
        """True if the server accepts writes; initiates the replica set of a new one."""
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
        """Restart the server when it dies, and rotate its log.

        The driver reconnects within its own timeout, so most requests only notice a pause.
        """
        while True:
            await asyncio.sleep(_WATCH_S)
            if self._log.is_due() and self._log.bound() and self._process is not None:
                self._process.send_signal(signal.SIGUSR1)  # mongod reopens its log
            if self._starting.locked() or not self._has_exited():
                continue
            if not self._is_ready:  # it never became ready: the caller got the error, and may retry
                return
            self._on_exit()
            if self._pauses.short_runs > _MAX_RESTARTS:
                log.error(
                    "mongod keeps dying: %s", self._log.last_words(self._data), extra={"event": "mongod_given_up"}
                )
                return
            pause_s = self._pauses.remaining_s
            log.warning(
                "mongod died and is started again in %.1f s",
                pause_s,
                extra={"event": "mongod_died", "pause_s": pause_s},
            )
            await asyncio.sleep(pause_s)
            if self._starting.locked() or not self._has_exited():  # started by a request
                continue
            try:
                await self.start()
            except StoreUnavailableError as exc:
                log.error("mongod could not be started again: %s", exc, extra={"event": "mongod_failed"})

    def _has_exited(self) -> bool:
        return self._process is None or self._process.poll() is not None


def _make_private(folder: Path) -> None:
    """Make a folder private to this user."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if stat.S_IMODE(folder.stat().st_mode) != 0o700:
        folder.chmod(0o700)
