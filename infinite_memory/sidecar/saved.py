"""How a `FaissSidecar` becomes a generation of files and comes back.

A generation holds a ``.npy`` file for each column of the catalog, ``strings.json`` (tags, names and ids by code; no
text of a memory) and a FAISS file for each 65,536 vectors. Only living memories are written: saving compacts.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infinite_memory.errors import SidecarDamagedError
from infinite_memory.sidecar import files
from infinite_memory.sidecar.base import Sidecar
from infinite_memory.sidecar.catalog import COLUMNS, INTERNED, Catalog
from infinite_memory.sidecar.columns import Interner
from infinite_memory.sidecar.faiss_sidecar import FaissSidecar, Snapshot
from infinite_memory.sidecar.files import Buffer
from infinite_memory.sidecar.vectors import VectorTable, to_bytes

_STRINGS = "strings.json"
_VECTORS = "vectors"


class FaissSidecarFiles:
    """The generations in one folder; implements `SidecarFiles`. One process at a time may use the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._saving = threading.Lock()

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
        with self._saving:
            snapshot = sidecar.frozen()
            windows = snapshot.windows[snapshot.alive]
            count, vector_count = len(windows), int(windows.sum())
            header = files.Header(database, snapshot.space, snapshot.vectors.dim, count, vector_count, token)
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
    if missing := {_STRINGS, *map(_column_file, (*COLUMNS, "tag"))} - set(generation.files):
        raise SidecarDamagedError(f"{generation.folder.name} lists no {min(missing)}")
    try:
        columns = {name: np.load(generation.folder / _column_file(name), allow_pickle=False) for name in COLUMNS}
        tag_codes = np.load(generation.folder / _column_file("tag"), allow_pickle=False)
        strings = json.loads((generation.folder / _STRINGS).read_text("utf-8"))
        catalog = Catalog.of(columns, tag_codes, strings)
        for name in generation.files:
            if name.startswith(_VECTORS):
                vectors.attach(generation.folder / name)
        vectors.set_owners(columns["windows"])
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise SidecarDamagedError(f"{generation.folder.name} cannot be read: {exc}") from exc
    return catalog, vectors


def _column_file(name: str) -> str:
    return f"column-{name}.npy"


def _parts(snapshot: Snapshot) -> Iterator[tuple[str, list[Buffer]]]:
    """Give the files of a generation one by one."""
    slots = np.flatnonzero(snapshot.alive)
    tag_counts, tag_codes = snapshot.catalog.tags_of(slots)
    strings = {}
    for name in (*COLUMNS, "tag"):
        match name:
            case "tag":
                values = tag_codes
            case "tag_end":
                values = np.cumsum(tag_counts)
            case "windows":
                values = snapshot.windows[slots]
            case _:
                values = snapshot.catalog.column(name)[slots]
        if name in INTERNED:
            values, strings[name] = _in_use(values, snapshot.strings[name])
        yield _column_file(name), _npy(values)
    yield _STRINGS, [json.dumps(strings).encode("utf-8")]
    for number, (_, _, codes) in enumerate(snapshot.vectors.packed(snapshot.alive)):
        yield f"{_VECTORS}-{number:04d}.faiss", [to_bytes(codes)]


def _npy(values: NDArray[Any]) -> list[Buffer]:
    """Write an array in NumPy's file format, as two buffers: copying into one would hold up other threads."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(values))
    return [head.getvalue(), np.ascontiguousarray(values).view(np.uint8)]


def _in_use(codes: NDArray[Any], strings: list[str]) -> tuple[NDArray[Any], list[str]]:
    """Renumber *codes* to the strings still in use, so that a tag goes with its last memory."""
    used, renumbered = np.unique(codes, return_inverse=True)
    absent = int(len(used) > 0 and used[0] == Interner.ABSENT)
    return (renumbered - absent).astype(np.int32), [strings[code] for code in used[absent:].tolist()]
