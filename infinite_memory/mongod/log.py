"""The log of a mongod of ours: kept small, and read for why it ended."""

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
"""The log and its one predecessor stay under about twice this."""

_LITTLE_BYTES = 1024 * 1024
"""With less space than this on the disk, that is why the server ended."""

_TAIL_BYTES = 32 * 1024
"""What is read of a log's end: some hundred lines, of which one says why."""

_LOG_OPENED = 20698
"""The line "***** SERVER RESTARTED *****", which opens every start in the log."""

_ABORTS = (23089, 23090, 23091, 23092, 6384300, 31430)
"""The lines "Fatal assertion", "aborting after fassert() failure", "Writing fatal message" and those of the stack trace: what was wrong
stands in the one before."""

_STACK_TRACE = 31430

_MORE_FILES = (
    "raise the hard limit of open files (ulimit -n, LimitNOFILE in a systemd unit, SoftResourceLimits in a launchd one)"
)

_PANIC = -31804
"""WiredTiger's "the process must exit and restart", likewise."""


class MongodLog:
    """The files that one server writes besides its data."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "mongod.log"
        self.printed = folder / "mongod.out"
        """What mongod prints before it has a log: wrong options, missing libraries."""
        self._checked_at = 0.0

    def is_due(self) -> bool:
        """True, once every `CHECK_S`, when the log's size is to be checked."""
        if time.monotonic() - self._checked_at < CHECK_S:
            return False
        self._checked_at = time.monotonic()
        return True

    def bound(self) -> bool:
        """Put a log that grew too large aside, over the one put aside before; True when it was, and mongod is to open another."""
        with contextlib.suppress(FileNotFoundError):
            if self.file.stat().st_size > LIMIT_BYTES:
                self.file.replace(self.file.with_suffix(".log.1"))
                return True
        return False

    def last_words(self, data: Path) -> str:
        """Return in one line why the server of a data folder ended, as far as its log says."""
        if not has_space(data):  # its own last words are then of no help
            return f"there is no space left on the disk of {data}"
        for line in reversed(_tail(self.file)):
            with contextlib.suppress(ValueError, AttributeError):
                entry = json.loads(line)
                if entry.get("s") in ("F", "E") and (cause := _cause(entry)):
                    return cause[:500]
                if entry.get("id") == _LOG_OPENED:
                    break
        said = [line for line in _tail(self.printed) if line.strip() and not _is_routine(line)]
        return said[-1][:500] if said else f"it did not say why; see {self.file}"


def has_space(data: Path) -> bool:
    """True if there is some space left on the disk of a data folder."""
    return free_bytes(data) >= _LITTLE_BYTES


def _cause(entry: dict[str, Any]) -> str | None:
    """Return what an entry says is wrong; None for those that only tell that the server ends."""
    attributes = entry.get("attr") or {}
    if isinstance(told := attributes.get("message"), dict) and "error_str" in told:  # WiredTiger's own words
        if told.get("error_code") == errno.EMFILE:
            return f"{told['error_str']}; {_MORE_FILES}"
        return None if told.get("error_code") == _PANIC else f"{told.get('msg')}: {told['error_str']}"
    detail = attributes.get("error", "") if entry.get("id") != _STACK_TRACE else ""
    return f"{entry.get('msg')} {detail}".strip() if detail or entry.get("id") not in _ABORTS else None


def _is_routine(line: str) -> bool:
    """True if a line is an entry of a log that tells of nothing wrong: mongod prints the first ones of each start."""
    try:
        entry = json.loads(line)
    except ValueError:
        return False
    return isinstance(entry, dict) and entry.get("s") not in ("F", "E")


def _tail(file: Path) -> list[str]:
    """Return the last lines of a file, none when it is not there."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - _TAIL_BYTES))
            return opened.read().decode(errors="replace").splitlines()
    except OSError:
        return []
