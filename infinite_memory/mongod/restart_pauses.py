"""Backoff before a server that died is restarted.

The first restart is immediate: a killed server is needed at once. If it dies again within `STEADY_S`, the pause doubles each time,
because a restart does not fix the cause (a full disk, for example), and each start writes, logs and takes a second of CPU time.
"""

from __future__ import annotations

import time
from collections.abc import Callable

STEADY_S = 60.0
"""A server that ran for so long is healthy: its next death counts as the first."""

_FIRST_PAUSE_S, _MAX_PAUSE_S = 0.5, 30.0
"""After space is freed on the disk, the server is back within half a minute."""


class RestartPauses:
    """Counts the short runs of one server; times are those of *clock*, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started_at: float | None = None
        self._next_at = 0.0
        self.short_runs = 0
        """Number of consecutive deaths soon after a start."""

    def on_start(self) -> None:
        """Record a start of the server."""
        self._started_at = self._clock()

    def on_exit(self) -> bool:
        """Record that the server died, once per start; True if that was not recorded before."""
        if self._started_at is None:
            return False
        now = self._clock()
        if now - self._started_at >= STEADY_S:
            self.short_runs = 0
        self._started_at = None
        self.short_runs += 1
        if self.short_runs > 1:
            doublings = min(self.short_runs - 2, 16)  # more would overflow in the end
            self._next_at = now + min(_FIRST_PAUSE_S * 2**doublings, _MAX_PAUSE_S)
        return True

    @property
    def remaining_s(self) -> float:
        """Seconds until the next start is allowed, or 0."""
        return max(0.0, self._next_at - self._clock())
