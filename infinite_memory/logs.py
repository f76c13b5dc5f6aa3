"""Where log lines go: a rotating file in the home, and warnings to standard error. Ids and counts, never memory text."""

from __future__ import annotations

import logging
import logging.handlers
import sys

from infinite_memory.config import MIB, LogSettings
from infinite_memory.home import Home

KEPT_FILES = 3  # beside the one being written


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
