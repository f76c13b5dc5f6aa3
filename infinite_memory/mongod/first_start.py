"""The first start of a MongoDB server on a new data folder: marked until the server accepts writes, and repeated if interrupted.

A server that is killed while it initiates its replica set leaves a folder on which it never starts again ("missing
featureCompatibilityVersion document"). A folder that still has the mark never received a write, so starting over loses nothing. Its
content is moved aside all the same, and only if the server exited on it by itself.
"""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

log = logging.getLogger(__name__)

MARK_NAME = "first_start"
ASIDE_NAME = "mongodb.unfinished"
_DATA_FILE = "WiredTiger"
"""The first file that the storage engine writes."""


class FirstStart:
    """The mark of one data folder.

    Args:
        data: The data folder; it may not exist yet.
        own_names: Our own files in it: locks and sockets.
    """

    def __init__(self, data: Path, *, own_names: tuple[str, ...]) -> None:
        self._data = data
        self._mark = data / MARK_NAME
        self._own_names = (*own_names, MARK_NAME)

    def begin(self) -> None:
        """Mark the folder, unless a server has run in it before."""
        if not (self._data / _DATA_FILE).exists():
            self._mark.touch(mode=0o600)

    def is_under_way(self) -> bool:
        """True if the server of this folder has never accepted a write."""
        return self._mark.exists()

    def end(self) -> None:
        """Remove the mark durably, before the first write: it does not reappear after a power failure."""
        try:
            self._mark.unlink()
        except FileNotFoundError:
            return
        fd = os.open(self._data, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def put_aside(self) -> bool:
        """Empty a marked folder for another start; True if it had content, which is moved next to it, replacing any moved earlier."""
        remaining = (
            [file for file in self._data.iterdir() if file.name not in self._own_names] if self.is_under_way() else []
        )
        if not remaining:
            return False
        aside = self._data.parent / ASIDE_NAME
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(mode=0o700)
        for file in remaining:
            file.rename(aside / file.name)
        log.warning(
            "the first start of MongoDB was cut short and begins again; what it left is in %s",
            aside,
            extra={"event": "mongod_first_start_again"},
        )
        return True
