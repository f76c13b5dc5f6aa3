"""The files of an import, opened so that only the named source is read: no symbolic links, no devices, nothing outside it.

A folder is walked by file descriptors (``openat``) without following links, so that a path replaced by a link in the meantime
leads nowhere. `archives` returns the files of a zip archive in the same form.
"""

from __future__ import annotations

import datetime as dt
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from infinite_memory.errors import InvalidRequestError, truncated_repr
from infinite_memory.transfer.formats.caps import MAX_FILES, MAX_FOLDERS_DEEP, Budget
from infinite_memory.transfer.formats.types import Refused

NOT_OF_THE_USER = frozenset({"node_modules", "__MACOSX", "__pycache__"})
"""Folders, beside hidden ones, that are written by programs and not by people."""

TRASH = ".trash"  # Obsidian's

_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_READ = os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_READ_FILE = _READ | getattr(os, "O_NONBLOCK", 0)  # a pipe put in its place must not block the reader
_READ_FOLDER = _READ | getattr(os, "O_DIRECTORY", 0)
_HAS_DESCRIPTORS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd  # not on Windows


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file.

    ``name`` is its path within the source, with slashes; ``path`` its path on disk, None inside an archive. ``open`` opens
    it after verifying that it is undamaged, ``peek`` at once, to inspect its beginning. Both raise `OSError`.
    """

    name: str
    size_bytes: int
    modified_at: dt.datetime | None
    open: Callable[[], BinaryIO]
    peek: Callable[[], BinaryIO]
    path: Path | None = None

    @property
    def suffix(self) -> str:
        """The file suffix, in lower case."""
        return Path(self.name).suffix.lower()


@dataclass(slots=True)
class Source:
    """The source of an import: a file, or a folder or archive of files. Closing it closes its open files."""

    path: Path
    budget: Budget
    is_many: bool = False
    files: list[SourceFile] = field(default_factory=list)
    left_out: list[Refused] = field(default_factory=list)
    stack: ExitStack = field(default_factory=ExitStack)

    def close(self) -> None:
        """Close descriptors and archives."""
        self.stack.close()


def open_source(root: Path, parts: tuple[str, ...], budget: Budget) -> Source:
    """Open the file or folder that lies at *parts* below *root*; *root* itself may be a link, nothing below it is followed.

    Raises:
        InvalidRequestError: it does not exist, is a link or a device, or is not readable.
    """
    source = Source(root.joinpath(*parts), budget)
    name = truncated_repr(parts[-1] if parts else root.name)
    try:
        root_fd = _Folder(os.open(root, _READ_FOLDER & ~_NO_FOLLOW) if _HAS_DESCRIPTORS else -1, root)
        source.stack.callback(root_fd.close)
        folder = root_fd
        for part in parts[:-1]:
            folder = folder.folder(part)
            source.stack.callback(folder.close)
        status = folder.look(parts[-1]) if parts else os.stat_result(root.stat())
        if stat.S_ISDIR(status.st_mode):
            top = folder.folder(parts[-1]) if parts else folder
            source.stack.callback(top.close)
            source.is_many = True
            _walk(top, source)
        elif stat.S_ISREG(status.st_mode):
            source.files.append(_file(folder, (), parts[-1], status))
            source.files[0].open().close()  # report unreadable files now
        else:
            raise InvalidRequestError("path", f"{name} is {_kind(status.st_mode)}; a file or folder was expected")
    except (OSError, ValueError) as exc:
        source.close()
        raise InvalidRequestError("path", f"{name} {_fault(exc)}") from None
    except BaseException:
        source.close()
        raise
    return source


class _Folder:
    """An open folder: a descriptor, or a path on systems without ``openat``."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor, self.path = descriptor, path

    def look(self, name: str) -> os.stat_result:
        """Return the status of *name*, without following links."""
        if _HAS_DESCRIPTORS:
            return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        return (self.path / name).lstat()

    def folder(self, name: str) -> _Folder:
        """Open a folder in it."""
        if not stat.S_ISDIR(self.look(name).st_mode):
            raise OSError(errno.ELOOP if stat.S_ISLNK(self.look(name).st_mode) else errno.ENOTDIR, "")
        descriptor = os.open(name, _READ_FOLDER, dir_fd=self._descriptor) if _HAS_DESCRIPTORS else -1
        return _Folder(descriptor, self.path / name)

    def file(self, name: str) -> BinaryIO:
        """Open a regular file in it."""
        if not stat.S_ISREG(self.look(name).st_mode):
            raise OSError(errno.ELOOP, "")
        options = {"dir_fd": self._descriptor} if _HAS_DESCRIPTORS else {}
        descriptor = os.open(name if options else self.path / name, _READ_FILE, **options)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # it was replaced just now
            os.close(descriptor)
            raise OSError(errno.ELOOP, "")
        return os.fdopen(descriptor, "rb")

    def entries(self) -> list[tuple[str, bool]]:
        """Return the sorted names in it, and which of them are folders."""
        with os.scandir(self._descriptor if _HAS_DESCRIPTORS else self.path) as entries:
            return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)

    def close(self) -> None:
        """Close it. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _walk(top: _Folder, source: Source) -> None:
    """Collect the files of a folder, and what is skipped."""
    for inner, name, status in _entries(top, (), source):
        if len(source.files) >= MAX_FILES:
            source.left_out.append(Refused("further files", f"an import takes {MAX_FILES:,} files at most"))
            return
        source.files.append(_file(top, inner, name, status))


def _entries(
    folder: _Folder, inner: tuple[str, ...], source: Source
) -> Iterator[tuple[tuple[str, ...], str, os.stat_result]]:
    source.budget.check()
    for name, is_folder in folder.entries():
        where = "/".join((*inner, name))
        try:
            if (reason := left_out_because(name, is_folder=is_folder)) is not None:
                source.left_out.append(Refused(f"{where}/" if is_folder else where, reason))
            elif is_folder and len(inner) >= MAX_FOLDERS_DEEP:
                source.left_out.append(Refused(f"{where}/", f"lies more than {MAX_FOLDERS_DEEP} folders deep"))
            elif is_folder:
                below = folder.folder(name)
                try:
                    yield from _entries(below, (*inner, name), source)
                finally:
                    below.close()
            elif not stat.S_ISREG((status := folder.look(name)).st_mode):
                source.left_out.append(Refused(where, f"is {_kind(status.st_mode)}"))
            else:
                yield inner, name, status
        except OSError as exc:
            source.left_out.append(Refused(where, _fault(exc)))


def left_out_because(name: str, *, is_folder: bool) -> str | None:
    """Return why a file or folder of that name is not the user's own writing; None if it may be."""
    if name == TRASH:
        return "is the trash: what is in it was deleted"
    if name.startswith("."):
        return "is hidden"
    if is_folder and name in NOT_OF_THE_USER:
        return "is filled by a program"
    return None


def _file(top: _Folder, inner: tuple[str, ...], name: str, status: os.stat_result) -> SourceFile:
    def open_file() -> BinaryIO:
        opened: list[_Folder] = []
        folder = top
        try:
            for part in inner:
                folder = folder.folder(part)
                opened.append(folder)
            return folder.file(name)
        finally:
            for descriptor in opened:
                descriptor.close()

    modified_at = dt.datetime.fromtimestamp(status.st_mtime, dt.UTC)
    path = top.path.joinpath(*inner, name)
    return SourceFile("/".join((*inner, name)), status.st_size, modified_at, open_file, open_file, path)


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a link, and links are not followed"
    return "not a regular file"


def _fault(exc: OSError | ValueError) -> str:
    code = exc.errno if isinstance(exc, OSError) else None
    if code in (errno.ENOENT, errno.ENOTDIR) or code is None:
        return "cannot be read: there is no file or folder of that name"
    if code == errno.ELOOP:
        return "is a link, and links are not followed"
    return f"cannot be read: {os.strerror(code)}"


def describe_fault(exc: OSError) -> str:
    """Return why a file cannot be read, without its path."""
    return "is damaged: its checksum is wrong" if exc.errno == errno.EILSEQ else _fault(exc)
