"""The byte pipe behind `serve`: standard input to the home's daemon, its answers to standard output. Standard library only.

It starts the daemon when there is none, and holds out when the daemon goes or changes: each request that was sent and not
answered gets one error and is never sent twice; the next line meets a new daemon, which is told the session's state, and for
JSON-RPC the `initialize` of before. It reconnects when the next line comes and not sooner, or an idle window would bring back
a daemon that was just stopped.

Two threads: one takes lines from standard input to the daemon, the other takes the daemon's lines to standard output.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from infinite_memory import __version__, local_socket
from infinite_memory.errors import ConfigError, DaemonError

Json = dict[str, Any]

START_S = 40.0  # a daemon that is going may take half a minute to finish
GREETING_S = 30.0
DRAIN_S = 3.0  # after SIGTERM, for replies that are on their way
PARENT_CHECK_S = 2.0
HELD_BYTES = 32 * 1024 * 1024  # a line above this is passed on in pieces; the daemon refuses it
LITTLE_BYTES = 64 * 1024  # with less on its disk than this, nothing can be written
UNANSWERED = 1000  # requests sent ahead; beyond that standard input waits
BOM = b"\xef\xbb\xbf"
LOST = "the daemon stopped before it answered; the request may or may not have been carried out"


def greet(home: Path, greeting: Json, *, start: bool = True) -> tuple[socket.socket, Json]:
    """Connect to the home's daemon, starting one if there is none, and say what this connection is for.

    Args:
        greeting: ``kind``, and what that kind needs; version and protocol are added here.

    Returns:
        The open connection and the daemon's answer.

    Raises:
        DaemonError: there is no daemon and none could be started.
        ConfigError: the daemon refuses the settings that came with the greeting.
    """
    deadline = time.monotonic() + START_S
    line = json.dumps(
        {"protocol": local_socket.PROTOCOL, "version": __version__, "pid": os.getpid()} | greeting
    ).encode()
    while time.monotonic() < deadline:
        link = local_socket.connect(home, GREETING_S)
        if link is None:
            if not start:
                raise DaemonError("no daemon runs for this home")
            _start(home, greeting, deadline)
            continue
        try:
            link.sendall(line + b"\n")
            said = local_socket.read_line(link)
            answer = json.loads(said) if said else {}
        except (OSError, ValueError):
            answer = {}
        if answer.get("ok"):
            link.settimeout(None)
            return link, answer
        link.close()
        if answer.get("error_code") == "config_error":
            raise ConfigError(str(answer.get("error")))
        if answer.get("error"):
            raise DaemonError(str(answer["error"]))
        if not start:
            raise DaemonError("the daemon does not answer; it is going, or hangs")
        time.sleep(0.05)  # it is going, or was asked to make room for this version
    raise DaemonError(f"the daemon of {home} did not answer within {START_S:.0f} s; see {home / 'logs'}")


def _start(home: Path, greeting: Json, deadline: float) -> None:
    """Start the daemon, unless another client does so at this moment; returns when one listens.

    Raises:
        DaemonError: it cannot be started, or did not listen in time.
        ConfigError: it refuses its settings.
    """
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        with local_socket.locked(local_socket.start_lock_path(home), wait=True):
            if not _listens(home):
                _start_alone(home, greeting, deadline)
    except OSError as problem:  # a home that cannot be written, a full disk
        raise DaemonError(f"the daemon cannot be started in {home}: {problem.strerror or problem}") from problem


def _start_alone(home: Path, greeting: Json, deadline: float) -> None:
    import subprocess  # only who starts a daemon needs it

    logs = home / "logs"
    logs.mkdir(mode=0o700, exist_ok=True)
    output = logs / "daemon.out"
    settings = [part for name, value in greeting.get("flags", {}).items() for part in ("--set", f"{name}={value}")]
    if "config_file" in greeting:
        settings += ["--config", greeting["config_file"]]
    left_behind = local_socket.read_record(home)
    with output.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "infinite_memory", "daemon", "run", *settings],
            stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True, cwd=home,
            env=os.environ | {"INFINITE_MEMORY_HOME": str(home), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
    # Collected when it ends, or it would stay a zombie for as long as this client lives.
    threading.Thread(target=process.wait, daemon=True).start()
    while time.monotonic() < deadline:
        record = local_socket.read_record(home)
        if record is not None and record.get("pid") == process.pid:
            return
        # One that was started by other means was faster. A record from before is a dead daemon's, but its socket may be ours.
        if record not in (None, left_behind) and _listens(home):
            process.terminate()
            return
        if (code := process.poll()) is not None:
            if code < 0:  # somebody killed it; the next try starts another
                return
            said = output.read_text("utf-8", "replace").strip().splitlines()[-3:]
            message = "\n".join(said) or f"it ended with exit code {process.returncode}; {_why_silent(home, output)}"
            raise (ConfigError if process.returncode == 2 else DaemonError)(f"the daemon did not start: {message}")
        time.sleep(0.01)
    raise DaemonError(f"the daemon did not start within {START_S:.0f} s; see {output}")


def _why_silent(home: Path, output: Path) -> str:
    """Say where to look when a daemon could not even write why it ended."""
    free_bytes = (disk := os.statvfs(home)).f_bavail * disk.f_frsize if hasattr(os, "statvfs") else LITTLE_BYTES
    return f"there is no space left on the disk of {home}" if free_bytes < LITTLE_BYTES else f"see {output}"


def _listens(home: Path) -> bool:
    link = local_socket.connect(home, 1.0)
    if link is not None:
        link.close()
    return link is not None


class _Terminated(Exception):
    """SIGTERM or SIGINT came."""


class Pipe:
    """One client's session, from standard input to the daemon and back."""

    def __init__(self, home: Path, greeting: Json, source: int, sink: int) -> None:
        self._home, self._greeting, self._source, self._sink = home, greeting, source, sink
        self._lock = threading.Lock()  # guards what follows, and is never held while bytes move
        self._connected = threading.Condition(self._lock)
        self._answered = threading.Condition(self._lock)
        self._link: socket.socket | None = None
        self._input_ended = False
        self._rpc: bool | None = None  # not known before the first line
        self._sent: deque[bytes] = deque()  # requests of the action loop that wait for their reply
        self._calls: dict[str, None] = {}  # ids of JSON-RPC requests that wait for their reply, in order
        self._initialize: bytes | None = None
        self._initialized: bytes | None = None
        self._dropped: set[str] = set()  # ids of replayed requests whose replies the client has had already
        self._output = threading.Lock()  # held while lines go out; taken before `_lock`, never after it
        self._parent = os.getppid()
        self._terminated = self._may_interrupt = False

    def run(self) -> int:
        """Pass bytes until standard input ends and all is answered, or a signal comes; gives the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._terminate)
        try:
            with self._interruptible():
                self._reach(replay=False)
            threading.Thread(target=self._take_input, daemon=True).start()
            self._take_replies()
        except _Terminated:
            self._drain()
        return 0

    # from standard input

    def _take_input(self) -> None:
        held = bytearray()
        searched = 0  # bytes of it that hold no end of a line
        first = True
        passing: socket.socket | None = None  # where a line goes on that is too long to be kept
        too_long = False
        while chunk := self._read_input():
            held += chunk
            while (end := held.find(b"\n", searched) + 1) > 0:
                line = bytes(held[:end])
                del held[:end]
                searched = 0
                if too_long:
                    _put(passing, line)
                else:
                    self._send(line, first)
                first, too_long, passing = False, False, None
            if too_long or len(held) > HELD_BYTES:
                if not too_long:
                    passing, too_long = self._register(b""), True
                _put(passing, bytes(held))
                held.clear()
            searched = len(held)
        if held:
            self._send(bytes(held) + b"\n", first)
        with self._lock:
            self._input_ended = True
            link = self._link
            self._connected.notify_all()
        if link is not None:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_WR)

    def _read_input(self) -> bytes:
        try:
            return os.read(self._source, 65536)
        except OSError:  # a terminal that went away
            return b""

    def _send(self, line: bytes, first: bool) -> None:
        text = line.removeprefix(BOM) if first else line
        if text.strip():
            _put(self._register(text), text)

    def _register(self, line: bytes) -> socket.socket | None:
        """Note that *line* waits for an answer, and give the connection that it is to be sent on.

        None when it is answered already: there is no daemon and none could be started.
        """
        while True:
            with self._lock:
                self._answered.wait_for(lambda: len(self._sent) + len(self._calls) < UNANSWERED or self._link is None)
                while (link := self._link) is not None and _has_ended(link):
                    self._answered.wait(PARENT_CHECK_S)  # for the other thread, which reads the end and lets go of it
                if link is not None:
                    # Noted while the connection stands: when it is lost from now on, the loss answers this line too.
                    self._note(line)
                    return link
            try:
                self._reach(replay=True)
            except (DaemonError, ConfigError) as problem:
                with self._output:
                    with self._lock:
                        self._note(line)
                        replies = self._failures(str(problem))
                    self._write(replies)
                return None

    def _note(self, line: bytes) -> None:
        """Remember what *line* asks for; the lock is held."""
        if self._rpc is None:
            message = _message(line)
            self._rpc = isinstance(message, list) or (isinstance(message, dict) and "jsonrpc" in message)
        if not self._rpc:
            self._sent.append(line)
            return
        message = _message(line)
        if not isinstance(message, dict) or "method" not in message:
            return
        method = message["method"]
        if method == "initialize" and self._initialize is None:
            self._initialize = line
        elif method == "notifications/initialized":
            self._initialized = line
        elif method == "notifications/cancelled" and isinstance(message.get("params"), dict):
            self._calls.pop(json.dumps(message["params"].get("requestId")), None)  # it is not answered
        if "id" in message:
            self._calls[json.dumps(message["id"])] = None

    # from the daemon

    def _take_replies(self) -> None:
        while True:
            with self._lock, self._interruptible():
                while self._link is None and not self._input_ended:
                    self._check_parent()
                    self._connected.wait(PARENT_CHECK_S)
                link = self._link
            if link is None:
                return
            self._take_from(link)
            with self._lock:
                over = self._input_ended and not self._sent and not self._calls
            self._lose(link)
            if over:
                return

    def _take_from(self, link: socket.socket) -> None:
        """Pass on whole lines until the connection ends; a line that was cut short is not passed on."""
        held = bytearray()
        while True:
            with self._interruptible():
                ready = select.select([link], [], [], PARENT_CHECK_S)[0]
                if not ready:
                    self._check_parent()
                    continue
            try:
                chunk = link.recv(65536)
            except OSError:
                return
            if not chunk:
                return
            held += chunk
            if b"\n" not in chunk:
                continue
            *whole, rest = held.split(b"\n")
            held = bytearray(rest)
            with self._output:
                self._write([one for line in whole if (one := self._reply(bytes(line))) is not None])

    def _check_parent(self) -> None:
        if os.getppid() != self._parent:
            raise _Terminated

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Where a signal may end the session at once; elsewhere it waits, or a line could be cut in two."""
        self._may_interrupt = True
        try:
            if self._terminated:
                raise _Terminated
            yield
        finally:
            self._may_interrupt = False

    def _terminate(self, _number: int, _frame: FrameType | None) -> None:
        if not self._terminated:  # whatever the client does, it is over after a while
            timer = threading.Timer(DRAIN_S, os._exit, (0,))
            timer.daemon = True
            timer.start()
        self._terminated = True
        if self._may_interrupt:
            raise _Terminated

    def _reply(self, line: bytes) -> bytes | None:
        """Note what a line of the daemon's answers; None when the client is not to see it."""
        if line.startswith(local_socket.CONTROL):
            said = _message(line[1:])
            if isinstance(said, dict):
                self._greeting |= said  # the session's state, to be told to the next daemon
            return None
        with self._lock:
            if not self._rpc:
                if self._sent:
                    self._sent.popleft()
            else:
                message = _message(line)
                if isinstance(message, dict) and "id" in message and "method" not in message:
                    key = json.dumps(message["id"])
                    self._calls.pop(key, None)
                    if key in self._dropped:
                        self._dropped.discard(key)
                        return None
            self._answered.notify_all()
        return line + b"\n"

    def _write(self, lines: list[bytes]) -> None:
        """Write whole lines; `_output` is held."""
        data = memoryview(b"".join(lines))
        try:
            while data:
                data = data[os.write(self._sink, data) :]
        except OSError:  # the client program is gone
            os._exit(0)

    # when the daemon goes

    def _reach(self, *, replay: bool) -> None:
        """Connect, and bring a new daemon to where the session stood."""
        greeting = self._greeting | ({"reconnect": True} if replay else {})
        link, answer = greet(self._home, greeting)
        for note in answer.get("notes", ()):
            print(f"infinite-memory: {note}", file=sys.stderr)
        if replay and self._initialize is not None:
            message = _message(self._initialize)
            key = json.dumps(message.get("id")) if isinstance(message, dict) else ""
            with self._lock:
                self._dropped.add(key)
            _put(link, self._initialize + (self._initialized or b""))
        with self._lock:
            self._link = link
            self._connected.notify_all()

    def _lose(self, link: socket.socket) -> None:
        """Let go of a connection that ended, and answer what it left unanswered before anything new is answered."""
        with self._output:
            with self._lock:
                self._link = None
                replies = self._failures(LOST)
                self._answered.notify_all()
            self._write(replies)
        link.close()

    def _failures(self, why: str) -> list[bytes]:
        """Take what waits for an answer and write an error for each; the lock is held."""
        lines, calls = list(self._sent), list(self._calls)
        self._sent.clear()
        self._calls.clear()
        self._dropped.clear()
        replies: list[Json] = []
        for line in lines:
            message = _message(line) if b"request_id" in line else None
            echo = (
                {"request_id": message["request_id"]} if isinstance(message, dict) and "request_id" in message else {}
            )
            replies.append({"status": "ERROR", "error": why, "error_code": "CONNECTION_ERROR"} | echo)
        for key in calls:
            replies.append({"jsonrpc": "2.0", "id": json.loads(key), "error": {"code": -32603, "message": why}})
        return [json.dumps(reply, ensure_ascii=False).encode("utf-8", "replace") + b"\n" for reply in replies]

    def _drain(self) -> None:
        """Take no more input, deliver the replies that are on their way, for a short while."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        with self._lock:
            link = self._link
            waiting = bool(self._sent or self._calls)
        if link is None or not waiting:
            return
        threading.Timer(DRAIN_S, os._exit, (0,)).start()
        with contextlib.suppress(OSError):
            link.shutdown(socket.SHUT_WR)
        self._terminated = False
        self._parent = os.getppid()  # which may have changed: that is why it ends
        self._take_from(link)
        self._lose(link)


def _has_ended(link: socket.socket) -> bool:
    """Tell whether the daemon has closed the connection, and nothing that it said before is left to be read."""
    try:
        return not link.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _put(link: socket.socket | None, data: bytes) -> None:
    """Send *data*; a connection that broke is noticed, and what it left unanswered is answered, where it is read."""
    if link is not None:
        with contextlib.suppress(OSError):
            link.sendall(data)


def _message(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
