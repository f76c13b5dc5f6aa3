"""Prints where the files of a test run go, for `scripts/test`: a new folder in memory where there is room, else nothing.

A run makes some thousand databases and writes each to the disk before it goes on: on a disk it waits for that longer than for all else.
What a kill leaves is the same in both places. A folder of one's own is given by ``TMPDIR``.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

IN_MEMORY = Path("/dev/shm")
GIB = 1 << 30
FREE_BYTES = 8 * GIB
AVAILABLE_BYTES = 16 * GIB  # what four processes with models and their servers take is among it


def make_folder() -> Path | None:
    """Return a new folder in memory that other users may pass through; None where there is too little room, or programs may not run."""
    if not IN_MEMORY.is_dir() or shutil.disk_usage(IN_MEMORY).free < FREE_BYTES or _available_bytes() < AVAILABLE_BYTES:
        return None
    if os.statvfs(IN_MEMORY).f_flag & os.ST_NOEXEC:
        return None
    folder = Path(tempfile.mkdtemp(prefix="im-", dir=IN_MEMORY))
    folder.chmod(0o1777)
    return folder


def _available_bytes() -> int:
    lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    [kib] = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
    return int(kib) * 1024


if __name__ == "__main__":
    print(make_folder() or "")
