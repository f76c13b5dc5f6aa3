"""Exact and coarse vector search: the only module that uses FAISS.

Exact: vectors are plain float16 arrays. For each search a FAISS index (`IndexScalarQuantizer`, QT_fp16, inner product; rows are unit
length, so that is the cosine) is created as a view over an array, which takes ten microseconds.

Coarse: a `Quantiser` encodes four dimensions (two of short vectors) in four bits: ``PQ96x4``, 48 bytes per vector, at 384
dimensions. FAISS's fast scan takes 1.6 ms of CPU for a million of those, the exact search 28. Its hits are a pool that the caller
scores exactly. Codes are kept as plain rows, which can be saved, selected and concatenated, and additionally packed for fast scan.
For a filter that few rows pass, only those are packed (0.5 ms for 10,000) and searched without a filter. Why rows are packed as the
only list of an inverted file: there FAISS accepts a selector and applies it only to rows that would enter the result, so a larger
filter costs 2 to 4 ms of CPU at a million rows, however many pass and whether or not they correlate with the query; without a filter
that is 1 to 2 ms slower than a separate layout, which would take another 64 MiB.

Why exact search over more than a few rows filters by bitmap: over 100,000 vectors FAISS with a bitmap takes 0.4 ms with 1 % allowed
and 2.4 ms with 10 %.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import faiss
import numpy as np
from numpy.typing import NDArray

from infinite_memory.index.id_map import Slots
from infinite_memory.index.mmap_memory import Mapped

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

FEW_ROWS = 1024
"""Up to this many rows are copied and searched; more are searched in place."""

SAMPLE_ROWS = 30_000
"""Vectors to train a quantiser on, 0.6 s of one core; more change neither recall nor speed."""

BLOCK_ROWS = 8192
"""Rows converted to float32 at a time, 12 MB at 384 dimensions."""

Codes = NDArray[np.float16]
CoarseCodes = NDArray[np.uint8]
Mask = NDArray[np.bool_]
Ranked = tuple[Slots, NDArray[np.float32]]
"""Rows by descending score, and the scores."""

_NO_OWNER = faiss.MaybeOwnedVectorUInt8()
_BITS = 4
_SHORT_DIM = 256


def search_exactly(
    codes: Codes, query: Vectors, count: int, selected: Mask | None
) -> tuple[NDArray[np.float32], Slots]:
    """Return the *count* best rows of *codes*.

    Args:
        query: float32, shape ``(1, dim)``.
        selected: A mask of rows, or None for all.

    Returns:
        The scores, descending, and the rows; a short result is padded with row -1.
    """
    _on_one_thread()
    if selected is not None and len(few := np.flatnonzero(selected)) <= FEW_ROWS:
        gathered = codes[few]
        # Why not NumPy: its BLAS wakes a thread per core, which takes ten times as long.
        scores, rows = _view(gathered).search(query, min(count, len(few)))
        return scores[0], few[rows[0]]
    index = _view(codes)
    if selected is None:
        scores, rows = index.search(query, count)
    else:
        bits = np.packbits(selected, bitorder="little")
        selector = faiss.IDSelectorBitmap(len(selected), faiss.swig_ptr(bits))
        scores, rows = index.search(query, count, params=faiss.SearchParameters(sel=selector))  # type: ignore[call-arg]
    return scores[0], rows[0]


def score(codes: Codes, query: Vectors) -> NDArray[np.float32]:
    """Return the score (cosine, -1 to 1) of each of *codes*, in order; ``query`` is float32, shape ``(1, dim)``."""
    _on_one_thread()
    scores, rows = _view(codes).search(query, len(codes))
    result = np.empty(len(codes), np.float32)
    result[rows[0]] = scores[0]
    return result


def to_bytes(codes: Codes) -> NDArray[np.uint8]:
    """Serialise *codes* in FAISS's file format, as ``faiss.write_index`` does; `map_codes` maps it."""
    serialised: NDArray[np.uint8] = faiss.serialize_index(_view(codes))
    return serialised


def map_codes(path: Path, dim: int) -> Mapped:
    """Map a file written with `to_bytes`.

    Raises:
        ValueError: the file is not such a file.
    """
    index = _read(path)
    if (
        not isinstance(index, faiss.IndexScalarQuantizer)
        or index.sq.qtype != faiss.ScalarQuantizer.QT_fp16
        or index.metric_type != faiss.METRIC_INNER_PRODUCT
        or index.d != dim
        or index.codes.size() != index.ntotal * dim * 2
        or index.codes.is_owned  # type: ignore[attr-defined]
    ):
        raise ValueError(f"{path.name} holds another kind of index")
    codes = faiss.rev_swig_ptr(index.codes.data(), index.codes.size()).view(np.float16).reshape(-1, dim)
    codes.flags.writeable = False
    return Mapped(codes, index)


class FastScanIndex:
    """Coarse codes packed for filtered search. Threads may share it."""

    def __init__(self, codes: CoarseCodes, trained: faiss.ProductQuantizer) -> None:
        self._whole = faiss.IndexFlatIP(trained.d)  # the centroid of the only list; FAISS does not keep it alive
        self._whole.add(np.zeros((1, trained.d), np.float32))
        listed = faiss.IndexIVFPQ(self._whole, trained.d, 1, trained.M, _BITS, faiss.METRIC_INNER_PRODUCT)
        listed.by_residual, listed.pq, listed.is_trained = False, trained, True
        rows, codes = np.arange(len(codes)), np.ascontiguousarray(codes)
        assert listed.invlists is not None
        listed.invlists.add_entries(0, len(codes), faiss.swig_ptr(rows), faiss.swig_ptr(codes))
        listed.ntotal = len(codes)
        self._index = faiss.IndexIVFPQFastScan(listed)

    def search(self, vector: Vectors, count: int, selected: Mask | None = None) -> Ranked:
        """Return the *count* best rows by code, among *selected* if given; *vector* has shape ``(dim,)``."""
        _on_one_thread()
        if selected is None:
            return _first(*self._index.search(vector[None], min(count, self._index.ntotal)))
        bits = np.packbits(selected, bitorder="little")
        selector = faiss.IDSelectorBitmap(len(selected), faiss.swig_ptr(bits))
        params = faiss.SearchParametersIVF(sel=selector, nprobe=1)  # type: ignore[call-arg]
        return _first(*self._index.search(vector[None], min(count, len(selected)), params=params))


