"""Saving a `FaissIndex` as a generation of files, and loading it.

A generation contains a ``.npy`` file for each metadata column, ``strings.json`` (tags, names and ids by code; no memory texts), a FAISS
file for each block of at most 65,536 vectors and, if there is a coarse index, another one with the block's codes and the trained
quantiser. Only live memories are written: saving compacts. Unchanged blocks of the previous generation are linked, so a save writes
only changed blocks and the columns.
"""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from infinite_memory.errors import SidecarDamagedError, SidecarUnsavedError
from infinite_memory.index.base import VectorIndex
from infinite_memory.index.generations import Buffer, Generations, Saved, Unchanged, put_file
from infinite_memory.index.growable_arrays import Interner
from infinite_memory.index.id_map import Slots
from infinite_memory.index.metadata_table import COLUMNS, INTERNED, MetadataTable
from infinite_memory.index.vector.faiss_index import FaissIndex, Snapshot
from infinite_memory.index.vector.faiss_search import to_bytes
from infinite_memory.index.vector.header import Header, read_header, write_header
from infinite_memory.index.vector.table import Block, OnDisk, Segment, VectorTable

_STRINGS = "strings.json"
_VECTORS = "vectors"
_COARSE = "coarse"
_TRAINING = "coarse.json"

PIECE_ROWS = 65_536
"""Rows gathered at a time, in less than a millisecond, which bounds how long other threads wait."""


class FaissIndexFiles:
    """The generations in one folder; implements `VectorIndexFiles`. One process at a time may use the folder."""

    is_shared: ClassVar[bool] = False

    def __init__(self, folder: Path) -> None:
        self._generations = Generations(folder, "generation")
        self._saving = threading.Lock()

    def create(self, space: str, dim: int) -> FaissIndex:
        """Return an empty index for vectors of one space."""
        return FaissIndex(space, dim)

    def save(self, sidecar: VectorIndex, database: str, token: bytes) -> None:
        """Write *sidecar* as a new generation and remove older ones; it stays usable meanwhile.

        Args:
            sidecar: A `FaissIndex`.
            database: Identifies the store.
            token: Where the change feed resumes. The index must contain all changes before it, so take the token of the last applied change
                before calling this.

        Raises:
            SidecarUnsavedError: it cannot be written (disk full, for example); the previous generation is kept.
        """
        if not isinstance(sidecar, FaissIndex):
            raise TypeError(f"{type(sidecar).__name__} is not a FaissIndex")
        with self._saving:
            snapshot = sidecar.frozen()
            windows = snapshot.metadata.column("windows")[np.flatnonzero(snapshot.alive)]
            header = Header(database, snapshot.space, snapshot.vectors.dim, len(windows), int(windows.sum()), token)
            parts = _Parts(snapshot)
            try:
                with self._generations.writing() as (number, folder):
                    files = {name: put_file(folder / name, content) for name, content in parts.all()}
                    write_header(folder, number, header, files)
            except OSError as exc:
                raise SidecarUnsavedError(self._generations.folder, exc.strerror or exc) from exc
            target = self._generations.path(number)
            parts.on_saved({name: replace(saved, path=target / name) for name, saved in files.items()})

    def load(self, database: str, space: str, dim: int) -> tuple[FaissIndex, bytes]:
        """Return the newest generation and the token it was saved with.

        Vectors are memory-mapped: the files stay in use as long as the index.

        Raises:
            SidecarDamagedError: there is none, or it is incomplete, altered, of a newer format, or of another database or vector space.
        """
        try:
            self._generations.remove_old()
            number = self._generations.newest()
        except OSError as exc:
            raise SidecarDamagedError(f"the folder of sidecars cannot be read: {exc.strerror}") from exc
        if number is None:
            raise SidecarDamagedError("no sidecar was saved yet", is_missing=True)
        folder = self._generations.path(number)
        header, files = read_header(folder, number, database, space, dim)
        metadata, vectors = _read(folder, files, dim)
        if (len(metadata), len(vectors)) != (header.count, header.vector_count):
            raise SidecarDamagedError(f"{folder.name} holds other counts than it says")
        return FaissIndex.of(space, metadata, vectors), header.token


def _read(folder: Path, files: Mapping[str, Saved], dim: int) -> tuple[MetadataTable, VectorTable]:
    vectors = VectorTable(dim)
    if missing := {_STRINGS, *map(_column_file, (*COLUMNS, "tag"))} - set(files):
        raise SidecarDamagedError(f"{folder.name} lists no {min(missing)}")
    try:
        columns = {name: np.load(folder / _column_file(name), allow_pickle=False) for name in COLUMNS}
        tag_codes = np.load(folder / _column_file("tag"), allow_pickle=False)
        strings = json.loads((folder / _STRINGS).read_text("utf-8"))
        metadata = MetadataTable.of(columns, tag_codes, strings)
        blocks = [saved for name, saved in files.items() if name.startswith(_VECTORS)]
        for saved in blocks:
            vectors.attach(saved)
        vectors.set_owners(columns["windows"])
        if _TRAINING in files:
            training = json.loads((folder / _TRAINING).read_text("utf-8"))
            coarse = [files.get(block.path.name.replace(_VECTORS, _COARSE)) for block in blocks]
            vectors.attach_coarse(list(takewhile(lambda part: part is not None, coarse)), int(training["trained_on"]))  # type: ignore[arg-type]
    except (OSError, ValueError, KeyError, TypeError) as exc:
        raise SidecarDamagedError(f"{folder.name} cannot be read: {exc}") from exc
    return metadata, vectors


