"""What differs between systems about files: opening without waiting, locks, replacing a file that somebody reads, and free space.

POSIX locks a whole file by ``flock``; Windows locks its first byte and gives up waiting after ten seconds, so waiting is done here. It
also refuses to replace a file that another process has open, mostly for the moment of a read. Standard library only: clients and
hooks import this. The part for Windows was never run there; `tests/unit/test_platforms.py` runs it with a stand-in for ``msvcrt`` of the
documented behaviour.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path
from typing import Any, BinaryIO

REPLACE_AGAIN_S = 0.05
REPLACE_S = 1.0  # how long a reader is waited for
_LOCK_AGAIN_S = 0.05
MAX_TEXT_BYTES = 16 << 20  # of a file that is read whole for its text: settings, records, files of clients
RESERVE_BYTES, RESERVE_SHARE = 256 << 20, 10
"""Of the disk of a folder that we write large files to so much, or a tenth of the disk, stays free: on a full one the database ends."""


def open_regular(file: Path, *, follow_links: bool = True) -> BinaryIO:
    """Open a regular file for reading; never waits, as the opening of a pipe or device may.

    Raises:
        OSError: it cannot be read, or is a folder, pipe, socket or device, or a link where links are not followed.
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
    """Read a regular file's text in UTF-8, with or without a mark of the byte order.

    Raises:
        OSError: as `open_regular`, or it is larger than *limit_bytes*.
        UnicodeDecodeError: it is no UTF-8.
    """
    with open_regular(file, follow_links=follow_links) as opened:
        data = opened.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {limit_bytes:,} bytes", str(file))
    return data.decode("utf-8-sig")


def check_regular(file: Path) -> None:
    """Refuse to write to what is not a regular file, which may wait for ever; a file that does not exist yet is in order.

    Raises:
        OSError: it is a folder, pipe, socket or device.
    """
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "it is not a regular file", str(file))


def lock_file(descriptor: int, *, wait: bool) -> bool:
    """Take an exclusive lock on an open file, which closing it gives back; False where another has it and *wait* is not set."""
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
    """Put *source* in the place of *target*, at once for every reader.

    Raises:
        OSError: it cannot be done; on Windows, that somebody has *target* open for longer than `REPLACE_S`.
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
    """Make a folder, and those above it that are missing, for the user alone, whatever the umask leaves to others.

    Raises:
        OSError: it cannot be made.
    """
    for one in reversed([folder, *folder.parents]):
        if not one.is_dir():
            one.mkdir(mode=0o700, exist_ok=True)


def set_file_aside(file: Path, other: Path) -> bool:
    """Rename a file over *other*; False where Windows keeps it in its place, because somebody has it open."""
    try:
        file.replace(other)
    except PermissionError:
        if os.name == "posix":
            raise
        return False
    return True


def free_bytes(folder: Path) -> int:
    """Return how many bytes this user may still write to the disk of a folder.

    Raises:
        OSError: the folder is not there.
    """
    import shutil  # a hook has no need of it

    return shutil.disk_usage(folder).free


def find_shortage(folder: Path, size: int = 0, *, name: str | None = None) -> str | None:
    """Return why *size* more bytes must not be written into a folder: its disk would be nearly full. None where it has room.

    Args:
        name: What the folder is called; by default its whole path.

    Raises:
        OSError: the folder is not there.
    """
    import shutil

    total, _, free = shutil.disk_usage(folder)
    reserve = min(RESERVE_BYTES, total // RESERVE_SHARE)
    if free >= reserve + size:
        return None
    message = f"No space left in the folder {name or folder}: of its disk {free >> 20} MB are free, and {reserve >> 20} MB stay so"
    return f"{message}, for a full disk ends the database"