class Quantiser:
    """A trained product quantiser. Threads may share it."""

    def __init__(self, index: faiss.IndexPQ) -> None:
        self._index = index

    @staticmethod
    def suits(dim: int) -> bool:
        """True if *dim* can be split into subquantisers."""
        return dim % (2 * _dims_per_digit(dim)) == 0

    @classmethod
    def trained(cls, sample: Codes) -> Quantiser:
        """Train a quantiser on *sample*, shape ``(n, dim)``; deterministic."""
        _on_one_thread()
        index = _empty(sample.shape[1])
        index.train(sample.astype(np.float32))
        return cls(index)

    @classmethod
    def read(cls, path: Path, dim: int) -> tuple[Quantiser, CoarseCodes]:
        """Return the quantiser and codes of a file written with `to_bytes`.

        Raises:
            ValueError: the file is not such a file.
        """
        index = _read(path)
        if (
            not isinstance(index, faiss.IndexPQ)
            or (index.d, index.pq.nbits, index.pq.dsub) != (dim, _BITS, _dims_per_digit(dim))
            or index.codes.size() != index.ntotal * index.pq.code_size
        ):
            raise ValueError(f"{path.name} holds another kind of index")
        codes = faiss.rev_swig_ptr(index.codes.data(), index.codes.size()).reshape(-1, index.pq.code_size).copy()
        return cls(_empty(dim, index.pq)), codes

    @property
    def code_bytes(self) -> int:
        """Length of a vector's code."""
        return int(self._index.pq.code_size)

    def is_like(self, other: Quantiser) -> bool:
        """True if the codes of both are interchangeable."""
        mine, theirs = (faiss.vector_to_array(quantiser._index.pq.centroids) for quantiser in (self, other))
        return bool(np.array_equal(mine, theirs))

    def encode(self, vectors: Codes) -> CoarseCodes:
        """Return the codes of *vectors*, shape ``(n, code_bytes)``: 5 microseconds per vector."""
        _on_one_thread()
        codes = np.empty((len(vectors), self.code_bytes), np.uint8)
        for start in range(0, len(vectors), BLOCK_ROWS):
            block = vectors[start : start + BLOCK_ROWS].astype(np.float32)
            codes[start : start + len(block)] = self._index.pq.compute_codes(block)
        return codes

    def pack(self, codes: CoarseCodes) -> FastScanIndex:
        """Pack codes for fast scan; they are copied."""
        _on_one_thread()
        return FastScanIndex(codes, self._index.pq)

    def to_bytes(self, codes: CoarseCodes) -> NDArray[np.uint8]:
        """Serialise the quantiser and codes in FAISS's file format; `read` reads it."""
        serialised: NDArray[np.uint8] = faiss.serialize_index(self._over(np.ascontiguousarray(codes)))
        return serialised

    def _over(self, codes: CoarseCodes) -> faiss.IndexPQ:
        index = _empty(self._index.d, self._index.pq)
        _lay_over(index, codes)
        return index


def _first(scores: NDArray[np.float32], rows: Slots) -> Ranked:
    """Return the results of the only query, without padding."""
    is_found = rows[0] >= 0
    return rows[0][is_found], scores[0][is_found]


def _on_one_thread() -> None:
    """Limit FAISS to one thread.

    It parallelises over queries, not over the rows of one, and waiting for idle threads took sixty times as long as the search (3,000 rows,
    two cores). The OpenMP setting is per calling thread, and searches run in threads that never imported this module, so it is set each
    time.
    """
    faiss.omp_set_num_threads(1)


def _dims_per_digit(dim: int) -> int:
    """Return the dimensions per subquantiser: fewer for short vectors, which have fewer codes to average errors over."""
    return 2 if dim < _SHORT_DIM else 4


def _view(codes: Codes) -> faiss.IndexScalarQuantizer:
    """Return a FAISS index as a view over *codes*, which must outlive it."""
    index = faiss.IndexScalarQuantizer(codes.shape[1], faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    _lay_over(index, codes)
    return index


def _empty(dim: int, trained: faiss.ProductQuantizer | None = None) -> faiss.IndexPQ:
    index = faiss.IndexPQ(dim, dim // _dims_per_digit(dim), _BITS, faiss.METRIC_INNER_PRODUCT)
    if trained is not None:
        index.pq, index.is_trained = trained, True
    return index


def _lay_over(index: faiss.IndexFlatCodes, codes: Codes | CoarseCodes) -> None:
    start = faiss.cast_integer_to_void_ptr(codes.ctypes.data)
    index.codes = faiss.MaybeOwnedVectorUInt8.create_view(start, codes.nbytes, _NO_OWNER.owner)  # type: ignore[attr-defined]
    index.ntotal = len(codes)


def _read(path: Path) -> faiss.Index:
    try:
        return faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
    except RuntimeError as exc:
        raise ValueError(f"FAISS cannot read {path.name}") from exc
