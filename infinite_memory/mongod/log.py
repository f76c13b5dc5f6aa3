"""The log of the managed mongod: bounded in size, and read to find out why the server exited."""

from __future__ import annotations

import contextlib
import errno
import json
import time
from pathlib import Path
from typing import Any

from infinite_memory.platform_files import free_bytes

CHECK_S = 30.0
LIMIT_BYTES = 2 * 1024 * 1024
"""The log and its one rotated file together stay under about twice this."""

_LITTLE_BYTES = 1024 * 1024
"""Less free disk space than this is taken as the reason for an exit."""

_TAIL_BYTES = 32 * 1024
"""How much of a log's end is read: some hundred lines, one of which has the reason."""

_LOG_OPENED = 20698
"""The line "***** SERVER RESTARTED *****", the first of every start in the log."""

_ABORTS = (23089, 23090, 23091, 23092, 6384300, 31430)
"""The lines "Fatal assertion", "aborting after fassert() failure", "Writing fatal message" and those of the stack trace: the cause is
in the preceding line."""

_STACK_TRACE = 31430

_MORE_FILES = (
    "raise the hard limit of open files (ulimit -n, LimitNOFILE in a systemd unit, SoftResourceLimits in a launchd one)"
)

_PANIC = -31804
"""WiredTiger's "the process must exit and restart", likewise."""


class MongodLog:
    """The log files of one server."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "mongod.log"
        self.printed = folder / "mongod.out"
        """Output of mongod before it opens its log: wrong options, missing libraries."""
        self._checked_at = 0.0

    def is_due(self) -> bool:
        """True if the log's size is to be checked now: once every `CHECK_S`."""
        if time.monotonic() - self._checked_at < CHECK_S:
            return False
        self._checked_at = time.monotonic()
        return True

    def bound(self) -> bool:
        """Rotate a log that is too large, replacing the file rotated before; True if mongod must reopen its log."""
        with contextlib.suppress(FileNotFoundError):
            if self.file.stat().st_size > LIMIT_BYTES:
                self.file.replace(self.file.with_suffix(".log.1"))
                return True
        return False

    def last_words(self, data: Path) -> str:
        """Return in one line why the server of a data folder exited, if its log says so."""
        if not has_space(data):  # the log does not help then
            return f"there is no space left on the disk of {data}"
        for line in reversed(_tail(self.file)):
            with contextlib.suppress(ValueError, AttributeError):
                entry = json.loads(line)
                if entry.get("s") in ("F", "E") and (cause := _cause(entry)):
                    return cause[:500]
                if entry.get("id") == _LOG_OPENED:
                    break
        lines = [line for line in _tail(self.printed) if line.strip() and not _is_routine(line)]
        return lines[-1][:500] if lines else f"it did not say why; see {self.file}"


def has_space(data: Path) -> bool:
    """True if the disk of a data folder is not full."""
    return free_bytes(data) >= _LITTLE_BYTES


def _cause(entry: dict[str, Any]) -> str | None:
    """Return the cause that an entry gives; None if it only says that the server exits."""
    attributes = entry.get("attr") or {}
    if isinstance(message := attributes.get("message"), dict) and "error_str" in message:  # a message of WiredTiger
        if message.get("error_code") == errno.EMFILE:
            return f"{message['error_str']}; {_MORE_FILES}"
        return None if message.get("error_code") == _PANIC else f"{message.get('msg')}: {message['error_str']}"
    detail = attributes.get("error", "") if entry.get("id") != _STACK_TRACE else ""
    return f"{entry.get('msg')} {detail}".strip() if detail or entry.get("id") not in _ABORTS else None


def _is_routine(line: str) -> bool:
    """True if a line is a log entry that is not an error: mongod prints its first entries of each start."""
    try:
        entry = json.loads(line)
    except ValueError:
        return False
    return isinstance(entry, dict) and entry.get("s") not in ("F", "E")


def _tail(file: Path) -> list[str]:
    """Return the last lines of a file; none if it does not exist."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - _TAIL_BYTES))
            return opened.read().decode(errors="replace").splitlines()
    except OSError:
        return []
