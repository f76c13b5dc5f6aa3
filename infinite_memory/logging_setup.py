"""Logging to a rotating file in the home, and of warnings to standard error. Ids and counts, never memory text.

Output of libraries, and the traceback of a crash, go to standard error, which is ``logs/daemon.out`` for a daemon started by a
client. That file is rotated when it grows, and at the next start (`daemon.handshake`).
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import logging.handlers
import os
import re
import shutil
import sys
import threading
import traceback
from types import TracebackType
from typing import Any

from infinite_memory.paths import Home
from infinite_memory.platform_files import check_regular
from infinite_memory.redaction import redacted
from infinite_memory.settings import MIB, LogSettings

MAX_FILES = 3  # in addition to the current one
PRINTED_BYTES = 1 * MIB


_CONTROL = {
    code: f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
} | {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}
_CONTROL_BUT_ENDS = {code: text for code, text in _CONTROL.items() if chr(code) not in "\n\t"}


_LIKE_RECORD = re.compile(r"^(?=\d{4}-\d\d-\d\d|infinite-memory:)", re.MULTILINE)


class EventFormatter(logging.Formatter):
    """Appends the event's name to the message, with one line per record: logged text cannot forge another record.

    A traceback follows; lines in it that look like a record are indented. Secret settings are redacted in both.
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a record, without traceback."""
        event = getattr(record, "event", None)
        line = super().formatMessage(record) + (f" event={event}" if event else "")
        return redacted(line).translate(_CONTROL)

    def formatException(self, ei: Any) -> str:
        """Return a traceback."""
        return indented(super().formatException(ei))


def indented(text: str) -> str:
    """Return a traceback in a form that cannot be confused with log records."""
    return _LIKE_RECORD.sub("    ", redacted(text).translate(_CONTROL_BUT_ENDS))


def open_log(home: Home, settings: LogSettings) -> None:
    """Send the package's log records to ``logs/infinite-memory.log``; the files together stay under four times the limit.

    Raises:
        OSError: the path exists and is not a regular file.
    """
    check_regular(home.logs / "infinite-memory.log")
    handler = logging.handlers.RotatingFileHandler(
        home.logs / "infinite-memory.log",
        maxBytes=settings.file_mb * MIB,
        backupCount=MAX_FILES,
        encoding="utf-8",
        delay=True,
    )
    handler.setFormatter(EventFormatter("%(asctime)s %(levelname)s %(name)s [%(process)d] %(message)s"))
    console = logging.StreamHandler(sys.stderr)
    console.setLevel(logging.WARNING)
    console.setFormatter(EventFormatter("infinite-memory: %(message)s"))
    if logging.lastResort is not None:  # warnings of libraries
        logging.lastResort.setFormatter(EventFormatter())
    sys.excepthook = _print_redacted
    threading.excepthook = _print_redacted_of_thread
    root = logging.getLogger("infinite_memory")
    root.setLevel(settings.level)
    root.handlers = [handler, console]
    root.propagate = False
    logging.raiseExceptions = False  # a full disk must not turn a log line into a failed request


def _print_redacted(kind: type[BaseException], exc: BaseException, trace: TracebackType | None) -> None:
    if sys.stderr is not None:
        print(redacted("".join(traceback.format_exception(kind, exc, trace))), end="", file=sys.stderr)


def _print_redacted_of_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None and failed.exc_type is not SystemExit:
        _print_redacted(failed.exc_type, failed.exc_value, failed.exc_traceback)


def reopen_log() -> None:
    """Close the log file; the next record reopens it, in case it was moved."""
    for handler in logging.getLogger("infinite_memory").handlers:
        if isinstance(handler, logging.FileHandler):
            handler.close()


def show_crashes() -> None:
    """Print a traceback on a crash in native code, where logging no longer works."""
    faulthandler.enable()


def bound_printed(home: Home, limit_bytes: int = PRINTED_BYTES) -> None:
    """Rotate ``daemon.out`` if it is too large and is this process's standard error."""
    file = home.logs / "daemon.out"
    with contextlib.suppress(OSError):  # disk full, or folder missing: retried later
        status = file.stat()
        if status.st_size <= limit_bytes or not os.path.samestat(status, os.fstat(2)):
            return
        if os.name != "posix":  # an open file cannot be renamed there
            with contextlib.suppress(OSError):
                shutil.copyfile(file, file.with_suffix(".out.1"))
            _empty_printed()
            return
        try:
            fresh = os.open(file.with_suffix(".out.new"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        except OSError:  # no file can be opened: the output is discarded
            _empty_printed()
            return
        file.replace(file.with_suffix(".out.1"))
        file.with_suffix(".out.new").replace(file)
        for stream in (1, 2):
            if os.path.samestat(status, os.fstat(stream)):
                os.dup2(fresh, stream)
        os.close(fresh)


def _empty_printed() -> None:
    os.ftruncate(2, 0)
    os.lseek(2, 0, os.SEEK_SET)
