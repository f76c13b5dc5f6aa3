"""Platform differences for files: non-blocking open, locks, replacing a file that is being read, and free space.

POSIX locks a whole file by ``flock``; Windows locks its first byte and gives up waiting after ten seconds, so waiting is done here. It
also refuses to replace a file that another process has open, usually for the duration of a read. Standard library only: clients and
hooks import this. The Windows code was never run there; `tests/unit/test_platforms.py` runs it with a fake ``msvcrt`` that behaves as
documented.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path
from typing import Any, BinaryIO

REPLACE_AGAIN_S = 0.05
REPLACE_S = 1.0  # how long to wait for a reader
_LOCK_AGAIN_S = 0.05
MAX_TEXT_BYTES = 16 << 20  # of a text file that is read whole: settings, records, files of clients
RESERVE_BYTES, RESERVE_SHARE = 256 << 20, 10
"""Free space kept on disks that we write large files to: this, or a tenth of a smaller disk. The database exits on a full disk."""


def open_regular(file: Path, *, follow_links: bool = True) -> BinaryIO:
    """Open a regular file for reading; never blocks, as opening a pipe or device may.

    Raises:
        OSError: it cannot be read, or is a folder, pipe, socket or device, or a link and links are not followed.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
    flags |= 0 if follow_links else getattr(os, "O_NOFOLLOW", 0)
    descriptor = os.open(file, flags)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(file))
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular_text(file: Path, *, follow_links: bool = True, limit_bytes: int = MAX_TEXT_BYTES) -> str:
    """Read a regular file as UTF-8, with or without a byte order mark.

    Raises:
        OSError: as `open_regular`, or it is larger than *limit_bytes*.
        UnicodeDecodeError: it is not UTF-8.
    """
    with open_regular(file, follow_links=follow_links) as opened:
        data = opened.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {limit_bytes:,} bytes", str(file))
    return data.decode("utf-8-sig")


def check_regular(file: Path) -> None:
    """Refuse a path that is not a regular file, as writing to it may block forever; a file that does not exist yet is accepted.

    Raises:
        OSError: it is a folder, pipe, socket or device.
    """
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file", str(file))


def lock_file(descriptor: int, *, wait: bool) -> bool:
    """Take an exclusive lock on an open file, released by closing it; False if another process holds it and *wait* is false."""
    try:
        import fcntl
    except ImportError:
        return _lock_byte(descriptor, wait=wait)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _lock_byte(descriptor: int, *, wait: bool) -> bool:
    msvcrt: Any = __import__("msvcrt")
    while True:
        try:
            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            if not wait:
                return False
            time.sleep(_LOCK_AGAIN_S)
        else:
            return True


def replace_file(source: Path, target: Path, *, system: str = os.name) -> None:
    """Replace *target* with *source* atomically.

    Raises:
        OSError: it failed; on Windows also if *target* stays open in another process for longer than `REPLACE_S`.
    """
    deadline = time.monotonic() + REPLACE_S
    while True:
        try:
            source.replace(target)
        except PermissionError:
            if system != "nt" or time.monotonic() >= deadline:
                raise
            time.sleep(REPLACE_AGAIN_S)
        else:
            return


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents, all private to the user, whatever the umask is.

    Raises:
        OSError: it cannot be created.
    """
    for directory in reversed([folder, *folder.parents]):
        if not directory.is_dir():
            directory.mkdir(mode=0o700, exist_ok=True)


def set_file_aside(file: Path, target: Path) -> bool:
    """Rename a file over *target*; False if Windows refuses because it is open."""
    try:
        file.replace(target)
    except PermissionError:
        if os.name == "posix":
            raise
        return False
    return True


def free_bytes(folder: Path) -> int:
    """Return the free space for this user on the disk of a folder, in bytes.

    Raises:
        OSError: the folder does not exist.
    """
    import shutil  # lazily: hooks do not need it

    return shutil.disk_usage(folder).free


def compute_reserve(total_bytes: int) -> int:
    """Return how many bytes of a disk stay free, for a full disk ends the database."""
    return min(RESERVE_BYTES, total_bytes // RESERVE_SHARE)


def find_shortage(folder: Path, size: int = 0, *, name: str | None = None) -> str | None:
    """Return why *size* more bytes must not be written into a folder: its disk would be nearly full. None if there is enough space.

    Args:
        name: The folder's name in the message; by default its full path.

    Raises:
        OSError: the folder does not exist.
    """
    import shutil

    total, _, free = shutil.disk_usage(folder)
    reserve = compute_reserve(total)
    if free >= reserve + size:
        return None
    message = f"No space left in the folder {name or folder}: of its disk {free >> 20} MB are free, and {reserve >> 20} MB stay so"
    return f"{message}, for a full disk ends the database"
