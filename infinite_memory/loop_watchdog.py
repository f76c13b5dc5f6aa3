"""Measures the iterations of the event loop: whatever blocks it makes every client wait.

A turn is everything that the loop runs between two polls of its sockets. Its CPU time is what counts, so that a busy machine is
not taken for a fault of ours; wall time is recorded too. CPU time may be understated by `MARK_S`; the overhead is a third of a
microsecond per turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import selectors
import sys
import time
import weakref
from collections import Counter, deque
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
log = logging.getLogger(__name__)

MAX_HELD_S = 0.05  # CPU time of one turn; more is a fault of this program
MAX_RECORDED = 100
MARK_S = 0.005  # how often the thread's CPU time is read: not each turn, as that costs twenty times as much as the wall clock
LOG_EVERY_S = 10.0  # so that a repeated fault does not fill the disk


@dataclass(frozen=True, slots=True)
class Hold:
    """One turn that took too long, and the commands that were running in it."""

    cpu_s: float
    wall_s: float
    commands: tuple[str, ...]

    def __str__(self) -> str:
        commands = ", ".join(self.commands) or "no command"
        return f"{self.cpu_s * 1000:.0f} ms of processor time ({self.wall_s * 1000:.0f} ms in all) during {commands}"


class LoopWatchdog:
    """Records slow turns of one event loop. Used from that loop's thread.

    Args:
        start_s: Startup period, in which slow turns cause no warning: the program imports and loads its components.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._started_at = time.monotonic() + start_s
        self.holds: deque[Hold] = deque(maxlen=MAX_RECORDED)
        self.count = 0
        self.longest_s = 0.0
        self._under_way: Counter[str] = Counter()
        self._in_turn: dict[str, None] = {}
        self._begun_at: float | None = None  # CPU time at which the first command of this turn started
        self._ended_at = 0.0  # and at which the last one ended
        self._next_log_at = 0.0

    @contextlib.contextmanager
    def running(self, command: str) -> Iterator[None]:
        """Attribute the block to *command*, which is one of our names and never user text."""
        if not self._under_way and not self._in_turn:
            self._begun_at = time.thread_time()
        self._under_way[command] += 1
        self._in_turn[command] = None
        try:
            yield
        finally:
            self._in_turn[command] = None  # also in the turn in which it ends, if that is another one
            self._under_way[command] -= 1
            if not self._under_way[command]:
                del self._under_way[command]
                self._ended_at = time.thread_time()

    def turn_ended(self, cpu_s: float, wall_s: float) -> None:
        """Record a turn that took too long: the time between its first and last command, or else the rest of it."""
        if cpu_s > MAX_HELD_S:
            own_s = self._of_commands(cpu_s)
            if own_s > MAX_HELD_S:
                self._record(Hold(own_s, wall_s, tuple(dict.fromkeys((*self._in_turn, *self._under_way)))))
            elif cpu_s - own_s > MAX_HELD_S:
                self._record(Hold(cpu_s - own_s, wall_s, ()))
        self._begun_at = None
        if self._in_turn:
            self._in_turn.clear()

    def _of_commands(self, cpu_s: float) -> float:
        """Return the CPU time of a turn between the first and the last command that ran in it."""
        if not self._in_turn and not self._under_way:
            return 0.0
        now = time.thread_time()
        begun_at = now - cpu_s if self._begun_at is None else self._begun_at
        ended_at = now if self._under_way else self._ended_at
        return min(cpu_s, ended_at - begun_at)

    def _record(self, hold: Hold) -> None:
        self.holds.append(hold)
        self.count += 1
        self.longest_s = max(self.longest_s, hold.cpu_s)
        self._report(hold)

    def _report(self, hold: Hold) -> None:
        now = time.monotonic()
        if now >= self._next_log_at:
            self._next_log_at = now + LOG_EVERY_S
            level = logging.WARNING if now >= self._started_at else logging.INFO
            log.log(level, "the event loop was held for %s", hold, extra={"event": "loop_held"})


class WatchedSelector(selectors.DefaultSelector):
    """A selector that reports to a watchdog how long the loop took between two calls."""

    def __init__(self, watchdog: LoopWatchdog) -> None:
        super().__init__()
        self._watchdog = watchdog
        self._turn_at: float | None = None  # wall time at which the turn started
        self._mark_cpu = self._mark_wall = 0.0  # both clocks, read at most MARK_S before that

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Report the turn that has ended, then wait as usual."""
        if self._turn_at is not None:
            wall_s, cpu_s = time.monotonic() - self._turn_at, 0.0
            if wall_s > MAX_HELD_S:  # all the time between mark and turn may have been CPU time
                cpu_s = time.thread_time() - self._mark_cpu - (self._turn_at - self._mark_wall)
            self._watchdog.turn_ended(cpu_s, wall_s)
        try:
            return super().select(timeout)
        finally:
            self._turn_at = time.monotonic()
            if self._turn_at - self._mark_wall > MARK_S:
                self._mark_cpu, self._mark_wall = time.thread_time(), self._turn_at


_watchdogs = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWatchdog]()


def open_watched_loop(watchdog: LoopWatchdog) -> asyncio.AbstractEventLoop:
    """Return a new event loop that uses selectors and reports to *watchdog*."""
    loop = asyncio.SelectorEventLoop(WatchedSelector(watchdog))
    _watchdogs[loop] = watchdog
    return loop


def run_watched(coro: Coroutine[Any, Any, T], watchdog: LoopWatchdog | None = None) -> T:
    """Run *coro* as `asyncio.run` does, on a watched loop if the platform's loop uses selectors."""
    if sys.platform == "win32":  # its loop uses completion ports, and supports child processes only with those
        return asyncio.run(coro)
    watched = watchdog or LoopWatchdog()
    with asyncio.Runner(loop_factory=lambda: open_watched_loop(watched)) as runner:
        return runner.run(coro)


def find_watchdog() -> LoopWatchdog | None:
    """Return the watchdog of the running loop, or None if it is not watched."""
    return _watchdogs.get(asyncio.get_running_loop())


def running(command: str) -> contextlib.AbstractContextManager[None]:
    """Attribute the block to *command*, if the running loop is watched."""
    watchdog = find_watchdog()
    return watchdog.running(command) if watchdog is not None else contextlib.nullcontext()
