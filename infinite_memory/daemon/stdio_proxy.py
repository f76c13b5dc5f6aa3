"""The byte pipe behind `serve`: standard input to the home's daemon, its replies to standard output. Standard library only.

It starts the daemon if there is none, and survives the daemon's exit or replacement: each request that was sent and not
answered gets one error and is never sent twice; the next line goes to a new daemon, which gets the session's state and, for
JSON-RPC, the earlier `initialize`. It reconnects when the next line arrives and not earlier, or an idle window would restart
a daemon that was just stopped.

Two threads: one passes lines from standard input to the daemon, the other the daemon's lines to standard output.

After a signal, or when its client program died or no longer reads, it takes the input that is already there, sends it, and waits for
the replies; the daemon carries out what was sent in any case.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from infinite_memory.daemon import ipc
from infinite_memory.daemon.handshake import greet
from infinite_memory.daemon.pending_requests import PendingRequests, parse
from infinite_memory.errors import ConfigError, DaemonError
from infinite_memory.transports.strict_json import Speaks

Json = dict[str, Any]

LAST_LINE_S = 0.5  # after SIGTERM: how long the rest of a line that has begun may take
TAKE_S = 5.0  # after SIGTERM: how long pending input is read
DRAIN_S = 60.0  # after SIGTERM: how long the daemon may take to answer everything that was sent
STALLED_S = 5.0  # after SIGTERM: how long a client program may go without reading
ENDING_CHECK_S = 0.02  # and once it is ending, how often it checks whether all is answered
PARENT_CHECK_S = 2.0  # a dead client program is noticed after this long
LINE_BYTES = 16 * 1024 * 1024  # if the daemon reports no limit: a longer line is passed on in chunks
UNANSWERED = 1000  # requests in flight; beyond that standard input waits
BOM = b"\xef\xbb\xbf"
LOST = "the daemon stopped before it answered; the request may or may not have been carried out"


class _Terminated(Exception):
    """A signal arrived before the daemon was reached."""


class StdioProxy:
    """One client's session, from standard input to the daemon and back. *speaks* is None if the first request decides."""

    def __init__(self, home: Path, greeting: Json, source: int, sink: int, speaks: Speaks | None = None) -> None:
        self._home, self._greeting, self._source, self._sink = home, greeting, source, sink
        self._lock = threading.Lock()  # guards the fields below; never held while bytes move
        self._connected = threading.Condition(self._lock)
        self._answered = threading.Condition(self._lock)
        self._link: socket.socket | None = None
        self._input_ended = False
        self._waiting = PendingRequests(speaks)
        self._line_bytes = LINE_BYTES
        self._output = threading.Lock()  # held while lines are written; acquired before `_lock`, never after it
        self._parent = os.getppid()
        self._may_interrupt = False
        self._wake = os.pipe()  # readable once the session is to end
        self._ends_at: float | None = None
        self._writes_since: float | None = None  # when the pending write began
        self._is_output_closed = False  # standard output is no longer read

    def run(self) -> int:
        """Pass bytes until standard input ends and all is answered, or a signal arrives; return the exit code."""
        if os.name == "posix":
            threading.Thread(target=self._watch_end, daemon=True).start()
        for name in ("SIGTERM", "SIGINT", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._terminate)
        try:
            self._may_interrupt = True
            self._reach(replay=False)
            self._may_interrupt = False
        except _Terminated:
            if not _has_input(self._source, 0):
                return 0
            self._reach(replay=False)
        threading.Thread(target=self._take_input, daemon=True).start()
        self._take_replies()
        return 0

    # from standard input

    def _take_input(self) -> None:
        buffer = bytearray()
        searched = 0  # bytes of it without a line end
        first = True
        passing: socket.socket | None = None  # where the rest of a line goes that is too long to keep
        too_long = False
        while chunk := self._read_input(is_within_line=bool(buffer) or too_long):
            buffer += chunk
            while (end := buffer.find(b"\n", searched) + 1) > 0:
                line = bytes(buffer[:end])
                del buffer[:end]
                searched = 0
                if too_long:
                    _put(passing, line)
                else:
                    self._send(line, first)
                first, too_long, passing = False, False, None
            if too_long or len(buffer) > self._line_bytes + 1:  # one more for a carriage return
                if not too_long:
                    passing, too_long = self._register(None), True
                _put(passing, bytes(buffer))
                buffer.clear()
            searched = len(buffer)
        if buffer and self._ends_at is None:  # after a signal it would be an incomplete line
            self._send(bytes(buffer) + b"\n", first)
        with self._lock:
            self._input_ended = True
            link = self._link
            self._connected.notify_all()
        if link is not None:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_WR)

    def _read_input(self, *, is_within_line: bool) -> bytes:
        """Return the next bytes; none at the end, and once the session is ending and no more input is there."""
        try:
            if os.name == "posix":
                if self._ends_at is None:
                    select.select([self._source, self._wake[0]], [], [])
                if self._ends_at is not None:
                    is_late = time.monotonic() > self._ends_at + TAKE_S
                    if is_late or not _has_input(self._source, LAST_LINE_S if is_within_line else 0):
                        return b""
            return os.read(self._source, 65536)
        except (OSError, ValueError):  # a closed terminal
            return b""

    def _send(self, line: bytes, is_first: bool) -> None:
        text = line.removeprefix(BOM) if is_first else line
        if text.strip():
            is_read = len(text.removesuffix(b"\n").removesuffix(b"\r")) <= self._line_bytes
            _put(self._register(text if is_read else None), text)

    def _register(self, line: bytes | None) -> socket.socket | None:
        """Register *line* (None: one that is too long) as pending, and return the connection to send it on.

        None if it is answered already: there is no daemon and none could be started.
        """
        while True:
            with self._lock:
                self._answered.wait_for(lambda: len(self._waiting) < UNANSWERED or self._link is None)
                while (link := self._link) is not None and _has_ended(link):
                    self._answered.wait(PARENT_CHECK_S)  # for the other thread, which reads the end and releases it
                if link is not None:
                    # Registered while the connection stands: if it is lost from now on, the loss answers this line too.
                    self._waiting.note(line)
                    return link
            try:
                self._reach(replay=True)
            except (DaemonError, ConfigError) as exc:
                with self._output:
                    with self._lock:
                        self._waiting.note(line)
                        replies = self._waiting.fail(str(exc))
                    self._write(replies)
                return None

    # from the daemon

    def _take_replies(self) -> None:
        while True:
            with self._lock:
                while self._link is None and not self._input_ended:
                    self._check_parent()
                    self._connected.wait(PARENT_CHECK_S)
                link = self._link
            if link is None:
                return
            self._take_from(link)
            over = self._is_over()
            self._lose(link)
            if over:
                return

    def _is_over(self) -> bool:
        with self._lock:
            return self._input_ended and (not self._waiting or self._is_output_closed)

    def _take_from(self, link: socket.socket) -> None:
        """Pass on whole lines until the connection ends; drop an incomplete line."""
        buffer = bytearray()
        while True:
            if self._ends_at is None:
                select.select([link.fileno(), self._wake[0]], [], [], PARENT_CHECK_S)
                self._check_parent()
            elif self._is_over():  # do not wait for a hung daemon
                return
            if not select.select([link], [], [], 0 if self._ends_at is None else ENDING_CHECK_S)[0]:
                continue
            try:
                chunk = link.recv(65536)
            except OSError:
                return
            if not chunk:
                return
            buffer += chunk
            if b"\n" not in chunk:
                continue
            *lines, rest = buffer.split(b"\n")
            buffer = bytearray(rest)
            with self._output:
                self._write([reply for line in lines if (reply := self._reply(bytes(line))) is not None])

    # the end

    def _check_parent(self) -> None:
        if self._ends_at is None and os.getppid() != self._parent:
            self._end()

    def _terminate(self, number: int, _frame: FrameType | None) -> None:
        if self._ends_at is not None and number == signal.SIGINT:  # a user at a terminal does not want to wait
            os._exit(130)
        self._end()
        if self._may_interrupt:
            self._may_interrupt = False
            raise _Terminated

    def _end(self) -> None:
        """Read only the input that is already there; `_take_input` does the rest."""
        if self._ends_at is None:
            self._ends_at = time.monotonic()
            os.write(self._wake[1], b".")

    def _watch_end(self) -> None:
        """Exit the process if ending takes too long: the daemon carries out what was sent even if no one reads the replies."""
        select.select([self._wake[0]], [], [])
        ends_at = time.monotonic()
        while time.monotonic() < ends_at + DRAIN_S:
            since = self._writes_since
            if since is not None and time.monotonic() > max(since, ends_at) + STALLED_S:
                break
            time.sleep(ENDING_CHECK_S)
        os._exit(0)

    def _reply(self, line: bytes) -> bytes | None:
        """Settle the request that a line of the daemon answers; None if the line must not reach the client."""
        if line.startswith(ipc.CONTROL):
            state = parse(line[1:])
            if isinstance(state, dict):
                self._greeting |= state  # the session's state, to be sent to the next daemon
            return None
        with self._lock:
            is_for_client = self._waiting.settle(line)
            self._answered.notify_all()
        if not is_for_client:
            return None
        return line + b"\n"

    def _write(self, lines: list[bytes]) -> None:
        """Write whole lines; the caller holds `_output`."""
        data = memoryview(b"" if self._is_output_closed else b"".join(lines))
        try:
            while data:
                self._writes_since = time.monotonic()
                data = data[os.write(self._sink, data) :]
        except OSError:  # the client program is gone, or no longer reads
            self._is_output_closed = True
            self._end()
        finally:
            self._writes_since = None

    # when the daemon goes

    def _reach(self, *, replay: bool) -> None:
        """Connect, and restore the session's state in a new daemon."""
        greeting = self._greeting | ({"reconnect": True} if replay else {})
        if (speaks := self._waiting.speaks) is not None:
            greeting["speaks"] = speaks.value
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
        """Release a connection that ended, and answer its pending requests before anything new is answered."""
        with self._output:
            with self._lock:
                self._link = None
                replies = self._waiting.fail(LOST)
                self._answered.notify_all()
            self._write(replies)
        link.close()


def _has_input(source: int, timeout_s: float) -> bool:
    """True if there is input to read, or its end."""
    return os.name == "posix" and bool(select.select([source], [], [], timeout_s)[0])


def _has_ended(link: socket.socket) -> bool:
    """True if the daemon has closed the connection, and everything it sent has been read."""
    try:
        return not link.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _put(link: socket.socket | None, data: bytes) -> None:
    """Send *data*; a broken connection is noticed, and its pending requests answered, by the reader."""
    if link is not None:
        with contextlib.suppress(OSError):
            link.sendall(data)
