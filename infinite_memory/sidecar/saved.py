"""How a `FaissSidecar` becomes a generation of files and comes back.

A generation holds ``catalog.npz`` (the columns), ``strings.json`` (names, tags, ids by code; no text of a memory) and
a FAISS file for each 65,536 vectors. Only living memories are written, so every save is a compaction too.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infinite_memory.errors import SidecarDamagedError
from infinite_memory.sidecar import files
from infinite_memory.sidecar.base import Sidecar
from infinite_memory.sidecar.catalog import COLUMNS, Catalog
from infinite_memory.sidecar.faiss_sidecar import FaissSidecar, Snapshot
from infinite_memory.sidecar.vectors import VectorTable, to_bytes

_CATALOG = "catalog.npz"
_STRINGS = "strings.json"
_TAGS = "tag_codes"


class FaissSidecarFiles:
    """The generations in one folder; implements `SidecarFiles`. One process at a time may use the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, space: str, dim: int) -> FaissSidecar:
        """Make an empty sidecar for vectors of one space."""
        return FaissSidecar(space, dim)

    def save(self, sidecar: Sidecar, database: str, token: bytes) -> None:
        """Write all of *sidecar* as a new generation and remove older ones; others may go on using it meanwhile.

        Args:
            sidecar: A `FaissSidecar`.
            database: Tells one store from another.
            token: From where the change feed goes on. The sidecar must hold all that happened before it, so the caller
                takes the token of the last change it applied first and calls this then.

        Raises:
            SidecarError: it cannot be written (a full disk, say); the generation before is still there.
        """
        if not isinstance(sidecar, FaissSidecar):
            raise TypeError(f"{type(sidecar).__name__} is not a FaissSidecar")
        snapshot = sidecar.frozen()
        windows = snapshot.catalog.column("windows")[: len(snapshot.alive)][snapshot.alive]
        header = files.Header(
            database, snapshot.space, snapshot.vectors.dim, len(windows), int(windows.sum()), token
        )  # fmt: skip
        files.save(self._folder, header, _parts(snapshot))

    def load(self, database: str, space: str, dim: int) -> tuple[FaissSidecar, bytes]:
        """Load the newest generation and the token it was saved with.

        Vectors are mapped, not read into memory: the files stay in use for as long as the sidecar is.

        Raises:
            SidecarDamagedError: there is none, or it is incomplete, altered, from a newer program, or of another
                database or vector space.
        """
        generation = files.load(self._folder, database, space, dim)
        catalog, vectors = _read(generation, dim)
        if (len(catalog), len(vectors)) != (generation.header.count, generation.header.vector_count):
            raise SidecarDamagedError(f"{generation.folder.name} holds other counts than it says")
        return FaissSidecar.of(space, catalog, vectors), generation.header.token


def _read(generation: files.Generation, dim: int) -> tuple[Catalog, VectorTable]:
    vectors = VectorTable(dim)
    try:
        with np.load(generation.folder / _CATALOG, allow_pickle=False) as arrays:
            columns = {name: arrays[name] for name in COLUMNS}
            tag_codes = arrays[_TAGS]
        strings = json.loads((generation.folder / _STRINGS).read_text("utf-8"))
        catalog = Catalog.of(columns, tag_codes, strings)
        for name in generation.files:
            if name not in (_CATALOG, _STRINGS):
                vectors.attach(generation.folder / name)
        vectors.set_owners(columns["windows"])
    except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as exc:
        raise SidecarDamagedError(f"{generation.folder.name} cannot be read: {exc}") from exc
    return catalog, vectors


def _parts(snapshot: Snapshot) -> Iterator[tuple[str, Any]]:
    """Give the files of a generation one by one."""
    slots = np.flatnonzero(snapshot.alive)
    tag_counts, tag_codes = snapshot.catalog.tags_of(slots)
    columns: dict[str, NDArray[Any]] = {name: snapshot.catalog.column(name)[slots] for name in COLUMNS}
    columns["tag_end"] = np.cumsum(tag_counts)
    packed = io.BytesIO()
    np.savez(packed, allow_pickle=False, **columns, **{_TAGS: tag_codes})
    yield _CATALOG, packed.getbuffer()
    yield _STRINGS, json.dumps(snapshot.strings).encode("utf-8")
    for number, (_, _, codes) in enumerate(snapshot.vectors.packed(snapshot.alive)):
        yield f"vectors-{number:04d}.faiss", to_bytes(codes)
