"""Rows and vectors for the tests of the sidecar; each builder shows only what a test is about."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from infinite_memory.index.base import TextIndex, VectorIndex
from infinite_memory.index.vector.faiss_index import FaissIndex
from infinite_memory.models import Embedding, IndexRow, MemoryId, ScopeId, Window

SPACE = "test-model/16/fp32"
DIM = 16
DATABASE = "database-one"
START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


def memory_id(number: int) -> MemoryId:
    """Give the id with a number."""
    return MemoryId(f"{number:024x}")


def scope_id(number: int) -> ScopeId:
    """Give the scope id with a number."""
    return ScopeId(f"5c{number:022x}")


def unit_vectors(seed: int, count: int, dim: int = DIM) -> NDArray[np.float32]:
    """Draw unit vectors."""
    drawn = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    scaled: NDArray[np.float32] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return scaled


def make_embedding(vectors: NDArray[np.float32], space: str = SPACE) -> Embedding:
    """Give each vector a window of ten characters."""
    windows = tuple(Window(10 * number, 10 * number + 10) for number in range(len(vectors)))
    return Embedding(space, windows, vectors)


def make_row(
    number: int,
    *,
    scope: int = 0,
    revision: int = 1,
    second: float | None = None,
    tags: Iterable[str] = (),
    source: str = "test",
    type: str | None = None,
    speaker: str | None = None,
    conversation_id: str | None = None,
    confidence: float | None = None,
    importance: float | None = None,
    vectors: NDArray[np.float32] | None = None,
    space: str = SPACE,
) -> IndexRow:
    """Make a row that happened *second* seconds after `START` (default: its number) and has a vector of its own."""
    return IndexRow(
        memory_id=memory_id(number),
        scope_id=scope_id(scope),
        revision=revision,
        occurred_at=START + dt.timedelta(seconds=number if second is None else second),
        created_at=START + dt.timedelta(seconds=number),
        tag_keys=frozenset(tags),
        source=source,
        type=type,
        speaker=speaker,
        conversation_id=conversation_id,
        confidence=confidence,
        importance=importance,
        embedding=make_embedding(unit_vectors(number, 1) if vectors is None else vectors, space),
    )


def make_varied_rows(tag: str = "ünï") -> list[IndexRow]:
    """Make 300 rows in which something of everything is there; each has *tag*."""
    return [
        make_row(
            number,
            scope=number % 5,
            second=number % 17,
            tags=[f"t{number % 7}", tag],
            type="note" if number % 2 else None,
            speaker="Ada" if number % 3 else None,
            conversation_id=f"c{number % 4}",
            confidence=number / 300 if number % 2 else None,
            importance=number % 11 if number % 4 else None,
            vectors=unit_vectors(number, 1 + number % 3),
        )
        for number in range(300)
    ]


def make_pending_row(number: int, *, revision: int = 1) -> IndexRow:
    """Make a row whose memory has no vector yet."""
    return make_row(number, revision=revision, space="another-model")


def make_sidecar(rows: Iterable[IndexRow] = (), dim: int = DIM) -> FaissIndex:
    """Make a sidecar that holds *rows*."""
    sidecar = FaissIndex(SPACE, dim)
    sidecar.upsert(rows)
    return sidecar


def revisions(index: VectorIndex | TextIndex) -> dict[MemoryId, int]:
    """Return the revision of every memory that *index* knows."""
    known: dict[MemoryId, int] = {}
    for page in index.iter_revisions():
        assert list(page) == sorted(page)
        assert not known or min(page) > max(known)
        known |= page
    return known
