"""The schema of a Milvus collection: one row per window of a memory; the first one is the memory's main row.

A memory without a vector has one row with a zero vector and ``windows`` 0. Texts are percent-encoded, so that no version's quoting rules
can misread them in a row or an expression. Each is prefixed with ``=``, which tells an empty text from none, and a text longer than
`MAX_CHARS` is stored as its hash. Vectors are rounded to half precision like those of the embedded engine, so that both return the same
results.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import numpy as np

from infinite_memory.index.milvus.connection import Row
from infinite_memory.models import FILTERED_NUMBERS, FILTERED_TEXTS, IndexBatch, MemoryId

if TYPE_CHECKING:
    from pymilvus import CollectionSchema, MilvusClient
    from pymilvus.milvus_client.index import IndexParams

    from infinite_memory.models import Vectors

FORMAT = 1
"""Increased with every change that an older version would misread; part of a collection's name."""

MAX_CHARS = 4096
"""A longer text is stored as its hash: it can be matched, but not read back."""

MAX_TAGS = 4096  # maximum number of elements in a Milvus array
MIN_DIM = 2  # minimum dimension of a Milvus vector
ABSENT = -1e300
"""Stands for a missing number: below all values that a filter can ask for."""

KEY, MEMORY, WINDOW, WINDOWS, REVISION = "pk", "memory", "window", "windows", "revision"
SCOPE, OCCURRED, CREATED, TAGS, VECTOR = "scope", "occurred", "created", "tags", "vector"
MEMORIES = f"{WINDOW} == 0"
"""Matches the main row of each memory."""

MARK = "mark"  # primary key of the row that is written after a deletion


def encode(text: str) -> str:
    """Encode a text in letters, digits and ``_.-~%=#``."""
    written = "=" + quote(text, safe="", errors="surrogatepass")
    if len(written) <= MAX_CHARS:
        return written
    return "#" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def decode(written: str) -> str | None:
    """Decode the result of `encode`; None for a hash."""
    return unquote(written[1:], errors="surrogatepass") if written.startswith("=") else None


def window_key(memory_id: str, window: int) -> str:
    """Return the primary key of a window's row."""
    return f"{memory_id}/{window}" if window else memory_id


def make_schema(client: MilvusClient, dim: int) -> tuple[CollectionSchema, IndexParams]:
    """Return the schema of a collection for vectors of *dim* dimensions, and its index parameters.

    Why FLAT: it is exact. An approximate index loses rows under a filter (HNSW with default width found .35 of the nearest random
    vectors, and not all of a list of ids).
    """
    from pymilvus import DataType

    schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
    schema.add_field(KEY, DataType.VARCHAR, is_primary=True, max_length=48)
    for name in (MEMORY, SCOPE):
        schema.add_field(name, DataType.VARCHAR, max_length=24)
    for name in (WINDOW, WINDOWS, REVISION, OCCURRED, CREATED):
        schema.add_field(name, DataType.INT64)
    schema.add_field(TAGS, DataType.ARRAY, element_type=DataType.VARCHAR, max_capacity=MAX_TAGS, max_length=MAX_CHARS)
    for by in FILTERED_TEXTS.values():
        schema.add_field(by.column, DataType.VARCHAR, max_length=MAX_CHARS)
    for by in FILTERED_NUMBERS.values():
        schema.add_field(by.column, DataType.DOUBLE)
    schema.add_field(VECTOR, DataType.FLOAT_VECTOR, dim=max(dim, MIN_DIM))
    params = client.prepare_index_params()
    params.add_index(VECTOR, index_type="FLAT", metric_type="IP")
    return schema, params


def to_rows(batch: IndexBatch, counts: Sequence[int], vectors: Vectors) -> Iterator[Row]:
    """Return the rows of memories: *counts* gives the number of each memory's *vectors*, which are in order; one row if it is 0."""
    halves = vectors.astype(np.float16).astype(np.float32)
    dim, first = max(vectors.shape[1], MIN_DIM), 0
    for position, count in enumerate(counts):
        memory_id = batch.keys[position].hex()
        row = _memory_row(batch, position, memory_id, count)
        for window in range(max(count, 1)):
            vector = halves[first + window].tolist() if count else []
            padded = vector + [0.0] * (dim - len(vector))
            yield row | {KEY: window_key(memory_id, window), WINDOW: window, VECTOR: padded}
        first += count


def _memory_row(batch: IndexBatch, position: int, memory_id: str, count: int) -> Row:
    row: Row = {
        MEMORY: memory_id,
        SCOPE: batch.scope_ids[position],
        REVISION: batch.revisions[position],
        WINDOWS: count,
        OCCURRED: batch.occurred_ms[position],
        CREATED: batch.created_ms[position],
        TAGS: [encode(key) for key in batch.tag_keys[position]][:MAX_TAGS],
    }
    for name, by in FILTERED_TEXTS.items():
        text = batch.values[name][position]
        row[by.column] = "" if text is None else encode(by.match_key(text))
    for name, by in FILTERED_NUMBERS.items():
        number = float(batch.values[name][position])
        row[by.column] = ABSENT if np.isnan(number) else number
    return row


def make_mark(dim: int) -> Row:
    """Return a row that no query matches, to be written after a deletion."""
    empty: dict[str, Any] = {KEY: MARK, MEMORY: "", SCOPE: "", TAGS: [], VECTOR: [0.0] * max(dim, MIN_DIM)}
    empty |= {WINDOW: -1, WINDOWS: 0, REVISION: 0, OCCURRED: 0, CREATED: 0}
    empty |= {by.column: "" for by in FILTERED_TEXTS.values()}
    return empty | {by.column: ABSENT for by in FILTERED_NUMBERS.values()}


def to_memory_id(row: Row) -> MemoryId:
    """Return the memory id of a row."""
    return MemoryId(row[MEMORY])
