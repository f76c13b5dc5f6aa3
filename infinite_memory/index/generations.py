"""Generations: the numbered folders in which every index is saved, written atomically and verified when loaded.

A generation is a folder such as ``generation-00000012`` with the files of one index and a manifest whose format the index defines
(`vector/header.py`, `text/manifest.py`). This module creates, finds and removes the folders, and writes, links and verifies their files.
Only one process writes at a time (the daemon). There are two ways to create one:

- `writing`: under a name that ends in ``.tmp``; every file and the folder are synced, the folder is renamed, its parent is synced, and only
  then older ones are removed. A crash, a full disk or a kill at any moment leaves the old generation or the new one, and at most a
  ``.tmp`` folder that the next start or save removes.
- `create`: in place, for a library that keeps its own files there while in use and commits itself; the generation is valid once its
  manifest is written.

An unchanged file is not written again: the new generation gets a hard link to it. It keeps its original checksum, so that later
corruption is detected on load.

Checksums are CRC-32: they only have to detect accidental corruption, and run at 7 GB/s, BLAKE2 at 1.4 GB/s.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from infinite_memory.errors import SidecarDamagedError

Buffer = bytes | NDArray[np.uint8]

_UNFINISHED = ".tmp"
_BLOCK = 1 << 20  # bytes read at a time


@dataclass(frozen=True, slots=True)
class Saved:
    """A file of a generation, with its size and checksum as written."""

    path: Path
    size: int
    crc32: int

    def to_json(self) -> dict[str, int]:
        """Return the file's entry in a manifest."""
        return {"size": self.size, "crc32": self.crc32}


@dataclass(frozen=True, slots=True)
class Unchanged:
    """A file that is saved already; ``content`` is written if it cannot be linked."""

    saved: Saved
    content: Callable[[], Sequence[Buffer]]


class Generations:
    """The generations of one index in a folder that may contain other files too. Folders are accessible to their owner only."""

    def __init__(self, folder: Path, name: str) -> None:
        """Take the folder and the prefix of its generations' names."""
        self.folder, self._name = folder, name
        self._pattern = re.compile(rf"{re.escape(name)}-(\d{{8}})")

    def path(self, number: int) -> Path:
        """Return the folder of a generation."""
        return self.folder / f"{self._name}-{number:08d}"

    def numbers(self) -> list[int]:
        """List the existing generations, oldest first."""
        if not self.folder.is_dir():
            return []
        return sorted(
            int(match[1]) for entry in self.folder.iterdir() if (match := self._pattern.fullmatch(entry.name))
        )

    def newest(self, containing: str | None = None) -> int | None:
        """Return the number of the newest generation, or of the newest *containing* such a file; None if there is none."""
        numbers = (number for number in reversed(self.numbers()))
        return next(
            (number for number in numbers if containing is None or (self.path(number) / containing).is_file()), None
        )

    def create(self) -> Path:
        """Create the folder of the next generation, in place.

        Raises:
            OSError: it cannot be created.
        """
        target = self.path(self._next())
        target.mkdir(mode=0o700, parents=True)
        return target

    @contextlib.contextmanager
    def writing(self) -> Iterator[tuple[int, Path]]:
        """Yield the number of the next generation and an empty folder for its files.

        When the block ends, the generation is committed and older ones are removed; if it fails, nothing changes.

        Raises:
            OSError: it cannot be written (disk full, for example).
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.remove_old()
        number = self._next()
        target = self.path(number)
        unfinished = target.with_name(target.name + _UNFINISHED)
        unfinished.mkdir(mode=0o700)
        try:
            yield number, unfinished
            _sync(unfinished)
            unfinished.rename(target)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise
        _sync(self.folder)
        self.remove_old()

    def remove_old(self, keep: Path | None = None) -> None:
        """Remove leftovers of an interrupted `writing`, and all generations except *keep*, by default the newest."""
        if keep is None and (number := self.newest()) is not None:
            keep = self.path(number)
        for entry in self.folder.iterdir() if self.folder.is_dir() else ():
            match = self._pattern.match(entry.name)
            if match and entry != keep and entry.name in (match[0], match[0] + _UNFINISHED):
                # Errors are ignored: on Windows a mapped file cannot be removed until after the next start.
                shutil.rmtree(entry, ignore_errors=True)

    def _next(self) -> int:
        return max(self.numbers(), default=0) + 1


def put_file(path: Path, content: Iterable[Buffer] | Unchanged) -> Saved:
    """Write a new file durably, or link one that is saved already.

    Raises:
        OSError: it cannot be written.
    """
    if not isinstance(content, Unchanged):
        return _write(path, content)
    try:
        path.hardlink_to(content.saved.path)
    except OSError:  # no hard links here, or it was removed
        return _write(path, content.content())
    return Saved(path, content.saved.size, content.saved.crc32)


def replace_file(path: Path, content: bytes) -> None:
    """Write or replace a file durably and atomically.

    Raises:
        OSError: it cannot be written.
    """
    unfinished = path.with_name(path.name + _UNFINISHED)
    unfinished.unlink(missing_ok=True)
    _write(unfinished, [content])
    unfinished.replace(path)


def measure(path: Path) -> Saved:
    """Return the size and checksum of a file as it is now."""
    size = check = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            size, check = size + len(block), zlib.crc32(block, check)
    return Saved(path, size, check)


def check_files(folder: Path, listed: Mapping[str, Mapping[str, int]]) -> dict[str, Saved]:
    """Compare the files of a generation with its manifest; return them by name, in order.

    Raises:
        SidecarDamagedError: one differs from what was written.
        OSError: one cannot be read.
    """
    files: dict[str, Saved] = {}
    for name, expected in listed.items():
        files[name] = measure(folder / name)
        if files[name].to_json() != expected:
            raise SidecarDamagedError(f"{folder.name}/{name} is not what was written")
    return files


def _write(path: Path, content: Iterable[Buffer]) -> Saved:
    size = check = 0
    with path.open("xb", buffering=0) as file:
        for buffer in content:
            view = buffer if isinstance(buffer, bytes) else buffer.data
            size, check = size + len(view), zlib.crc32(view, check)
            done = 0
            while done < len(view):
                done += file.write(view[done : done + 16 * _BLOCK])
        os.fsync(file.fileno())
    return Saved(path, size, check)


def _sync(folder: Path) -> None:
    if os.name != "posix":  # on other systems a folder cannot be opened, and renames are journalled
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
