"""What was ever stored of a project's sessions, by keyed ids alone: a turn that was forgotten for good does not come back.

Transcripts outlast memories: a resumed session brings copies of its entries, and a transcript that was rewritten is read again. A
memory that is forgotten softly still holds its id; one that was removed, by whatever way, holds nothing. So each id is noted when its
turn was stored, in a file for each project that is only ever appended to. An id is an HMAC with the database's secret
(`store.id_keys`); no text and no other hash of one is kept. It is made with the project's folder and not with its scope, so it also
holds when the scope was removed and made again.

Why not the tombstones of the store: those serve readers that poll, are kept for a week and only by servers that stand alone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from infinite_memory.hooks.files import hooks_folder

ID_CHARS = 24
_LINE_BYTES = ID_CHARS + 1


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

    def note(self, ids: Sequence[str]) -> None:
        """Append ids; they are on the disk when this returns.

        Raises:
            OSError: they could not be written.
        """
        if not ids:
            return
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        with os.fdopen(os.open(self._path, flags, 0o600), "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(size - size % _LINE_BYTES)  # over what a crash left of a line
            file.write(b"".join(one.encode("ascii") + b"\n" for one in ids))
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
