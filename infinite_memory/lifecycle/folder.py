"""The folder of backups: names, writing beside the target, and what lies there.

A backup's name tells when it was made (``backup_2023-05-15T10-00-00Z.dump``); a second one of the same second gets ``-2``. A
file is never overwritten: it gets its name by a hard link, which fails where there is one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import re
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from infinite_memory.errors import BackupError, BackupNotFoundError, shown

SUFFIX = ".dump"
NAME = re.compile(r"backup_(\d{4})-(\d\d)-(\d\d)T(\d\d)-(\d\d)-(\d\d)Z(?:-\d+)?\.dump")
PART_SUFFIX = ".part"
ABANDONED_S = 3600  # an unfinished file that nobody wrote to for an hour is a dead process's
_MOST_OF_A_SECOND = 1000  # files whose names differ only in the number behind


@contextlib.contextmanager
def written_beside(folder: Path, stem: str, suffix: str) -> Iterator[Target]:
    """Open a new file in *folder* that appears under its name only when `Target.publish` is called.

    Whatever is not published is removed.

    Raises:
        BackupError: the folder cannot be written to.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove_abandoned(folder)
        part = folder / f".{stem}-{secrets.token_hex(6)}{PART_SUFFIX}"
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
    except OSError as problem:
        raise unwritable(folder, problem) from problem
    file = os.fdopen(descriptor, "w+b")
    try:
        yield Target(folder, stem, suffix, part, file)
    finally:
        with contextlib.suppress(OSError):  # what could not be written cannot be flushed either
            file.close()
        part.unlink(missing_ok=True)


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

    def publish(self) -> Path:
        """Give the file its name, one that no file has; returns where it is now.

        Raises:
            BackupError: it could not be named.
        """
        for number in range(1, _MOST_OF_A_SECOND):
            name = f"{self._stem}{f'-{number}' if number > 1 else ''}{self._suffix}"
            target = self._folder / name
            try:
                _name(self.part, target)
            except FileExistsError:
                continue
            except OSError as problem:
                raise unwritable(self._folder, problem) from problem
            sync_folder(self._folder)
            return target
        raise BackupError(f"there are {_MOST_OF_A_SECOND} files named {self._stem} already")


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
    raise BackupNotFoundError(f"there is no backup {shown(name)}")


def list_names(folder: Path) -> list[Path]:
    """List the files in *folder* that end as backups do, oldest first by name; none where there is no folder."""
    try:
        return sorted(
            (one for one in folder.iterdir() if one.suffix == SUFFIX and one.is_file()), key=lambda one: one.stem
        )
    except OSError:
        return []


def stem_of(kind: str, instant: dt.datetime) -> str:
    """Name a file of *kind* after an instant, to the second."""
    return f"{kind}_{instant.astimezone(dt.UTC):%Y-%m-%dT%H-%M-%SZ}"


def unwritable(folder: Path, problem: OSError) -> BackupError:
    """Say that a file could not be written; names the folder and not the file inside."""
    return BackupError(
        f"the folder {folder.name} cannot be written to: {problem.strerror or problem}; nothing was kept"
    )


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
    for one in folder.glob(f".*{PART_SUFFIX}"):
        with contextlib.suppress(OSError):
            if time.time() - one.stat().st_mtime > ABANDONED_S:
                one.unlink()
