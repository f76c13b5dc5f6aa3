"""Limits the resident memory of the index: pages of mapped files are released after searches.

Pages of a mapped file can always be reclaimed by the system, but pages that were read count towards the daemon's RSS, and the kernel maps
64 KiB to 2 MiB around each address that is read: one recall among a million memories would leave most of their vectors, 768 MiB, resident.
So the index releases pages above a bound after a search. They stay in the page cache; mapping one again takes a few microseconds.
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
"""Maximum bytes of mapped files, the program's own included, that may be resident after a search."""

SMALL_SHARE = 16
"""Arrays smaller than the bound divided by this are left alone: 40,000 memories."""

_STATM = Path("/proc/self/statm")


class Mapped:
    """A read-only array in a mapped file. Threads may share it."""

    def __init__(self, rows: NDArray[Any], source: object) -> None:
        """Take the array, and the object that keeps its file mapped."""
        self.rows, self._source = rows, source
        self.given_back_at = time.monotonic()  # nothing of it is resident yet

    def release_pages(self) -> None:
        """Release the pages from this process; reads, even concurrent ones, map them again."""
        self.given_back_at = time.monotonic()
        start = -(-self.rows.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
        end = (self.rows.ctypes.data + self.rows.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
        if end > start:
            ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(end - start), mmap.MADV_DONTNEED)


def resident_bytes() -> int:
    """Return the resident bytes of all mapped files of this process; 0 on systems other than Linux, where it is unknown."""
    return int(_STATM.read_bytes().split()[2]) * mmap.PAGESIZE if sys.platform == "linux" else 0


def enforce_rss_limit(bound: int, arrays: Iterable[Mapped]) -> None:
    """Release pages of *arrays*, least recently released first, while more than *bound* bytes of mapped files are resident.

    Nothing is checked if *arrays* are small compared to the bound: asking the system takes as long as searching them.
    """
    by_age = sorted(arrays, key=lambda array: array.given_back_at)
    if sum(array.rows.nbytes for array in by_age) * SMALL_SHARE <= bound:
        return
    for mapped in by_age:
        if resident_bytes() <= bound:
            return
        mapped.release_pages()
