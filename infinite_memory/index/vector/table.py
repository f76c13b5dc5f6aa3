"""The vectors of one space, each belonging to a slot of the metadata table.

Vectors are stored in segments of at most `SEGMENT_ROWS`, each a plain float16 array, and are addressed by row; rows are only appended.
So a search runs without a lock on the arrays it started with, growth copies at most one segment, and a saved segment is memory-mapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from infinite_memory.index.generations import Saved
from infinite_memory.index.growable_arrays import GrowableArray
from infinite_memory.index.id_map import Slots
from infinite_memory.index.mmap_memory import MAX_RESIDENT, Mapped, enforce_rss_limit
from infinite_memory.index.vector import pq_index as coarse_index
from infinite_memory.index.vector.faiss_search import (
    CoarseCodes,
    Codes,
    Mask,
    Quantiser,
    map_codes,
)
from infinite_memory.index.vector.pq_index import PQIndex

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

SEGMENT_ROWS = 65_536
"""At 384 dimensions a segment has 50 MB: copying one takes about 10 ms."""


@dataclass(frozen=True, slots=True)
class OnDisk:
    """The files of the newest generation with the first ``count`` rows of a segment, and their codes by ``quantiser``."""

    count: int
    codes: Saved
    coarse: Saved | None
    quantiser: Quantiser | None


class Segment:
    """A range of rows: ``codes[:count]``. Rows of a file are `mapped` and read-only."""

    def __init__(self, codes: Codes, count: int = 0, mapped: Mapped | None = None) -> None:
        self.codes, self.count, self.mapped = codes, count, mapped
        self.on_disk: OnDisk | None = None

    @property
    def rows(self) -> Codes:
        """The rows so far, as a view of shape ``(count, dim)``."""
        return self.codes[: self.count]

    def append(self, vectors: Vectors | Codes) -> int:
        """Append as many rows as fit, and return their number."""
        fitting = 0 if self.mapped is not None else min(SEGMENT_ROWS - self.count, len(vectors))
        if fitting <= 0:
            return 0
        end = self.count + fitting
        if end > len(self.codes):
            larger = np.empty((min(SEGMENT_ROWS, max(end, 256, 2 * len(self.codes))), self.codes.shape[1]), np.float16)
            larger[: self.count] = self.rows
            self.codes = larger
        self.codes[self.count : end] = vectors[:fitting]
        self.count = end
        return fitting

    def map_instead(self, saved: Saved, count: int) -> None:
        """Map the file of these rows instead of keeping them in memory, if the segment is full; readers keep their arrays."""
        if self.mapped is None and count == SEGMENT_ROWS:
            self.mapped = map_codes(saved.path, self.codes.shape[1])
            self.codes = self.mapped.rows


def numbered(counts: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Return the positions within consecutive runs of these lengths: ``[2, 1]`` gives ``[0, 1, 0]``."""
    lengths = np.asarray(counts, np.int64)
    return np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)


class VectorTable:
    """The table; slots are appended in ascending order. Not locked; its owner serialises calls."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.coarse: PQIndex | None = None
        self.segments: list[Segment] = []
        self._slots = GrowableArray(np.int32)
        self._windows = GrowableArray(np.int32)

    def __len__(self) -> int:
        return len(self._slots)

    def append(self, slots: Slots, windows: NDArray[Any], vectors: Vectors | Codes) -> None:
        """Append rows.

        Args:
            slots: The slot of each row.
            windows: The number of each row within its slot; rows of a slot are consecutive, counted from 0.
            vectors: Shape ``(len(slots), dim)``.
        """
        done = 0
        while done < len(vectors):
            if not self.segments or not (appended := self.segments[-1].append(vectors[done:])):
                self.segments.append(Segment(np.empty((0, self.dim), np.float16)))
                continue
            done += appended
        self._slots.extend(slots)
        self._windows.extend(windows)

    def attach(self, saved: Saved) -> None:
        """Map a file written with `to_bytes` as further rows; `set_owners` must follow.

        Raises:
            ValueError: the file is not such a file.
        """
        mapped = map_codes(saved.path, self.dim)
        segment = Segment(mapped.rows, len(mapped.rows), mapped)
        segment.on_disk = OnDisk(segment.count, saved, None, None)
        self.segments.append(segment)

    def attach_coarse(self, files: Sequence[Saved], trained_on: int) -> None:
        """Load the codes of the first attached segments from files written with `Quantiser.to_bytes`.

        Raises:
            ValueError: they do not match each other or the segments.
        """
        quantiser: Quantiser | None = None
        codes: list[CoarseCodes] = []
        for segment, saved in zip(self.segments, files, strict=False):
            read, of_segment = Quantiser.read(saved.path, self.dim)
            if len(of_segment) != segment.count or not (quantiser is None or quantiser.is_like(read)):
                raise ValueError(f"{saved.path.name} does not fit its vectors")
            quantiser = quantiser or read
            codes.append(of_segment)
            assert segment.on_disk is not None
            segment.on_disk = replace(segment.on_disk, coarse=saved, quantiser=quantiser)
        if quantiser is not None:
            together = np.concatenate(codes)
            codes.clear()  # 48 MB for a million rows, freed before the index is built
            self.coarse = PQIndex.of(quantiser, trained_on, together)

    def set_owners(self, windows_of_slots: NDArray[Any]) -> None:
        """Assign the attached rows to slots: the first ``windows_of_slots[0]`` of them to slot 0, and so on.

        Raises:
            ValueError: the number of rows differs.
        """
        if int(windows_of_slots.sum()) != sum(segment.count for segment in self.segments):
            raise ValueError("vectors and memories differ in number")
        slots = np.repeat(np.arange(len(windows_of_slots), dtype=np.int32), windows_of_slots)
        self._slots, self._windows = GrowableArray(np.int32, slots), GrowableArray(np.int32, numbered(windows_of_slots))

    def snapshot(self) -> VectorSnapshot:
        """Return a snapshot for reading without a lock."""
        segments = list(self.segments)
        rows = [segment.rows for segment in segments]
        return VectorSnapshot(self.dim, rows, self._slots.values, self._windows.values, self.coarse, segments)


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows saved together: their slots, windows, vectors of shape ``(n, dim)`` and, if all have them, coarse codes.

    ``segment`` is set if the rows are exactly those of one segment.
    """

    slots: Slots
    windows: NDArray[np.int32]
    codes: Codes
    coarse: CoarseCodes | None
    segment: Segment | None


