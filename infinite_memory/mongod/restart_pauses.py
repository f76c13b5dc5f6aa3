"""How long to wait before a server that died is started again.

The first time not at all: a server that was killed is wanted back at once. One that dies again within `STEADY_S` is given twice as long
each time, for what ends it (a full disk, for one) is not mended by starting it again, and each start writes, logs and takes a second
of a processor.
"""

from __future__ import annotations

import time
from collections.abc import Callable

STEADY_S = 60.0
"""A server that ran for so long is in order: its next death is a first one."""

_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.5, 30.0
"""Whoever makes room on the disk waits no longer than half a minute for the server."""


class RestartPauses:
    """Counts the short runs of one server; times are those of *clock*, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started_at: float | None = None
        self._next_at = 0.0
        self.short_runs = 0
        """How often in a row it died soon after its start."""

    def on_start(self) -> None:
        """Note that the server was started."""
        self._started_at = self._clock()

    def on_exit(self) -> bool:
        """Note that the server has died, once for each start; True if that was not noted before."""
        if self._started_at is None:
            return False
        now = self._clock()
        if now - self._started_at >= STEADY_S:
            self.short_runs = 0
        self._started_at = None
        self.short_runs += 1
        if self.short_runs > 1:
            doublings = min(self.short_runs - 2, 16)  # more would be no number in the end
            self._next_at = now + min(_FIRST_PAUSE_S * 2**doublings, _MAX_PAUSE_S)
        return True

    @property
    def remaining_s(self) -> float:
        """How long the next start has to wait from now on; 0 when it has not."""
        return max(0.0, self._next_at - self._clock())
