"""Single rows collected into columns, the form in which the index takes them, and their usable vectors."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from infinite_memory.index.id_map import to_key
from infinite_memory.index.metadata_table import milliseconds
from infinite_memory.models import FILTERED_NUMBERS, FILTERED_TEXTS, IndexBatch, IndexRow

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

log = logging.getLogger(__name__)

VECTOR_DTYPE = np.dtype("<f4")
"""The element type of `IndexBatch.vectors`."""


def in_columns(rows: Iterable[IndexRow], limit: int) -> Iterator[IndexBatch]:
    """Yield *rows* as batches, in order, at most *limit* rows and each memory once per batch.

    Raises:
        ValueError: an id is not 24 hexadecimal digits.
    """
    rows_by_key: dict[bytes, IndexRow] = {}
    for row in rows:
        key = to_key(row.memory_id)
        if key is None:
            raise ValueError(f"{row.memory_id!r} is not an id of 24 hexadecimal digits")
        if key in rows_by_key or len(rows_by_key) == limit:
            yield _columns(rows_by_key)
            rows_by_key = {}
        rows_by_key[key] = row
    if rows_by_key:
        yield _columns(rows_by_key)


def _columns(rows_by_key: dict[bytes, IndexRow]) -> IndexBatch:
    rows = list(rows_by_key.values())
    embeddings = [row.embedding for row in rows]
    return IndexBatch(
        keys=list(rows_by_key),
        scope_ids=[row.scope_id for row in rows],
        revisions=[row.revision for row in rows],
        occurred_ms=[milliseconds(row.occurred_at) for row in rows],
        created_ms=[milliseconds(row.created_at) for row in rows],
        tag_keys=[sorted(row.tag_keys) for row in rows],
        values={name: [getattr(row, name) for row in rows] for name in FILTERED_TEXTS}
        | {name: [_number(getattr(row, name)) for row in rows] for name in FILTERED_NUMBERS},
        spaces=[None if embedding is None else embedding.space for embedding in embeddings],
        windows=[0 if embedding is None else len(embedding.vectors) for embedding in embeddings],
        vectors=[
            b"" if embedding is None else embedding.vectors.astype(VECTOR_DTYPE, copy=False).tobytes()
            for embedding in embeddings
        ],
    )


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def usable_vectors(rows: IndexBatch, space: str, dim: int) -> tuple[NDArray[np.int64], Vectors]:
    """Return the number of vectors of each row, and all vectors in order, float32 of shape ``(sum, dim)``.

    The number is 0 if a row has none of this space, or invalid ones.
    """
    row_bytes = VECTOR_DTYPE.itemsize * dim
    counts = [count if own == space else 0 for count, own in zip(rows.windows, rows.spaces, strict=True)]
    row_vectors = [vectors if count else b"" for vectors, count in zip(rows.vectors, counts, strict=True)]
    together = b"".join(row_vectors)
    is_whole = all(len(data) == row_bytes * count for data, count in zip(row_vectors, counts, strict=True))
    if not is_whole or not _fits_half(together):
        for index, data in enumerate(row_vectors):
            if len(data) != row_bytes * counts[index] or not _fits_half(data):
                key = rows.keys[index].hex()
                log.warning("the vectors of memory %s are unusable", key, extra={"event": "vectors_unusable"})
                row_vectors[index], counts[index] = b"", 0
        together = b"".join(row_vectors)
    return np.array(counts, np.int64), np.frombuffer(together, VECTOR_DTYPE).reshape(-1, dim)


def _fits_half(vectors: bytes) -> bool:
    """True if all values fit half precision: those of unit vectors are at most 1, 2 leaves a margin."""
    return bool((abs(np.frombuffer(vectors, VECTOR_DTYPE)) < 2).all())
