"""The byte pipe behind `serve`: standard input to the home's daemon, its answers to standard output. Standard library only.

It starts the daemon when there is none, and holds out when the daemon goes or changes: each request that was sent and not
answered gets one error and is never sent twice; the next line meets a new daemon, which is told the session's state, and for
JSON-RPC the `initialize` of before. It reconnects when the next line comes and not sooner, or an idle window would bring back
a daemon that was just stopped.

Two threads: one takes lines from standard input to the daemon, the other takes the daemon's lines to standard output.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from infinite_memory import local_socket
from infinite_memory.errors import ConfigError, DaemonError
from infinite_memory.greeting import greet
from infinite_memory.unanswered import Unanswered, parse

Json = dict[str, Any]

LAST_LINE_S = 0.5  # after SIGTERM, for a line that is just being sent
DRAIN_S = 3.0  # after SIGTERM, for replies that are on their way
PARENT_CHECK_S = 2.0  # a client program that died is noticed after this long
LINE_BYTES = 16 * 1024 * 1024  # where the daemon does not tell its limit: a longer line is passed on in pieces
UNANSWERED = 1000  # requests sent ahead; beyond that standard input waits
BOM = b"\xef\xbb\xbf"
LOST = "the daemon stopped before it answered; the request may or may not have been carried out"


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
        self._waiting = Unanswered()
        self._line_bytes = LINE_BYTES
        self._output = threading.Lock()  # held while lines go out; taken before `_lock`, never after it
        # Held from the moment a line counts as taken until it is sent; taken before `_lock`.
        self._sending = threading.Lock()
        self._is_draining = False
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
            if too_long or len(held) > self._line_bytes + 1:  # one more for a carriage return
                if not too_long:
                    passing, too_long = self._register(None), True
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
            is_read = len(text.removesuffix(b"\n").removesuffix(b"\r")) <= self._line_bytes
            with self._sending:
                if not self._is_draining:
                    _put(self._register(text if is_read else None), text)

    def _register(self, line: bytes | None) -> socket.socket | None:
        """Note that *line* (None: one that is too long) waits for an answer, and give the connection that it is to be sent on.

        None when it is answered already: there is no daemon and none could be started.
        """
        while True:
            with self._lock:
                self._answered.wait_for(lambda: len(self._waiting) < UNANSWERED or self._link is None)
                while (link := self._link) is not None and _has_ended(link):
                    self._answered.wait(PARENT_CHECK_S)  # for the other thread, which reads the end and lets go of it
                if link is not None:
                    # Noted while the connection stands: when it is lost from now on, the loss answers this line too.
                    self._waiting.note(line)
                    return link
            try:
                self._reach(replay=True)
            except (DaemonError, ConfigError) as problem:
                with self._output:
                    with self._lock:
                        self._waiting.note(line)
                        replies = self._waiting.fail(str(problem))
                    self._write(replies)
                return None

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
                over = self._input_ended and not self._waiting
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
            said = parse(line[1:])
            if isinstance(said, dict):
                self._greeting |= said  # the session's state, to be told to the next daemon
            return None
        with self._lock:
            is_for_client = self._waiting.settle(line)
            self._answered.notify_all()
        if not is_for_client:
            return None
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
        self._line_bytes = int(answer.get("line_bytes", LINE_BYTES))
        if replay:
            with self._lock:
                handshake = self._waiting.drop_handshake()
            _put(link, handshake)
        with self._lock:
            self._link = link
            self._connected.notify_all()

    def _lose(self, link: socket.socket) -> None:
        """Let go of a connection that ended, and answer what it left unanswered before anything new is answered."""
        with self._output:
            with self._lock:
                self._link = None
                replies = self._waiting.fail(LOST)
                self._answered.notify_all()
            self._write(replies)
        link.close()

    def _drain(self) -> None:
        """Take no more input, deliver the replies that are on their way, for a short while."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
        self._is_draining = True
        if self._sending.acquire(timeout=LAST_LINE_S):  # the line that was taken is sent, or it could not be answered
            self._sending.release()
        with self._lock:
            link = self._link
            waiting = bool(self._waiting)
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
