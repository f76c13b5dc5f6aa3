"""Limits of an import: a file from elsewhere may be broken or malicious."""

from __future__ import annotations

import threading
import time

from infinite_memory.errors import InfiniteMemoryError

MAX_BYTES = 4 << 30  # in total; the largest known exports are a few hundred megabytes of text
MAX_FILES = 100_000  # in a folder or archive; a very large vault has about ten thousand notes
MAX_FOLDERS_DEEP = 32  # no known vault nests notes that deep, and each level keeps a descriptor open
MAX_ENTRIES = 5_000_000  # memories of one import; their ids are kept in memory, some 100 bytes each
MAX_REFUSED = 100_000  # invalid entries that are reported one by one: with more the file is not what it seems, and each takes time
MAX_RECORD_BYTES = 32 << 20  # one JSON record; a ChatGPT conversation is one, and the longest known have some 20 MiB
MAX_RECORD_PARTS = 500_000  # lists, objects and commas in a record: empty lists take 30 times their length when parsed
MAX_RECORD_LEVELS = 100  # of nesting; the JSON parser recurses
MAX_ROW_BYTES = 4 << 20  # one row of a table: a text of the largest kind, quoted, with all that is said about it
MAX_NOTE_BYTES = 16 << 20  # a file that is read whole
MAX_FRONT_MATTER_BYTES = 64 << 10  # people write a kilobyte; the YAML library takes a second for this much
MAX_ARCHIVE_INDEX_BYTES = 8 << 20  # an archive's central directory, kept in memory: over `MAX_FILES` usual names
MAX_UNFOLDING = 200  # times the archive's size; text compresses 5 to 30 times, only a bomb 200 times
MIN_UNFOLDED_BYTES = 64 << 20  # always allowed, for small archives of very regular text
MAX_SILENT_S = 120.0  # without one entry; a disk reads `MAX_BYTES` in half of that


class CapReachedError(InfiniteMemoryError):
    """An import has reached a limit; entries read before it are kept."""

    code = "limit_exceeded"


class Budget:
    """Resources used by one import. Its reader spends them; `cancel` stops it, from any thread."""

    def __init__(self, max_bytes: int = MAX_BYTES, max_silent_s: float = MAX_SILENT_S) -> None:
        self._remaining, self._max_bytes, self._max_silent_s = max_bytes, max_bytes, max_silent_s
        self._cancelled = threading.Event()
        self.renew()

    def renew(self) -> None:
        """Restart the time limit for the next entry."""
        self._until = time.monotonic() + self._max_silent_s

    def cancel(self) -> None:
        """Make the reader stop at its next check."""
        self._cancelled.set()

    @property
    def is_used_up(self) -> bool:
        """True if the reader has to stop at once, without a message."""
        return self._cancelled.is_set() or time.monotonic() > self._until

    def check(self) -> None:
        """Raise `CapReachedError` if the reader was cancelled or is too slow."""
        if self._cancelled.is_set():
            raise CapReachedError("the import was cancelled")
        if time.monotonic() > self._until:
            raise CapReachedError(f"nothing was found in it for {self._max_silent_s:.0f} s")

    def spend(self, size_bytes: int) -> None:
        """Count bytes read.

        Raises:
            CapReachedError: a limit was reached, the reader was cancelled, or it is too slow.
        """
        self._remaining -= size_bytes
        if self._remaining < 0:
            raise CapReachedError(f"an import reads {self._max_bytes >> 20:,} MiB at most")
        self.check()
