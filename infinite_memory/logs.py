"""Where log lines go: a rotating file in the home, and warnings to standard error. Ids and counts, never memory text.

What libraries print, and the last words of a process that crashes, go to standard error, which is ``logs/daemon.out`` for a daemon
that a client started. That file is put aside when it grows, and at the next start (`greeting`).
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import logging.handlers
import os
import sys

from infinite_memory.config import MIB, LogSettings
from infinite_memory.home import Home

KEPT_FILES = 3  # beside the one being written
PRINTED_BYTES = 1 * MIB


class EventFormatter(logging.Formatter):
    """Puts the name of a line's event behind its message."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Give the line, before a traceback."""
        event = getattr(record, "event", None)
        return super().formatMessage(record) + (f" event={event}" if event else "")


def open_log(home: Home, settings: LogSettings) -> None:
    """Send the package's log lines to ``logs/infinite-memory.log``; the files together stay under four times the limit."""
    handler = logging.handlers.RotatingFileHandler(
        home.logs / "infinite-memory.log",
        maxBytes=settings.file_mb * MIB,
        backupCount=KEPT_FILES,
        encoding="utf-8",
        delay=True,
    )
    handler.setFormatter(EventFormatter("%(asctime)s %(levelname)s %(name)s [%(process)d] %(message)s"))
    console = logging.StreamHandler(sys.stderr)
    console.setLevel(logging.WARNING)
    console.setFormatter(logging.Formatter("infinite-memory: %(message)s"))
    root = logging.getLogger("infinite_memory")
    root.setLevel(settings.level)
    root.handlers = [handler, console]
    root.propagate = False
    logging.raiseExceptions = False  # a full disk must not turn a log line into a failed request


def show_crashes() -> None:
    """Have a fault in a library's machine code print where it came from, which the log cannot do any more."""
    faulthandler.enable()


def bound_printed(home: Home, limit_bytes: int = PRINTED_BYTES) -> None:
    """Put what was printed aside when it grew too large, if it is this process that prints into the home's file."""
    file = home.logs / "daemon.out"
    with contextlib.suppress(OSError):  # a full disk, a folder that is gone: it is tried again
        known = file.stat()
        if known.st_size <= limit_bytes or not os.path.samestat(known, os.fstat(2)):
            return
        file.replace(file.with_suffix(".out.1"))
        fresh = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream in (1, 2):
            if os.path.samestat(known, os.fstat(stream)):
                os.dup2(fresh, stream)
        os.close(fresh)
