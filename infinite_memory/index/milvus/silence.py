"""Detects that a server does not respond before a call times out, so that no caller waits twice for the same outage.

If a call takes longer than a moment, a cheap probe is sent beside it. If that gets no answer either, the server is silent: all waiting
calls fail at once, and later ones fail without being sent, until a probe in the background is answered.

Why not a short timeout for every call: a server with much to search, or still loading its collections, is slow but does answer.
Why calls run in their own threads: the library does not reliably return in time. It reconnects inside a call, one at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE_S = 0.5  # before the server is probed
ANSWER_S = 1.5  # within which a working server answers a probe
LOOK_EVERY_S = 1.0  # how often it is probed while silent


class SilentError(Exception):
    """The server does not respond at the moment."""


class SilenceWatch:
    """Waits for calls to one server. Methods may be called from several threads.

    Args:
        probe: Probes the server with a cheap request; True for any answer, even an error, False for none.
    """

    def __init__(self, probe: Callable[[], bool]) -> None:
        self._probe = probe
        self._lock = threading.Lock()
        self._pending_probe: tuple[float, Future[bool]] | None = None
        self._prober: threading.Thread | None = None
        self._closed = threading.Event()
        self.is_silent = False

    def wait_for(self, operation: Callable[[], T]) -> T:
        """Run *operation*, a call to the server, and return its result; raises what it raises.

        Raises:
            SilentError: the server is known or found to be silent; *operation* may then still be running, and its result is dropped.
        """
        self.check()
        future = _start(operation)
        while not wait([future], PATIENCE_S).done:
            if self.is_silent or not self._is_there(future):
                self.begin()
                raise SilentError
        return future.result()

    def check(self) -> None:
        """Raise `SilentError` if the server is known to be silent."""
        if self.is_silent:
            raise SilentError

    def _is_there(self, future: Future[T]) -> bool:
        """True if the server answered the probe, or the call completed meanwhile."""
        with self._lock:
            if self._pending_probe is None or self._pending_probe[1].done():
                self._pending_probe = time.monotonic(), _start(self._probe)
            began, doubt = self._pending_probe
        remaining_s = max(0.0, began + ANSWER_S - time.monotonic())
        both: list[Future[Any]] = [future, doubt]
        wait(both, remaining_s, FIRST_COMPLETED)
        return future.done() or (doubt.done() and doubt.result())

    def begin(self) -> None:
        """Treat the server as silent until it answers."""
        with self._lock:
            if not self.is_silent and not self._closed.is_set():
                self.is_silent, self._pending_probe = True, None
                if self._prober is None:
                    self._prober = threading.Thread(target=self._look_until_heard, name="silent index", daemon=True)
                    self._prober.start()

    def heard(self) -> None:
        """Record that the server answers."""
        self.is_silent = False

    def close(self) -> None:
        """Stop probing."""
        self._closed.set()

    def _look_until_heard(self) -> None:
        while True:
            is_closed = self._closed.wait(LOOK_EVERY_S)
            if not is_closed and self.is_silent and self._probe():
                self.heard()
            with self._lock:
                if is_closed or not self.is_silent:
                    self._prober = None
                    return


def _start(operation: Callable[[], T]) -> Future[T]:
    """Run *operation* in a daemon thread, however long it takes."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(operation())
        except BaseException as exc:  # any exception is raised where the result is read
            future.set_exception(exc)

    threading.Thread(target=run, name="index call", daemon=True).start()
    return future