def _column_file(name: str) -> str:
    return f"column-{name}.npy"


class _Parts:
    """The files of a generation, one by one; records which segments they contain."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot, self._coarse = snapshot, snapshot.vectors.coarse
        self._segments: dict[str, tuple[Segment, int]] = {}

    def all(self) -> Iterator[tuple[str, Iterable[Buffer] | Unchanged]]:
        """Yield the name and content of each file."""
        yield from _columns(self._snapshot)
        if self._coarse is not None:
            yield _TRAINING, [json.dumps({"trained_on": self._coarse.trained_on}).encode("utf-8")]
        for number, block in enumerate(self._snapshot.vectors.blocks(self._snapshot.alive)):
            yield from self._block(f"{number:04d}.faiss", block)

    def _block(self, name: str, block: Block) -> Iterator[tuple[str, Iterable[Buffer] | Unchanged]]:
        on_disk: OnDisk | None = None
        if block.segment is not None:
            self._segments[name] = block.segment, len(block.codes)
            on_disk = block.segment.on_disk
            on_disk = on_disk if on_disk is not None and on_disk.count == len(block.codes) else None
        yield (
            f"{_VECTORS}-{name}",
            _unless_saved(on_disk.codes if on_disk is not None else None, lambda: [to_bytes(block.codes)]),
        )
        if (coarse := self._coarse) is not None and (codes := block.coarse) is not None:
            valid = on_disk is not None and on_disk.quantiser is coarse.quantiser
            saved = on_disk.coarse if on_disk is not None and valid else None
            yield f"{_COARSE}-{name}", _unless_saved(saved, lambda: [coarse.quantiser.to_bytes(codes)])

    def on_saved(self, files: Mapping[str, Saved]) -> None:
        """Record in the segments where they are now saved."""
        for name, (segment, count) in self._segments.items():
            coarse = files.get(f"{_COARSE}-{name}")
            quantiser = self._coarse.quantiser if self._coarse is not None and coarse is not None else None
            segment.map_instead(files[f"{_VECTORS}-{name}"], count)
            segment.on_disk = OnDisk(count, files[f"{_VECTORS}-{name}"], coarse, quantiser)


def _unless_saved(saved: Saved | None, content: Callable[[], Sequence[Buffer]]) -> Sequence[Buffer] | Unchanged:
    return content() if saved is None else Unchanged(saved, content)


def _columns(snapshot: Snapshot) -> Iterator[tuple[str, Iterable[Buffer]]]:
    """Yield the files of the metadata."""
    slots = np.flatnonzero(snapshot.alive)
    strings: dict[str, list[str]] = {}
    for name, dtype in (*COLUMNS.items(), ("tag", np.dtype(np.int32))):
        pieces = partial(_pieces, snapshot, name, slots)
        count = len(slots)
        if name in INTERNED:
            count, numbers, strings[name] = _in_use(pieces(), snapshot.metadata.interned[name].strings)
            yield _column_file(name), _npy(dtype, count, (numbers[codes] for codes in pieces()))
        else:
            yield _column_file(name), _npy(dtype, count, pieces())
    yield _STRINGS, _json(strings)


def _pieces(snapshot: Snapshot, name: str, slots: Slots) -> Iterator[NDArray[Any]]:
    """Yield a column's values, or the tags, of *slots* in pieces: NumPy holds the GIL while it gathers."""
    metadata, last = snapshot.metadata, 0
    for start in range(0, len(slots), PIECE_ROWS):
        some = slots[start : start + PIECE_ROWS]
        match name:
            case "tag":
                yield metadata.tags_of(some)[1]
            case "tag_end":
                ends = np.cumsum(metadata.tags_of(some)[0]) + last
                last = int(ends[-1])
                yield ends
            case _:
                yield metadata.column(name)[some]


def _npy(dtype: np.dtype[Any], count: int, pieces: Iterable[NDArray[Any]]) -> Iterator[Buffer]:
    """Yield *count* values in NumPy's file format."""
    head = io.BytesIO()
    shape = np.lib.format.header_data_from_array_1_0(np.empty(0, dtype)) | {"shape": (count,)}
    np.lib.format.write_array_header_1_0(head, shape)
    yield head.getvalue()
    for values in pieces:
        yield np.ascontiguousarray(values, dtype).view(np.uint8)


def _json(strings: Mapping[str, list[str]]) -> Iterator[bytes]:
    """Yield the output of ``json.dumps`` in pieces."""
    opening = "{"
    for name, listed in strings.items():
        yield f"{opening}{json.dumps(name)}: [".encode()
        for start in range(0, len(listed), PIECE_ROWS):
            yield ((", " if start else "") + json.dumps(listed[start : start + PIECE_ROWS])[1:-1]).encode()
        opening = "], "
    yield b"]}"


def _in_use(pieces: Iterable[NDArray[Any]], strings: list[str]) -> tuple[int, NDArray[np.int32], list[str]]:
    """Renumber codes to the strings still in use, so that a tag is dropped with its last memory.

    Returns:
        The number of codes, the new code of each old one (`Interner.ABSENT` last), and the strings in use.
    """
    used, count = np.zeros(len(strings) + 1, np.bool_), 0
    for codes in pieces:
        used[codes] = True
        count += len(codes)
    used[Interner.ABSENT] = False
    numbers = np.cumsum(used, dtype=np.int32) - np.int32(1)
    numbers[Interner.ABSENT] = Interner.ABSENT
    return count, numbers, [strings[code] for code in np.flatnonzero(used).tolist()]
