"""Notices that a server is silent before a call ends by itself, so that nobody waits twice for the same silence.

A call that takes longer than a moment is doubted: something small is asked beside it. Where that gets no answer either, the server
is silent: all who wait are told at once, and whoever comes later is told without a call, until one made in the background is answered.

Why no short limit for every call: a server that has much to search, or loads what it holds, takes its time and answers all the same.
Why calls run in threads of their own: the library cannot be relied on to end in time. It connects again inside a call, one at a time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any, TypeVar

T = TypeVar("T")

PATIENCE_S = 0.5  # before a call is doubted
ANSWER_S = 1.5  # within which something small is answered by a server that is there
LOOK_EVERY_S = 1.0  # while it is silent


class SilentError(Exception):
    """The server answers nothing at the moment."""


class SilenceWatch:
    """Waits for the calls to one server. Methods may be called from several threads.

    Args:
        look: Asks the server for something small; True for any answer, be it an error, False for none.
    """

    def __init__(self, look: Callable[[], bool]) -> None:
        self._look = look
        self._lock = threading.Lock()
        self._doubt: tuple[float, Future[bool]] | None = None
        self._looker: threading.Thread | None = None
        self._closed = threading.Event()
        self.is_silent = False

    def wait_for(self, work: Callable[[], T]) -> T:
        """Return what *work* does, which asks the server; raises what it raises.

        Raises:
            SilentError: the server is known to be silent, or found to be; *work* may go on then, and end as it likes.
        """
        self.check()
        future = _start(work)
        while not wait([future], PATIENCE_S).done:
            if self.is_silent or not self._is_there(future):
                self.begin()
                raise SilentError
        return future.result()

    def check(self) -> None:
        """Raise `SilentError` where the server is known to be silent."""
        if self.is_silent:
            raise SilentError

    def _is_there(self, future: Future[T]) -> bool:
        """True if the server answered something small, or the call meanwhile."""
        with self._lock:
            if self._doubt is None or self._doubt[1].done():
                self._doubt = time.monotonic(), _start(self._look)
            began, doubt = self._doubt
        remaining_s = max(0.0, began + ANSWER_S - time.monotonic())
        both: list[Future[Any]] = [future, doubt]
        wait(both, remaining_s, FIRST_COMPLETED)
        return future.done() or (doubt.done() and doubt.result())

    def begin(self) -> None:
        """Take the server for silent, until it is heard of."""
        with self._lock:
            if not self.is_silent and not self._closed.is_set():
                self.is_silent, self._doubt = True, None
                if self._looker is None:
                    self._looker = threading.Thread(target=self._look_until_heard, name="silent index", daemon=True)
                    self._looker.start()

    def heard(self) -> None:
        """Note that the server answers."""
        self.is_silent = False

    def close(self) -> None:
        """Look no more."""
        self._closed.set()

    def _look_until_heard(self) -> None:
        while True:
            is_closed = self._closed.wait(LOOK_EVERY_S)
            if not is_closed and self.is_silent and self._look():
                self.heard()
            with self._lock:
                if is_closed or not self.is_silent:
                    self._looker = None
                    return


def _start(work: Callable[[], T]) -> Future[T]:
    """Do *work* in a thread that ends with the process, however long it takes."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as exc:  # whatever it is, it is raised where the result is asked for
            future.set_exception(exc)

    threading.Thread(target=run, name="index call", daemon=True).start()
    return future
