"""Keyed ids of everything ever stored from a project's sessions, so that a hard-forgotten turn does not come back.

Transcripts outlast memories: a resumed session contains copies of its entries, and a rewritten transcript is read again. A
soft-forgotten memory still occupies its id; a removed one does not. So each id is recorded when its turn is stored, in an append-only
file per project. An id is an HMAC with the database's secret (`store.id_keys`); no text and no other hash of it is kept. It is derived
from the project's folder and not from its scope, so it remains valid if the scope is removed and created again. The id of the text
without its timestamp is recorded too: a fork gives copies new timestamps.

Why not the store's tombstones: those serve readers that poll, are kept for a week, and only by standalone servers.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

from infinite_memory.hooks.files import hooks_folder

ID_CHARS = 24
_LINE_BYTES = ID_CHARS + 1
_ROOM = b"-" * ID_CHARS + b"\n"  # a line reserved for an id


class Ledger:
    """The ids of one project. Used by one capture at a time; blocks."""

    def __init__(self, home: Path, root: Path) -> None:
        name = hashlib.sha256(str(root).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._path = hooks_folder(home) / "stored" / f"{name}.ids"

    def noted(self, ids: Iterable[Sequence[str]]) -> list[bool]:
        """Return for each turn, given by all its possible ids, whether one of them is recorded.

        Raises:
            OSError: the file exists but cannot be read.
        """
        try:
            recorded = frozenset(self._path.read_bytes().split(b"\n"))
        except FileNotFoundError:
            recorded = frozenset()
        return [any(turn_id.encode("ascii") in recorded for turn_id in several) for several in ids]

    def make_room(self, count: int) -> None:
        """Reserve space for *count* ids before their turns are stored, or a full disk could leave a stored turn without its id.

        Raises:
            OSError: the disk is full, or the file is not writable.
        """
        self._append(_ROOM * count)

    def note(self, ids: Sequence[str]) -> None:
        """Append ids; they are synced to disk when this returns.

        Raises:
            OSError: writing failed.
        """
        self._append(b"".join(memory_id.encode("ascii") + b"\n" for memory_id in ids))

    def _append(self, lines: bytes) -> None:
        if not lines:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(self._path, flags, 0o600), "r+b") as file:
            file.seek(_find_end(file))
            file.write(lines)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())


def _find_end(file: BinaryIO) -> int:
    """Return the offset of the next line, which overwrites a line torn by a crash, and reserved space."""
    size = file.seek(0, os.SEEK_END)
    end = size - size % _LINE_BYTES
    while end and file.seek(end - _LINE_BYTES) >= 0 and file.read(_LINE_BYTES) == _ROOM:
        end -= _LINE_BYTES
    return end
