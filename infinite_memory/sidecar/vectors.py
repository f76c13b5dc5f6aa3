"""Vectors in half precision and the exact search over them: the only home of FAISS.

Vectors lie in segments of at most `SEGMENT_ROWS`, each a plain float16 array. FAISS (`IndexScalarQuantizer`, QT_fp16,
inner product; rows are unit length, so that is the cosine) is laid over a segment as a view for the time of one search,
which costs ten microseconds, and so

- rows are only ever appended: a search runs without a lock on the arrays that were there when it began;
- growth copies at most one segment, and a saved segment is a FAISS file that is mapped into memory, not read;
- a coarser index with exact re-ranking can later stand in front of full segments without another form of storage.

Why a bitmap for every filter: over 100,000 vectors of 384 dimensions FAISS with a bitmap takes 0.4 ms at 1 % allowed
and 2.4 ms at 10 %; gathering the allowed rows into NumPy takes 0.6 ms and 18 ms, and wins only below 0.2 %, by 0.1 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import faiss
import numpy as np
from numpy.typing import NDArray

from infinite_memory.sidecar.columns import Column
from infinite_memory.sidecar.keys import Slots

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

SEGMENT_ROWS = 65_536
"""A segment of 384 dimensions is then 50 MB: copying one takes about 10 ms."""

SCORE_DECIMALS = 6
"""Scores are rounded to this, well below the error of half precision, so that equal texts have equal scores."""

FEW_ROWS = 256
"""So many rows are multiplied at once; waking FAISS's threads for them costs more, above all on a busy machine."""

Codes = NDArray[np.float16]
Mask = NDArray[np.bool_]

_NO_OWNER = faiss.MaybeOwnedVectorUInt8()


@dataclass(frozen=True, slots=True, eq=False)
class Nearest:
    """Slots by falling score, once each: the score of the slot's best vector, and that vector's number within it."""

    slots: Slots
    scores: NDArray[np.float64]
    windows: NDArray[np.int64]


class _Segment:
    """A stretch of rows: ``codes[:count]``. A loaded one is read-only, and `source` keeps its mapping open."""

    def __init__(self, codes: Codes, count: int = 0, source: object = None) -> None:
        self.codes, self.count, self.source = codes, count, source

    @property
    def rows(self) -> Codes:
        return self.codes[: self.count]

    def append(self, vectors: Vectors) -> int:
        """Take as many rows as there is room for and say how many that was."""
        taken = 0 if self.source is not None else min(SEGMENT_ROWS - self.count, len(vectors))
        if taken <= 0:
            return 0
        end = self.count + taken
        if end > len(self.codes):
            larger = np.empty((min(SEGMENT_ROWS, max(end, 256, 2 * len(self.codes))), self.codes.shape[1]), np.float16)
            larger[: self.count] = self.rows
            self.codes = larger
        self.codes[self.count : end] = vectors[:taken]
        self.count = end
        return taken


def numbered(counts: Sequence[int] | NDArray[Any]) -> NDArray[np.int64]:
    """Count from 0 within each of several stretches: ``[2, 1]`` gives ``[0, 1, 0]``."""
    lengths = np.asarray(counts, np.int64)
    return np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)


class VectorTable:
    """The vectors of one space, each belonging to a slot; slots come in rising order. Not locked; its owner is."""

    def __init__(self, dim: int) -> None:
        self.dim = dim
        self._segments: list[_Segment] = []
        self._slots = Column(np.int32)
        self._windows = Column(np.int32)

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def size_bytes(self) -> int:
        """Memory taken; of mapped files, their size."""
        return self._slots.size_bytes + self._windows.size_bytes + sum(one.codes.nbytes for one in self._segments)

    def accepts(self, vectors: Vectors) -> bool:
        """Tell whether *vectors* has the form ``(n, dim)``, n at least 1, and values that half precision can hold."""
        return (
            vectors.ndim == 2 and len(vectors) > 0 and vectors.shape[1] == self.dim and bool((abs(vectors) < 2).all())
        )

    def append(self, slots: Slots, windows: NDArray[Any], vectors: Vectors | Codes) -> None:
        """Append rows.

        Args:
            slots: The slot of each row.
            windows: The number of each row within its slot; each slot's rows follow each other, counted from 0.
            vectors: Shape ``(len(slots), dim)``.
        """
        done = 0
        while done < len(vectors):
            if not self._segments or not (taken := self._segments[-1].append(vectors[done:])):  # type: ignore[arg-type]
                self._segments.append(_Segment(np.empty((0, self.dim), np.float16)))
                continue
            done += taken
        self._slots.extend(slots)
        self._windows.extend(windows)

    def attach(self, path: Path) -> None:
        """Map a file that `to_bytes` made as further rows; `set_owners` must follow.

        Raises:
            ValueError: the file is not such a file.
        """
        try:
            index = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except RuntimeError as exc:
            raise ValueError(f"FAISS cannot read {path.name}") from exc
        if (
            not isinstance(index, faiss.IndexScalarQuantizer)
            or index.sq.qtype != faiss.ScalarQuantizer.QT_fp16
            or index.metric_type != faiss.METRIC_INNER_PRODUCT
            or index.d != self.dim
            or index.codes.size() != index.ntotal * self.dim * 2
        ):
            raise ValueError(f"{path.name} holds another kind of index")
        codes = faiss.rev_swig_ptr(index.codes.data(), index.codes.size()).view(np.float16).reshape(-1, self.dim)
        codes.flags.writeable = False
        self._segments.append(_Segment(codes, len(codes), index))

    def set_owners(self, windows_of_slots: NDArray[Any]) -> None:
        """Say to which slots the attached rows belong: the first ``windows_of_slots[0]`` of them to slot 0, and so on.

        Raises:
            ValueError: there are more or fewer rows.
        """
        if int(windows_of_slots.sum()) != sum(one.count for one in self._segments):
            raise ValueError("vectors and memories differ in number")
        slots = np.repeat(np.arange(len(windows_of_slots)), windows_of_slots)
        self._slots, self._windows = Column(np.int32, slots), Column(np.int32, numbered(windows_of_slots))

    def snapshot(self) -> VectorSnapshot:
        """Fix what is there now for reading without a lock."""
        return VectorSnapshot(self.dim, [one.rows for one in self._segments], self._slots.values, self._windows.values)


