"""The folders of text indexes: one for each generation, described by a manifest that is checked before the index is believed.

tantivy commits atomically by itself, but believes its files; the manifest tells their sizes and checksums, the store
they belong to and the change token up to which they are level with it. A manifest that does not fit (a crash between
commit and manifest, a damaged file) costs a rebuild from the store, never a wrong answer. Removed memories leave
words behind in a generation's files until tantivy merges them away, which may be never; so what was forgotten for
good leaves with a new generation.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import re
import shutil
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infinite_memory.errors import SidecarDamagedError, SidecarError

if TYPE_CHECKING:
    from infinite_memory.sidecar.base import TextIndex
    from infinite_memory.sidecar.text import TantivyText

RECIPE = 1
"""Rises whenever memories are cut into other words or other words are searched: the index is then built anew."""

_MANIFEST = "manifest.json"
_UNCLEAN = "unclean"
_NAME = re.compile(r"text-(\d{8})")
_UNLISTED = re.compile(r"\..*|manifest\.json.*|.*\.tmp")  # locks and lists that tantivy writes for itself
_BLOCK = 1 << 20  # bytes read at a time


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a generation says of itself. An empty ``token`` means: nobody knows how level with the store it is."""

    database: str
    token: bytes
    count: int


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Describe *folder* as it is now, durably; checksums of files that were there before are kept.

    Raises:
        OSError: it cannot be written.
    """
    known: dict[str, Any] = {}
    target = folder / _MANIFEST
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        known = json.loads(target.read_text("utf-8"))["files"]
    files: dict[str, Any] = {}
    for path in _listed(folder):
        kept = known.get(path.name)
        lasting = path.name != "meta.json" and kept is not None and kept["size"] == path.stat().st_size
        files[path.name] = kept if lasting else _measure(path)
    body = {
        "recipe": RECIPE, "database": manifest.database, "token": base64.b64encode(manifest.token).decode("ascii"),
        "count": manifest.count, "files": files,
    }  # fmt: skip
    unfinished = target.with_suffix(".json.tmp")
    with unfinished.open("w", encoding="utf-8") as file:
        json.dump(body, file)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(target)


def _check(folder: Path, database: str) -> Manifest:
    try:
        body = json.loads((folder / _MANIFEST).read_text("utf-8"))
        if body["recipe"] != RECIPE:
            raise SidecarDamagedError(f"{folder.name} was made by recipe {body['recipe']}, this program's is {RECIPE}")
        if body["database"] != database:
            raise SidecarDamagedError(f"{folder.name} belongs to another store")
        if {path.name for path in _listed(folder)} != set(body["files"]):
            raise SidecarDamagedError(f"{folder.name} holds other files than were written")
        for name, expected in body["files"].items():
            if _measure(folder / name) != expected:
                raise SidecarDamagedError(f"{folder.name}/{name} is not what was written")
        return Manifest(database, base64.b64decode(body["token"], validate=True), int(body["count"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, binascii.Error) as exc:
        raise SidecarDamagedError(f"{folder.name} cannot be read: {exc}") from exc


class TantivyTextFiles:
    """The generations in one folder; implements `TextFiles`. One process at a time may use the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, database: str) -> TantivyText:
        """Make an empty index in a new generation.

        Raises:
            SidecarError: the folder cannot be made.
        """
        from infinite_memory.sidecar.text import TantivyText

        target = self._folder / f"text-{max(self._numbers(), default=0) + 1:08d}"
        try:
            target.mkdir(mode=0o700, parents=True)
        except OSError as exc:
            raise SidecarError(f"the text index cannot be made: {exc.strerror or exc}") from exc
        return TantivyText(target, database)

    def load(self, database: str) -> tuple[TantivyText, bytes]:
        """Load the newest generation that has a manifest, with its token; unfinished ones are removed.

        Raises:
            SidecarDamagedError: there is none, or it fails its checks, or belongs to another store or recipe.
        """
        from infinite_memory.sidecar.text import TantivyText

        for number in reversed(self._numbers()):
            folder = self._folder / f"text-{number:08d}"
            if not (folder / _MANIFEST).is_file():
                shutil.rmtree(folder, ignore_errors=True)
                continue
            manifest = _check(folder, database)
            index = TantivyText(folder, database)
            if index.count() != manifest.count:
                raise SidecarDamagedError(f"{folder.name} holds another count than it says")
            self.settle(index)
            return index, manifest.token
        raise SidecarDamagedError("no text index was saved yet")

    def settle(self, index: TextIndex) -> None:
        """Remove all generations but that of *index*, a `TantivyText`."""
        from infinite_memory.sidecar.text import TantivyText

        if not isinstance(index, TantivyText):
            raise TypeError(f"{type(index).__name__} is not a TantivyText")
        for number in self._numbers():
            folder = self._folder / f"text-{number:08d}"
            if folder != index.folder:
                shutil.rmtree(folder, ignore_errors=True)

    @property
    def is_unclean(self) -> bool:
        """Tell whether the files may hold words of what was forgotten for good; outlives the process."""
        return (self._folder / _UNCLEAN).exists()

    def mark_unclean(self) -> None:
        """Note that something was forgotten for good, whose words the files may hold."""
        with contextlib.suppress(OSError):  # a full disk: who calls knows it for as long as it lives
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            (self._folder / _UNCLEAN).touch(mode=0o600)

    def mark_clean(self) -> None:
        """Note that no file holds words of anything that was forgotten."""
        with contextlib.suppress(OSError):  # then the files are written anew once more
            (self._folder / _UNCLEAN).unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        if not self._folder.is_dir():
            return []
        return sorted(int(match[1]) for entry in self._folder.iterdir() if (match := _NAME.fullmatch(entry.name)))


def _listed(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and not _UNLISTED.fullmatch(path.name))


def _measure(path: Path) -> dict[str, int]:
    size = check = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            size, check = size + len(block), zlib.crc32(block, check)
    return {"size": size, "crc32": check}
