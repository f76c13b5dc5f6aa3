"""Watch how long one turn of the event loop takes: what holds it up makes every client wait.

A turn is everything the loop runs between two looks at its sockets. Its processor time is what counts, so a machine that is busy
with other things is not taken for a fault here; wall time is recorded beside it. It may be understated by `MARK_S`; the
cost is a third of a microsecond a turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import selectors
import sys
import time
from collections import Counter, deque
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
log = logging.getLogger(__name__)

MAX_HELD_S = 0.05  # of processor time in one turn; more is a fault of this program
MAX_RECORDED = 100
MARK_S = 0.005  # the thread's processor time is read this often, not at each turn: it costs twenty times what the wall clock does
LOG_EVERY_S = 10.0  # a fault that repeats fills no disk


@dataclass(frozen=True, slots=True)
class Hold:
    """One turn that took too long, and the commands that were under way in it."""

    cpu_s: float
    wall_s: float
    commands: tuple[str, ...]

    def __str__(self) -> str:
        commands = ", ".join(self.commands) or "no command"
        return f"{self.cpu_s * 1000:.0f} ms of processor time ({self.wall_s * 1000:.0f} ms in all) during {commands}"


class LoopWatchdog:
    """The record of one event loop. Used from that loop's thread.

    Args:
        start_s: For so long what is held is no fault and no warning: the program imports and loads its parts.
    """

    def __init__(self, start_s: float = 0.0) -> None:
        self._started_at = time.monotonic() + start_s
        self.holds: deque[Hold] = deque(maxlen=MAX_RECORDED)
        self.count = 0
        self.longest_s = 0.0
        self._under_way: Counter[str] = Counter()
        self._in_turn: dict[str, None] = {}
        self._begun_at: float | None = None  # processor time at which the first command of this turn began
        self._ended_at = 0.0  # and at which the last one ended
        self._next_log_at = 0.0

    @contextlib.contextmanager
    def running(self, command: str) -> Iterator[None]:
        """Attribute what happens inside to *command*, a name of ours and never a text of the user's."""
        if not self._under_way and not self._in_turn:
            self._begun_at = time.thread_time()
        self._under_way[command] += 1
        self._in_turn[command] = None
        try:
            yield
        finally:
            self._in_turn[command] = None  # the turn in which it ends is its own, though it began in an earlier one
            self._under_way[command] -= 1
            if not self._under_way[command]:
                del self._under_way[command]
                self._ended_at = time.thread_time()

    def turn_ended(self, cpu_s: float, wall_s: float) -> None:
        """Record a turn if it took too long: of one with commands what lies between the first and the last of them, or what lies beside."""
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
        """Return how much of a turn's processor time lies between the first and the last command that ran in it."""
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
    """A selector that tells a watchdog how long the loop was away from it."""

    def __init__(self, watchdog: LoopWatchdog) -> None:
        super().__init__()
        self._watchdog = watchdog
        self._turn_at: float | None = None  # wall time at which the loop's turn began
        self._mark_cpu = self._mark_wall = 0.0  # both clocks, at most MARK_S before that

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait as any selector does."""
        if self._turn_at is not None:
            wall_s, cpu_s = time.monotonic() - self._turn_at, 0.0
            if wall_s > MAX_HELD_S:  # what the mark is older than the turn may all have been processor time
                cpu_s = time.thread_time() - self._mark_cpu - (self._turn_at - self._mark_wall)
            self._watchdog.turn_ended(cpu_s, wall_s)
        try:
            return super().select(timeout)
        finally:
            self._turn_at = time.monotonic()
            if self._turn_at - self._mark_wall > MARK_S:
                self._mark_cpu, self._mark_wall = time.thread_time(), self._turn_at


_watchdogs: dict[asyncio.AbstractEventLoop, LoopWatchdog] = {}


def run_watched(work: Coroutine[Any, Any, T], watchdog: LoopWatchdog | None = None) -> T:
    """Run *work* as `asyncio.run` does, on a loop that is watched where the system's loop works with selectors."""
    if sys.platform == "win32":  # its loop waits for completions, and for child processes in no other way
        return asyncio.run(work)
    watchdog = watchdog or LoopWatchdog()

    def make_loop() -> asyncio.AbstractEventLoop:
        loop = asyncio.SelectorEventLoop(WatchedSelector(watchdog))
        _watchdogs[loop] = watchdog
        return loop

    with asyncio.Runner(loop_factory=make_loop) as runner:
        try:
            return runner.run(work)
        finally:
            _watchdogs.pop(runner.get_loop(), None)


def find_watchdog() -> LoopWatchdog | None:
    """Return the watchdog of the running loop; None where nobody watches."""
    return _watchdogs.get(asyncio.get_running_loop())


def running(command: str) -> contextlib.AbstractContextManager[None]:
    """Attribute what happens inside to *command*, where the running loop is watched."""
    watchdog = find_watchdog()
    return watchdog.running(command) if watchdog is not None else contextlib.nullcontext()
