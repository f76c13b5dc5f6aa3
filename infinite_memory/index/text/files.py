"""The folders of text indexes: one per generation, with a manifest that is verified before the index is used.

tantivy commits atomically, but does not verify its files; the manifest has their sizes and checksums, the store they belong to and the
change token up to which they are in sync with it. A mismatch (a crash between commit and manifest, a damaged file) costs a rebuild from
the store, never a wrong result. Words of removed memories stay in a generation's files until tantivy merges them away, which may never
happen; so hard-forgotten memories are purged by writing a new generation.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from infinite_memory.errors import SidecarDamagedError, SidecarUnsavedError
from infinite_memory.index.generations import Generations
from infinite_memory.index.text.manifest import MANIFEST, read_manifest

if TYPE_CHECKING:
    from infinite_memory.index.base import TextIndex
    from infinite_memory.index.text.tantivy_index import TantivyText

_UNCLEAN = "unclean"


class TantivyTextFiles:
    """The generations in one folder; implements `TextFiles`. One process at a time may use the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._generations = Generations(folder, "text")

    def create(self, database: str) -> TantivyText:
        """Return an empty index in a new generation.

        Raises:
            SidecarUnsavedError: the folder cannot be created.
        """
        from infinite_memory.index.text.tantivy_index import TantivyText  # while MongoDB starts, not before

        try:
            return TantivyText(self._generations.create(), database)
        except OSError as exc:
            raise SidecarUnsavedError(self._folder, exc.strerror or exc) from exc

    def load(self, database: str) -> tuple[TantivyText, bytes]:
        """Return the newest generation that has a manifest, and its token; all others are removed.

        Raises:
            SidecarDamagedError: there is none, it fails its checks, or it belongs to another store or analyzer version.
        """
        from infinite_memory.index.text.tantivy_index import TantivyText

        number = self._generations.newest(containing=MANIFEST)
        if number is None:
            raise SidecarDamagedError("no text index was saved yet", is_missing=True)
        folder = self._generations.path(number)
        manifest = read_manifest(folder, database)
        index = TantivyText(folder, database)
        if index.count() != manifest.count:
            raise SidecarDamagedError(f"{folder.name} holds another count than it says")
        self.settle(index)
        return index, manifest.token

    def settle(self, index: TextIndex) -> None:
        """Remove all generations except that of *index*, a `TantivyText`."""
        from infinite_memory.index.text.tantivy_index import TantivyText

        if not isinstance(index, TantivyText):
            raise TypeError(f"{type(index).__name__} is not a TantivyText")
        self._generations.remove_old(keep=index.folder)

    @property
    def is_unclean(self) -> bool:
        """True if the files may still contain words of hard-forgotten memories; survives a restart."""
        return (self._folder / _UNCLEAN).exists()

    def mark_unclean(self) -> None:
        """Record that a memory was hard-forgotten whose words the files may still contain."""
        with contextlib.suppress(OSError):  # disk full: the caller remembers it until it exits
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / _UNCLEAN).touch(mode=0o600)

    def mark_clean(self) -> None:
        """Record that no file contains words of forgotten memories."""
        with contextlib.suppress(OSError):  # the files are then rewritten once more
            (self._folder / _UNCLEAN).unlink(missing_ok=True)
