"""The backup folder: file names, atomic writes and listings.

A backup is named after its creation time (``backup_2023-05-15T10-00-00Z.dump``); a second one in the same second gets ``-2``. A
file is never overwritten: it is named by a hard link, which fails if the name exists. File names in the folder are untrusted, and
no file there can break a listing, a rotation or the verification of another file.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from infinite_memory.backup.archive_format import MAGIC
from infinite_memory.errors import BackupError, BackupNotFoundError, truncated_repr
from infinite_memory.platform_files import find_shortage, open_regular

SUFFIX = ".dump"
NAME = re.compile(r"backup_(\d{4})-(\d\d)-(\d\d)T(\d\d)-(\d\d)-(\d\d)Z(?:-\d+)?\.dump")
PART_SUFFIX = ".part"
PART_NAME = re.compile(r"\..+-[0-9a-f]{12}\.part", re.DOTALL)
ABANDONED_S = 3600  # an unfinished file not written to for an hour belongs to a dead process
YOUNG_S = 10  # younger files may have been created but not locked yet
_MAX_NAME_CHARS = 120  # of a name in a message
_CHECK_EVERY_BYTES = 16 << 20  # written between two checks of the free space
_MAX_OF_A_SECOND = 1000  # files whose names differ only in the numeric suffix


@contextlib.contextmanager
def atomic_write(folder: Path, stem: str, suffix: str, *, is_ours: bool = True) -> Iterator[Target]:
    """Open a temporary file in *folder* that gets its final name only when `Target.publish` is called.

    An unpublished file is removed.

    Args:
        is_ours: Whether the folder is managed by us: created if missing, and cleared of abandoned temporary files.

    Raises:
        BackupError: the folder cannot be written to, or the disk would be nearly full; the latter also during later writes.
    """
    try:
        if is_ours:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_abandoned(folder)
            _check_room(folder)
        part_file = folder / f".{stem}-{secrets.token_hex(6)}{PART_SUFFIX}"
        descriptor = os.open(part_file, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    except OSError as exc:
        raise unwritable(folder, exc) from exc
    file: BinaryIO = _Reserving(descriptor, folder) if is_ours else os.fdopen(descriptor, "w+b")
    _lock(file)
    try:
        yield Target(folder, stem, suffix, part_file, file)
    finally:
        with contextlib.suppress(OSError):  # after a failed write, the flush fails too
            file.close()
        part_file.unlink(missing_ok=True)


class _Reserving(io.BufferedRandom):
    """A file that refuses writes that would leave its disk nearly full."""

    def __init__(self, descriptor: int, folder: Path) -> None:
        super().__init__(io.FileIO(descriptor, "r+b"))
        self._folder, self._unchecked_bytes = folder, 0

    def write(self, data: Any, /) -> int:
        size = memoryview(data).nbytes
        self._unchecked_bytes += size
        if self._unchecked_bytes >= _CHECK_EVERY_BYTES:
            self._unchecked_bytes = 0
            _check_room(self._folder, max(size, _CHECK_EVERY_BYTES))
        return super().write(data)


def _check_room(folder: Path, size: int = 0) -> None:
    """Refuse to write *size* more bytes into a folder if that would leave its disk nearly full."""
    if shortage := find_shortage(folder, size):
        raise BackupError(f"{shortage}; make room, or name a folder on another disk", folder=folder)


class Target:
    """A temporary file, written in the folder of its final name."""

    def __init__(self, folder: Path, stem: str, suffix: str, part: Path, file: BinaryIO) -> None:
        self._folder, self._stem, self._suffix = folder, stem, suffix
        self.part, self.file = part, file

    def sync(self) -> None:
        """Flush everything written to disk.

        Raises:
            OSError: it could not be written.
        """
        self.file.flush()
        os.fsync(self.file.fileno())

    def publish_as(self, name: str) -> Path:
        """Publish the file under exactly this name, and return its new path.

        Raises:
            FileExistsError: a file of that name exists; it is left unchanged.
            OSError: it could not be named.
        """
        target = self._folder / name
        _link(self.part, target)
        sync_folder(self._folder)
        return target

    def publish(self) -> Path:
        """Publish the file under an unused name, and return its new path.

        Raises:
            BackupError: it could not be named.
        """
        for number in range(1, _MAX_OF_A_SECOND):
            name = f"{self._stem}{f'-{number}' if number > 1 else ''}{self._suffix}"
            target = self._folder / name
            try:
                _link(self.part, target)
            except FileExistsError:
                continue
            except OSError as exc:
                raise unwritable(self._folder, exc) from exc
            sync_folder(self._folder)
            return target
        raise BackupError(f"there are {_MAX_OF_A_SECOND} files named {self._stem} already")


def find_backup(folder: Path, name: str) -> Path:
    """Find a backup by its name in *folder*, or by its path.

    Raises:
        BackupNotFoundError: there is no such file.
    """
    if "\0" not in name:
        for candidate in (folder / name if Path(name).name == name else None, Path(name)):
            with contextlib.suppress(OSError):  # the name is too long, or the folder is not accessible
                if candidate is not None and candidate.is_file():
                    return candidate
    raise BackupNotFoundError(f"there is no backup {truncated_repr(name)}")


def find_newest(folder: Path) -> Path:
    """Find the newest backup in *folder*, by the instant in its name.

    Raises:
        BackupNotFoundError: no file there has the name of a backup.
    """
    backups = [file for file in list_names(folder) if NAME.fullmatch(file.name)]
    if not backups:
        raise BackupNotFoundError(f"there is no backup in the folder {folder}", folder=folder)
    return backups[-1]


def find_backup_for_client(folder: Path, name: str) -> Path:
    """Find a backup as `find_backup` does, for a client that must not learn which other files exist.

    The caller may be a model under prompt injection: a path outside the folder is accepted only if it is that of a backup.

    Raises:
        BackupNotFoundError: there is no such backup.
    """
    file = find_backup(folder, name)
    if file.parent != folder:
        begins_as_backup = False
        with contextlib.suppress(OSError), open_regular(file) as opened:
            begins_as_backup = opened.read(len(MAGIC)) == MAGIC
        if not begins_as_backup:
            raise BackupNotFoundError(f"there is no backup {truncated_repr(name)}")
    return file


def display_name(file: Path) -> str:
    """Return a file's name for a message or log line: unprintable characters are escaped, and long names truncated.

    Anyone who can write into the folder chooses names; a line break in one must not start a new log line.
    """
    printable = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in file.name
    )
    return printable if len(printable) <= _MAX_NAME_CHARS else f"{printable[:_MAX_NAME_CHARS]}…"


def list_names(folder: Path) -> list[Path]:
    """Return the files in *folder* with the suffix of backups, oldest first by name; none if the folder does not exist."""
    files = []
    with contextlib.suppress(OSError):
        for file in folder.iterdir():
            with contextlib.suppress(OSError):  # removed in the meantime, or a link into an inaccessible folder
                if file.suffix == SUFFIX and file.is_file():
                    files.append(file)
    return sorted(files, key=lambda file: file.stem)


def make_stem(kind: str, instant: dt.datetime) -> str:
    """Return the stem of a file name: *kind* and an instant, to the second."""
    return f"{kind}_{instant.astimezone(dt.UTC):%Y-%m-%dT%H-%M-%SZ}"


def unwritable(folder: Path, exc: OSError) -> BackupError:
    """Return an error for a file that could not be written; it names the folder, not the file."""
    folder = folder.absolute()
    message = f"the folder {folder} cannot be written to: {exc.strerror or exc}; nothing was kept"
    return BackupError(message, folder=folder)


def sync_folder(folder: Path) -> None:
    """Flush *folder* to disk, so that a new name in it survives a crash, if the system supports that."""
    with contextlib.suppress(OSError, AttributeError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _link(part: Path, target: Path) -> None:
    """Link a file to its final name; rename it if the file system has no hard links.

    Raises:
        FileExistsError: a file of that name exists.
        OSError: it could not be named.
    """
    try:
        target.hardlink_to(part)
    except FileExistsError:
        raise
    except OSError:
        if target.exists():
            raise FileExistsError(target) from None
        part.rename(target)  # a file system without hard links


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files of dead writers; files of other programs have other names and stay."""
    for file in folder.glob(f".*{PART_SUFFIX}"):
        with contextlib.suppress(OSError):
            age_s = time.time() - file.lstat().st_mtime
            if PART_NAME.fullmatch(file.name) and age_s > YOUNG_S and (age_s > ABANDONED_S or _is_unlocked(file)):
                file.unlink()


def _lock(file: BinaryIO) -> None:
    """Mark a file as being written; the lock is released when the process ends, however it ends."""
    with contextlib.suppress(OSError, ImportError):  # Windows, or a file system without locks: its age decides there
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_unlocked(file: Path) -> bool:
    try:
        import fcntl
    except ImportError:
        return False
    with open_regular(file, follow_links=False) as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True