@dataclass(frozen=True, slots=True, eq=False)
class VectorSnapshot:
    """The rows there were at one moment: float16 segments, and of each row its slot and its number within the slot."""

    dim: int
    segments: list[Codes]
    slots: NDArray[np.int32]
    windows: NDArray[np.int32]

    def nearest(self, vector: Vectors, k: int, allowed: Mask) -> Nearest:
        """Find the slots nearest to *vector* among the allowed.

        Args:
            vector: float32, shape ``(dim,)``, unit length.
            k: How many slots, at least 1; all that score like the k-th come too, so that the caller can order equals.
            allowed: A mark for every slot.
        """
        rows = allowed[self.slots]
        available = int(rows.sum())
        wanted = k + 8
        while True:
            wanted = min(wanted, available)
            found, scores = self._best_rows(vector, wanted, None if available == len(rows) else rows)
            slots = self.slots[found].astype(np.int64)
            _, firsts = np.unique(slots, return_index=True)
            firsts.sort()
            is_complete = len(firsts) >= k and scores[-1] < scores[firsts[k - 1]]
            if is_complete or wanted == available:
                return Nearest(slots[firsts], scores[firsts], self.windows[found[firsts]].astype(np.int64))
            wanted *= 4

    def packed(self, keep: Mask) -> Iterator[tuple[Slots, NDArray[np.int32], Codes]]:
        """Give the rows of the slots marked in *keep*, with slots and windows, in order, `SEGMENT_ROWS` at a time."""
        rows = np.flatnonzero(keep[self.slots])
        bounds = np.cumsum([0, *(len(codes) for codes in self.segments)])
        for at in range(0, len(rows), SEGMENT_ROWS):
            block = rows[at : at + SEGMENT_ROWS]
            codes = np.empty((len(block), self.dim), np.float16)
            cuts = np.searchsorted(block, bounds)
            for number, segment in enumerate(self.segments):
                start, end = cuts[number], cuts[number + 1]
                codes[start:end] = segment[block[start:end] - bounds[number]]
            yield self.slots[block].astype(np.int64), self.windows[block], codes

    def _best_rows(self, vector: Vectors, count: int, allowed: Mask | None) -> tuple[Slots, NDArray[np.float64]]:
        """Find the *count* best rows by falling score, then row."""
        query = np.ascontiguousarray(vector, np.float32).reshape(1, self.dim)
        all_rows: list[Slots] = [np.empty(0, np.int64)]
        all_scores: list[NDArray[np.float32]] = [np.empty(0, np.float32)]
        first = 0
        for codes in self.segments if count else ():
            selected = None if allowed is None else allowed[first : first + len(codes)]
            if selected is None or selected.any():
                scores, rows = _search(codes, query, min(count, len(codes)), selected)
                all_rows.append(rows[rows >= 0] + first)
                all_scores.append(scores[rows >= 0])
            first += len(codes)
        rows = np.concatenate(all_rows)
        scores64 = np.clip(np.concatenate(all_scores).astype(np.float64), -1.0, 1.0).round(SCORE_DECIMALS)
        order = np.lexsort((rows, -scores64))[:count]
        return rows[order], scores64[order]


def _search(codes: Codes, query: Vectors, count: int, selected: Mask | None) -> tuple[NDArray[np.float32], Slots]:
    """Search one segment; rows that fill up a result that is too short are -1. Of few rows all are given."""
    if selected is not None and len(few := np.flatnonzero(selected)) <= FEW_ROWS:
        return codes[few].astype(np.float32) @ query[0], few
    index = _view(codes)
    # One search runs on one thread: FAISS spreads questions over threads, not the rows of one, and to wait for the idle ones was
    # measured to take sixty times as long as the search (3,000 rows, two cores). OpenMP keeps the number for the thread that sets
    # it, and searches run in threads that never imported this module: so it is said here, each time.
    faiss.omp_set_num_threads(1)
    if selected is None:
        scores, rows = index.search(query, count)
    else:
        bits = np.packbits(selected, bitorder="little")
        selector = faiss.IDSelectorBitmap(len(selected), faiss.swig_ptr(bits))
        scores, rows = index.search(query, count, params=faiss.SearchParameters(sel=selector))  # type: ignore[call-arg]
    return scores[0], rows[0]


def _view(codes: Codes) -> faiss.IndexScalarQuantizer:
    """Lay a FAISS index over *codes*, which must outlive it."""
    index = faiss.IndexScalarQuantizer(codes.shape[1], faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    start = faiss.cast_integer_to_void_ptr(codes.ctypes.data)
    index.codes = faiss.MaybeOwnedVectorUInt8.create_view(start, codes.nbytes, _NO_OWNER.owner)  # type: ignore[attr-defined]
    index.ntotal = len(codes)
    return index


def to_bytes(codes: Codes) -> NDArray[np.uint8]:
    """Write *codes* in FAISS's own file format, as ``faiss.write_index`` does; `VectorTable.attach` maps it."""
    serialised: NDArray[np.uint8] = faiss.serialize_index(_view(codes))
    return serialised
