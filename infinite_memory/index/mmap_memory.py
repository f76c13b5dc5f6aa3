"""What of the sidecar's memory goes back to the system: pages of mapped files.

A mapped file costs no memory that the system could not take back, but what is read of it counts to the daemon, and the
system maps 64 KiB to 2 MiB around each address that is read: one recall among a million memories would leave most of
their vectors, 768 MiB, on its account. So the sidecar gives pages back after a search, as many as lie above a bound.
They stay in the system's cache; to map one again takes a few microseconds.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_RESIDENT = 512 << 20
"""Bytes of mapped files, the program's own among them, that may be in memory when a search has ended."""

SMALL_SHARE = 16
"""Arrays of at most one in so many bytes of the bound are left alone; they are of 40,000 memories."""

_STATM = Path("/proc/self/statm")


class Mapped:
    """A read-only array in a mapped file. Threads may share it."""

    def __init__(self, rows: NDArray[Any], source: object) -> None:
        """Take the array, and what keeps its file mapped."""
        self.rows, self._source = rows, source
        self.given_back_at = time.monotonic()  # nothing of it is in memory yet

    def release_pages(self) -> None:
        """Take the pages out of this process; whoever reads them, now even, maps them again."""
        self.given_back_at = time.monotonic()
        start = -(-self.rows.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (self.rows.ctypes.data + self.rows.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
        if end > start:
            ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


def resident_bytes() -> int:
    """Return how much of all mapped files this process has in memory; 0 where the system does not say (other than Linux)."""
    return int(_STATM.read_bytes().split()[2]) * mmap.PAGESIZE if sys.platform == "linux" else 0


def enforce_rss_limit(bound: int, arrays: Iterable[Mapped]) -> None:
    """Release pages of *arrays*, the longest held first, while more than *bound* bytes of mapped files are in memory.

    Nothing is looked at where *arrays* are small beside the bound: to ask the system takes as long as to search in them.
    """
    held = sorted(arrays, key=lambda array: array.given_back_at)
    if sum(array.rows.nbytes for array in held) * SMALL_SHARE <= bound:
        return
    for one in held:
        if resident_bytes() <= bound:
            return
        one.release_pages()
