"""What was ever stored of a project's sessions, by keyed ids alone: a turn that was forgotten for good does not come back.

Transcripts outlast memories: a resumed session brings copies of its entries, and a transcript that was rewritten is read again. A
memory that is forgotten softly still holds its id; one that was removed, by whatever way, holds nothing. So each id is noted when its
turn was stored, in a file for each project that is only ever appended to. An id is an HMAC with the database's secret
(`store.id_keys`); no text and no other hash of one is kept. It is made with the project's folder and not with its scope, so it also
holds when the scope was removed and made again. Beside it stands the id of the turn's words alone: a fork gives copies new instants.

Why not the tombstones of the store: those serve readers that poll, are kept for a week and only by servers that stand alone.
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
_ROOM = b"-" * ID_CHARS + b"\n"  # a line that was made ready for an id


class Ledger:
    """The ids of one project. Used by one capture at a time; blocks."""

    def __init__(self, home: Path, root: Path) -> None:
        name = hashlib.sha256(str(root).encode("utf-8", "surrogatepass")).hexdigest()[:32]
        self._path = hooks_folder(home) / "stored" / f"{name}.ids"

    def noted(self, ids: Iterable[Sequence[str]]) -> list[bool]:
        """Return for each turn, given by all ids that it may have, whether one of them is noted.

        Raises:
            OSError: the file is there and cannot be read.
        """
        try:
            known = frozenset(self._path.read_bytes().split(b"\n"))
        except FileNotFoundError:
            known = frozenset()
        return [any(one.encode("ascii") in known for one in several) for several in ids]

    def make_room(self, count: int) -> None:
        """Make room for *count* ids, before what they stand for is stored: it would be there, and its id not, where the disk is full.

        Raises:
            OSError: there is no room, or the file cannot be written.
        """
        self._append(_ROOM * count)

    def note(self, ids: Sequence[str]) -> None:
        """Append ids; they are on the disk when this returns.

        Raises:
            OSError: they could not be written.
        """
        self._append(b"".join(one.encode("ascii") + b"\n" for one in ids))

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
    """Return where the next line goes: over what a crash left of one, and over room that was made."""
    size = file.seek(0, os.SEEK_END)
    end = size - size % _LINE_BYTES
    while end and file.seek(end - _LINE_BYTES) >= 0 and file.read(_LINE_BYTES) == _ROOM:
        end -= _LINE_BYTES
    return end