@dataclass(frozen=True, slots=True, eq=False)
class VectorSnapshot:
    """The rows at one moment: float16 segments, and the slot of each row and its number within the slot."""

    dim: int
    parts: list[Codes]
    slots: NDArray[np.int32]
    windows: NDArray[np.int32]
    coarse: PQIndex | None
    segments: list[Segment]

    def rows_of(self, slots: Slots) -> Slots:
        """Return the rows of *slots*, which are ascending."""
        requested = slots.astype(self.slots.dtype)  # with another type all slots would be copied
        first, end = (np.searchsorted(self.slots, requested, side) for side in ("left", "right"))
        return np.repeat(first, end - first) + numbered(end - first)

    def read(self, rows: Slots) -> Codes:
        """Return a copy of the vectors of *rows*, which are ascending; shape ``(len(rows), dim)``."""
        codes = np.empty((len(rows), self.dim), np.float16)
        # Copied directly to the target, in a call that releases the GIL; as bytes, because a mapped file may be unaligned, and the call
        # would then copy all of it.
        target = codes.view(np.uint8)
        first = done = 0
        for part in self.parts:
            end = done + int(np.searchsorted(rows[done:], first + len(part)))
            if end > done:
                np.take(part.view(np.uint8), rows[done:end] - first, axis=0, out=target[done:end], mode="clip")
            first, done = first + len(part), end
        return codes

    def blocks(self, keep: Mask) -> Iterator[Block]:
        """Yield the rows of the slots in the mask *keep*, in order, at most `SEGMENT_ROWS` at a time.

        A segment that is at least half full and keeps all its rows is a separate block; rows in between are merged.
        """
        is_kept = keep[self.slots]
        first, waiting = 0, np.empty(0, np.int64)
        for part, segment in zip(self.parts, self.segments, strict=True):
            rows = np.flatnonzero(is_kept[first : first + len(part)]) + first
            first += len(part)
            if len(rows) == len(part) and 2 * len(part) >= SEGMENT_ROWS:
                yield from self._together(waiting)
                yield self._block(rows, segment)
                waiting = np.empty(0, np.int64)
            else:
                waiting = np.concatenate((waiting, rows))
        yield from self._together(waiting)

    def _together(self, rows: Slots) -> Iterator[Block]:
        for start in range(0, len(rows), SEGMENT_ROWS):
            yield self._block(rows[start : start + SEGMENT_ROWS], None)

    def _block(self, rows: Slots, segment: Segment | None) -> Block:
        covered = self.coarse is not None and int(rows[-1]) < self.coarse.count
        coarse = self.coarse.codes[rows] if covered and self.coarse is not None else None
        codes = self.read(rows) if segment is None else segment.codes[: len(rows)]
        return Block(self.slots[rows].astype(np.int64), self.windows[rows], codes, coarse, segment)

    def coarse_of(self, keep: Mask) -> PQIndex | None:
        """Return the coarse index of the slots in *keep*, from the codes of the current one; None if there is none."""
        if self.coarse is None:
            return None
        codes = self.coarse.codes[keep[self.slots[: self.coarse.count]]]
        return PQIndex.of(self.coarse.quantiser, self.coarse.trained_on, codes)

    def refined(self) -> PQIndex | None:
        """Return the coarse index these rows should have; None if the current one suffices. Takes seconds for a million rows."""
        if not coarse_index.is_due(self.coarse, self.dim, len(self.slots)):
            return None
        coarse = coarse_index.extended(self.coarse, len(self.slots), self.read)
        self.release_pages()
        return coarse

    def release_pages(self) -> None:
        """Release pages above `MAX_RESIDENT` that reads left resident."""
        enforce_rss_limit(MAX_RESIDENT, (segment.mapped for segment in self.segments if segment.mapped is not None))
