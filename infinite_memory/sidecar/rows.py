"""Rows that come one by one, put together column by column: the form in which the sidecar takes them in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from infinite_memory.models import Row, Rows
from infinite_memory.sidecar.catalog import milliseconds
from infinite_memory.sidecar.keys import key_of

VECTOR_DTYPE = np.dtype("<f4")
"""What `Rows.vectors` holds."""


def in_columns(rows: Iterable[Row], limit: int) -> Iterator[Rows]:
    """Put *rows* together, in order, at most *limit* at a time and each memory once at a time.

    Raises:
        ValueError: an id is not 24 hexadecimal digits.
    """
    held: dict[bytes, Row] = {}
    for row in rows:
        key = key_of(row.memory_id)
        if key is None:
            raise ValueError(f"{row.memory_id!r} is not an id of 24 hexadecimal digits")
        if key in held or len(held) == limit:
            yield _columns(held)
            held = {}
        held[key] = row
    if held:
        yield _columns(held)


def _columns(held: dict[bytes, Row]) -> Rows:
    rows = list(held.values())
    embeddings = [row.embedding for row in rows]
    return Rows(
        keys=list(held),
        scope_ids=[row.scope_id for row in rows],
        revisions=[row.revision for row in rows],
        occurred_ms=[milliseconds(row.occurred_at) for row in rows],
        created_ms=[milliseconds(row.created_at) for row in rows],
        tag_keys=[sorted(row.tag_keys) for row in rows],
        sources=[row.source for row in rows],
        types=[row.type for row in rows],
        speakers=[row.speaker for row in rows],
        conversation_ids=[row.conversation_id for row in rows],
        confidences=[math.nan if row.confidence is None else row.confidence for row in rows],
        importances=[math.nan if row.importance is None else row.importance for row in rows],
        spaces=[None if one is None else one.space for one in embeddings],
        windows=[0 if one is None else len(one.vectors) for one in embeddings],
        vectors=[b"" if one is None else one.vectors.astype(VECTOR_DTYPE, copy=False).tobytes() for one in embeddings],
    )
