"""Files of a zip archive, read in place: nothing is extracted to disk.

The archive's own metadata is not trusted: sizes are counted while it is decompressed, each file's checksum is verified before its
content is used, and a path that leaves the archive is skipped although it could do no harm here.
"""

from __future__ import annotations

import datetime as dt
import errno
import io
import stat
import zipfile
import zlib
from collections.abc import Iterable
from typing import Any, BinaryIO, cast

from infinite_memory.errors import InvalidRequestError
from infinite_memory.transfer.formats.caps import (
    MAX_ARCHIVE_INDEX_BYTES,
    MAX_FILES,
    MAX_FOLDERS_DEEP,
    MAX_UNFOLDING,
    MIN_UNFOLDED_BYTES,
    Budget,
    CapReachedError,
)
from infinite_memory.transfer.formats.sources import Source, SourceFile, left_out_because
from infinite_memory.transfer.formats.types import Refused

MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
_CHUNK_BYTES = 1 << 20
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # others may need gigabytes of memory to decompress
_ENCRYPTED = 1  # bit of the general purpose flags


def open_archive(source: Source) -> None:
    """Return the files of a zip archive as a source.

    Raises:
        InvalidRequestError: it is damaged or too large.
    """
    [outer] = source.files
    raw = source.stack.enter_context(outer.open())
    try:
        archive = source.stack.enter_context(zipfile.ZipFile(cast("BinaryIO", _Index(raw))))
    except CapReachedError as exc:
        raise InvalidRequestError("path", f"{outer.name!r} {exc}") from None
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, UnicodeDecodeError):
        raise InvalidRequestError("path", f"{outer.name!r} is a damaged zip archive") from None
    unfolded = _Unfolded(max(outer.size_bytes * MAX_UNFOLDING, MIN_UNFOLDED_BYTES))
    source.is_many, source.files = True, []
    members = [member for member in archive.infolist() if not member.is_dir()]
    if len(members) > MAX_FILES:
        source.left_out.append(Refused("further files", f"an import takes {MAX_FILES:,} files at most"))
    usable: list[tuple[tuple[str, ...], zipfile.ZipInfo]] = []
    names: set[tuple[str, ...]] = set()
    programs: dict[str, str] = {}  # folders written by programs, each reported once
    for info in members[:MAX_FILES]:
        parts = _parts(info)
        if (reason := _fault(info, parts, names)) is not None:
            source.left_out.append(Refused(_format_name(info), reason))
        elif (hidden := _hidden(parts)) is not None:
            programs.setdefault(*hidden)
        else:
            names.add(parts)
            usable.append((parts, info))
    source.left_out += (Refused(where, why) for where, why in programs.items())
    shared = _shared_folder(parts for parts, _ in usable)
    source.files = [
        _file(archive, info, "/".join(parts[shared:]), source.budget, unfolded)
        for parts, info in sorted(usable, key=_name)
    ]


def _name(entry: tuple[tuple[str, ...], zipfile.ZipInfo]) -> tuple[str, ...]:
    return entry[0]


class _Index:
    """The archive's file object; refuses to read a central directory that would not fit into memory."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw

    def read(self, size: int = -1) -> bytes:
        """Read like a file object."""
        data = self._raw.read(min(size, MAX_ARCHIVE_INDEX_BYTES + 1) if size >= 0 else MAX_ARCHIVE_INDEX_BYTES + 1)
        if len(data) > MAX_ARCHIVE_INDEX_BYTES:
            raise CapReachedError(f"lists more files than the {MAX_FILES:,} that an import takes")
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


class _Unfolded:
    """How many bytes of an archive may still be decompressed."""

    def __init__(self, max_bytes: int) -> None:
        self._remaining = max_bytes

    def spend(self, size_bytes: int) -> None:
        """Count decompressed bytes."""
        self._remaining -= size_bytes
        if self._remaining < 0:
            raise CapReachedError(f"it unfolds to more than {MAX_UNFOLDING} times its size")


def _parts(info: zipfile.ZipInfo) -> tuple[str, ...]:
    return tuple(part for part in info.filename.split("/") if part not in ("", "."))


def _fault(info: zipfile.ZipInfo, parts: tuple[str, ...], names: set[tuple[str, ...]]) -> str | None:
    name = info.filename
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or ":" in parts[0]:
        return "has a name that leads out of the archive"
    if any(not char.isprintable() for char in name):
        return "has a name with control characters"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "is a link, and links are not followed"
    if info.flag_bits & _ENCRYPTED:
        return "is encrypted"
    if info.compress_type not in _METHODS:
        return "is compressed by a method that is not read; only deflate is"
    if parts in names:
        return "stands twice in the archive; the first is taken"
    if len(parts) > MAX_FOLDERS_DEEP:
        return f"lies more than {MAX_FOLDERS_DEEP} folders deep"
    return None


def _hidden(parts: tuple[str, ...]) -> tuple[str, str] | None:
    for depth, part in enumerate(parts, 1):
        is_folder = depth < len(parts)
        if (reason := left_out_because(part, is_folder=is_folder)) is not None:
            return "/".join(parts[:depth]) + ("/" if is_folder else ""), reason
    return None


def _shared_folder(names: Iterable[tuple[str, ...]]) -> int:
    """Return 1 if all files lie in one folder, which is then left out of their names; otherwise 0."""
    tops = {parts[0] if len(parts) > 1 else "" for parts in names}
    return int(len(tops) == 1 and "" not in tops)


def _format_name(info: zipfile.ZipInfo) -> str:
    return "".join(char if char.isprintable() else "?" for char in info.filename[:200]) or "a file without a name"


def _file(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, budget: Budget, unfolded: _Unfolded
) -> SourceFile:
    is_whole = False

    def peek() -> BinaryIO:
        return cast("BinaryIO", io.BufferedReader(_Member(archive, info), _CHUNK_BYTES))

    def open_checked() -> BinaryIO:
        nonlocal is_whole
        if not is_whole:
            with peek() as file:
                while chunk := file.read(_CHUNK_BYTES):
                    unfolded.spend(len(chunk))
                    budget.check()
            is_whole = True
        return peek()

    try:
        modified_at = dt.datetime(*info.date_time, tzinfo=dt.UTC)
    except ValueError:
        modified_at = None
    return SourceFile(name, info.file_size, modified_at, open_checked, peek)


class _Member(io.RawIOBase):
    """A file in an archive; damage raises `OSError`, as with other files."""

    def __init__(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
        super().__init__()
        try:
            self._file = archive.open(info)
        except (zipfile.BadZipFile, RuntimeError, NotImplementedError, ValueError) as exc:
            raise OSError(errno.EILSEQ, "is damaged") from exc

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._file.read(len(buffer))
        except (zipfile.BadZipFile, zlib.error, EOFError, ValueError) as exc:
            raise OSError(errno.EILSEQ, "is damaged") from exc
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed and hasattr(self, "_file"):
            self._file.close()
        super().close()
