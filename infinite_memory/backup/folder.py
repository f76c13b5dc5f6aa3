"""The folder of backups: names, writing beside the target, and what lies there.

A backup's name tells when it was made (``backup_2023-05-15T10-00-00Z.dump``); a second one of the same second gets ``-2``. A
file is never overwritten: it gets its name by a hard link, which fails where there is one. Names of files that lie there were
perhaps chosen by somebody else; nothing in the folder stops a list, a rotation or the check of another file.
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
ABANDONED_S = 3600  # an unfinished file that nobody wrote to for an hour is a dead process's
YOUNG_S = 10  # before, a file may have been made and not yet locked
_MAX_NAME_CHARS = 120
_LOOK_AGAIN_BYTES = 16 << 20
_MAX_OF_A_SECOND = 1000  # files whose names differ only in the number behind


@contextlib.contextmanager
def atomic_write(folder: Path, stem: str, suffix: str, *, is_ours: bool = True) -> Iterator[Target]:
    """Open a new file in *folder* that appears under its name only when `Target.publish` is called.

    Whatever is not published is removed.

    Args:
        is_ours: Whether the folder is one of ours, which is made where it is missing, and cleared of what died unfinished.

    Raises:
        BackupError: the folder cannot be written to, or the disk would be nearly full; the latter also while it is written.
    """
    try:
        if is_ours:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _remove_abandoned(folder)
            _check_room(folder)
        part = folder / f".{stem}-{secrets.token_hex(6)}{PART_SUFFIX}"
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    except OSError as exc:
        raise unwritable(folder, exc) from exc
    file: BinaryIO = _Reserving(descriptor, folder) if is_ours else os.fdopen(descriptor, "w+b")
    _lock(file)
    try:
        yield Target(folder, stem, suffix, part, file)
    finally:
        with contextlib.suppress(OSError):  # what could not be written cannot be flushed either
            file.close()
        part.unlink(missing_ok=True)


class _Reserving(io.BufferedRandom):
    """A file that is not written on where its disk would be nearly full."""

    def __init__(self, descriptor: int, folder: Path) -> None:
        super().__init__(io.FileIO(descriptor, "r+b"))
        self._folder, self._unseen = folder, 0

    def write(self, data: Any, /) -> int:
        size = memoryview(data).nbytes
        self._unseen += size
        if self._unseen >= _LOOK_AGAIN_BYTES:
            self._unseen = 0
            _check_room(self._folder, max(size, _LOOK_AGAIN_BYTES))
        return super().write(data)


def _check_room(folder: Path, size: int = 0) -> None:
    """Refuse to write *size* bytes more into a folder where its disk would be nearly full."""
    if shortage := find_shortage(folder, size):
        raise BackupError(f"{shortage}; make room, or name a folder on another disk", folder=folder)


class Target:
    """A file that is being written beside its later name."""

    def __init__(self, folder: Path, stem: str, suffix: str, part: Path, file: BinaryIO) -> None:
        self._folder, self._stem, self._suffix = folder, stem, suffix
        self.part, self.file = part, file

    def sync(self) -> None:
        """Bring all that was written to the disk.

        Raises:
            OSError: it could not be written.
        """
        self.file.flush()
        os.fsync(self.file.fileno())

    def publish_as(self, name: str) -> Path:
        """Rename the file to exactly this name, and return where it is now.

        Raises:
            FileExistsError: there is a file of that name, which stays as it is.
            OSError: it could not be named.
        """
        target = self._folder / name
        _name(self.part, target)
        sync_folder(self._folder)
        return target

    def publish(self) -> Path:
        """Rename the file to one that no file has, and return where it is now.

        Raises:
            BackupError: it could not be named.
        """
        for number in range(1, _MAX_OF_A_SECOND):
            name = f"{self._stem}{f'-{number}' if number > 1 else ''}{self._suffix}"
            target = self._folder / name
            try:
                _name(self.part, target)
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
            with contextlib.suppress(OSError):  # too long for a name, or in a folder that may not be looked into
                if candidate is not None and candidate.is_file():
                    return candidate
    raise BackupNotFoundError(f"there is no backup {truncated_repr(name)}")


def find_newest(folder: Path) -> Path:
    """Find the newest backup in *folder*, by the instant in its name.

    Raises:
        BackupNotFoundError: no file there is named as backups are.
    """
    named = [file for file in list_names(folder) if NAME.fullmatch(file.name)]
    if not named:
        raise BackupNotFoundError(f"there is no backup in the folder {folder}", folder=folder)
    return named[-1]


def find_backup_for_client(folder: Path, name: str) -> Path:
    """Find a backup as `find_backup` does, for somebody who is not to learn which other files there are.

    Whoever asks may be a model that was talked into it: a path that leads elsewhere counts only if it is that of a backup.

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
    """Return a file's name for a message or log line: what cannot be printed is escaped, and it is cut when long.

    Whoever can write into the folder chooses names; a line end in one must not begin a line of its own in a log.
    """
    printable = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in file.name
    )
    return printable if len(printable) <= _MAX_NAME_CHARS else f"{printable[:_MAX_NAME_CHARS]}…"


def list_names(folder: Path) -> list[Path]:
    """List the files in *folder* that end as backups do, oldest first by name; none where there is no folder."""
    found = []
    with contextlib.suppress(OSError):
        for file in folder.iterdir():
            with contextlib.suppress(OSError):  # it went meanwhile, or leads into a folder that may not be looked into
                if file.suffix == SUFFIX and file.is_file():
                    found.append(file)
    return sorted(found, key=lambda file: file.stem)


def make_stem(kind: str, instant: dt.datetime) -> str:
    """Name a file of *kind* after an instant, to the second."""
    return f"{kind}_{instant.astimezone(dt.UTC):%Y-%m-%dT%H-%M-%SZ}"


def unwritable(folder: Path, problem: OSError) -> BackupError:
    """Return an error for a file that could not be written; it names the folder and not the file inside."""
    folder = folder.absolute()
    said = f"the folder {folder} cannot be written to: {problem.strerror or problem}; nothing was kept"
    return BackupError(said, folder=folder)


def sync_folder(folder: Path) -> None:
    """Bring a new name in *folder* to the disk, where the system knows how."""
    with contextlib.suppress(OSError, AttributeError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _name(part: Path, target: Path) -> None:
    try:
        target.hardlink_to(part)
    except FileExistsError:
        raise
    except OSError:
        if target.exists():
            raise FileExistsError(target) from None
        part.rename(target)  # a file system without hard links


def _remove_abandoned(folder: Path) -> None:
    """Remove unfinished files whose writers are gone; those of other programs, named otherwise, stay."""
    for file in folder.glob(f".*{PART_SUFFIX}"):
        with contextlib.suppress(OSError):
            age_s = time.time() - file.lstat().st_mtime
            if PART_NAME.fullmatch(file.name) and age_s > YOUNG_S and (age_s > ABANDONED_S or _is_unlocked(file)):
                file.unlink()


def _lock(file: BinaryIO) -> None:
    """Mark a file as being written; the mark goes with the process, however that ends."""
    with contextlib.suppress(OSError, ImportError):  # Windows, or a file system without locks: there time decides
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
