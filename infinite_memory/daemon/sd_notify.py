"""Notifications to systemd about a daemon that it runs: ready, alive (its event loop turns), stopping.

The protocol is a datagram to the Unix socket named by ``NOTIFY_SOCKET`` (sd_notify(3)). If the variable is not set, nothing is
sent. The messages come from the event loop itself, so a hung loop sends none, and systemd restarts the daemon
(``WatchdogSec``). launchd gets no notifications; it counts as a service manager too.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import MutableMapping
from types import TracebackType
from typing import Self

log = logging.getLogger(__name__)

VARIABLES = NOTIFY_SOCKET, WATCHDOG_USEC, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
EXEC_PID = "SYSTEMD_EXEC_PID"  # process that systemd itself started (systemd.exec(5)); identifies Type=simple
LAUNCHD = "XPC_SERVICE_NAME", "org.infinitememory.daemon"  # the variable of a job's label, and ours in docs/launchd
PINGS = 3  # per watchdog timeout; sd_watchdog_enabled(3) recommends at least two


class Supervisor:
    """The service manager that runs this process, if any. As a context manager it pings its watchdog.

    The variables are removed from *environ*: they are about this process and not about its children.
    """

    def __init__(self, environ: MutableMapping[str, str]) -> None:
        self.restarts = (
            bool(environ.get(NOTIFY_SOCKET))
            or environ.pop(EXEC_PID, "") == str(os.getpid())
            or environ.get(LAUNCHD[0]) == LAUNCHD[1]
        )
        """Whether a service manager runs this process, and starts it again when it ends with a failure."""
        address, interval, pid = (environ.pop(name, "") for name in VARIABLES)
        self._address = "\0" + address[1:] if address.startswith("@") else address
        is_watched = interval.isdigit() and pid in ("", str(os.getpid()))
        self._interval_s = int(interval) / 1e6 if is_watched else 0.0
        self._pings: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        if self._address and self._interval_s:
            self._pings = asyncio.create_task(self._ping())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._pings is not None:
            self._pings.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._pings

    def report_ready(self) -> None:
        """Notify systemd that the daemon is ready."""
        self._send("READY=1")

    def report_stopping(self) -> None:
        """Notify systemd that the daemon is stopping: it finishes its requests and exits."""
        self._send("STOPPING=1")

    async def _ping(self) -> None:
        while True:
            self._send("WATCHDOG=1")
            await asyncio.sleep(self._interval_s / PINGS)

    def _send(self, message: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
                channel.setblocking(False)
                channel.sendto(message.encode(), self._address)
        except OSError as exc:
            log.warning("systemd was not told %s: %s", message, exc, extra={"event": "systemd_not_told"})
