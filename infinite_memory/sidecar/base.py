"""What the engine needs of derived data: rows it knows by our ids, found by filter, time or vector.

A sidecar may be lost and is then rebuilt from the store. It never holds a memory's text, only what filtering and
ranking need.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from infinite_memory.models import Embedding, Filter, MemoryId, MemoryRecord, ScopeId
from infinite_memory.sidecar.weighing import Weigh

if TYPE_CHECKING:
    from infinite_memory.models import Vectors


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """What a sidecar keeps of one live memory."""

    memory_id: MemoryId
    scope_id: ScopeId
    revision: int
    occurred_at: dt.datetime
    created_at: dt.datetime
    tag_keys: frozenset[str]
    source: str
    type: str | None
    speaker: str | None
    conversation_id: str | None
    confidence: float | None
    importance: float | None
    embedding: Embedding | None

    @classmethod
    def of(cls, memory: MemoryRecord) -> Row:
        """Take from *memory* what a sidecar keeps."""
        return cls(
            memory.memory_id, memory.scope_id, memory.revision, memory.occurred_at, memory.created_at, memory.tag_keys,
            memory.source, memory.type, memory.speaker, memory.conversation_id, memory.confidence, memory.importance,
            memory.embedding,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory found by its vectors: ``score`` is the cosine of its best window, ``window`` that window's number."""

    memory_id: MemoryId
    score: float
    window: int


@dataclass(frozen=True, slots=True)
class Page:
    """A stretch of a listing: ids in order, the number of memories that pass the filter, the cursor of what follows."""

    memory_ids: tuple[MemoryId, ...]
    total: int
    next_cursor: str | None


class Sidecar(Protocol):
    """Derived data over all scopes of one store; every method may be called from several threads.

    Filters apply before ranking: whenever enough memories pass, a search fills ``k``.
    """

    def upsert(self, rows: Iterable[Row]) -> None:
        """Add rows, or replace those whose revision is older than the given one; an older row changes nothing."""

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Take memories out; unknown ids are ignored."""

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Take all memories of a scope out."""

    def search(self, vector: Vectors, k: int, where: Filter) -> list[Hit]:
        """Find the memories nearest to *vector* among those that pass *where*.

        Args:
            vector: One float32 row of shape ``(dim,)``, unit length.
            k: At most this many memories; several windows of one memory are one hit.

        Returns:
            Hits by falling score, equal scores by newer first, then by id.
        """

    def list_page(self, where: Filter, limit: int, cursor: str | None, newest_first: bool) -> Page:
        """List memories that pass *where* by the time they happened, then by id.

        Raises:
            InvalidRequestError: *cursor* was not made by this method.
        """

    def heaviest(self, where: Filter, limit: int, weigh: Weigh) -> list[MemoryId]:
        """List at most *limit* memories that pass *where* by falling weight, equal weights by newer first, then by id.

        Args:
            weigh: Gives the weights; pure, may run in any thread.
        """

    def count(self, where: Filter) -> int:
        """Count the memories that pass *where*."""

    def count_by_scope(self) -> Mapping[ScopeId, int]:
        """Count live memories of each scope that has any."""

    def count_conversations(self, where: Filter) -> int:
        """Count the distinct conversation ids of memories that pass *where*."""

    def locate(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, ScopeId]:
        """Find the scope of memories; unknown ids are left out."""

    def is_current(self, memory_id: MemoryId, revision: int) -> bool:
        """Tell whether the memory is known at *revision* or a later one."""

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Leave these scopes out wherever a filter names no scopes; replaces what was set before."""

    def revisions(self) -> Mapping[MemoryId, int]:
        """Give the revision of every memory known, to compare with the store."""

    def pending(self) -> Sequence[MemoryId]:
        """List the memories without a vector of the current space, oldest first."""


class SidecarFiles(Protocol):
    """Makes, saves and loads a sidecar; the store it derives from is named by ``database``."""

    def create(self, space: str, dim: int) -> Sidecar:
        """Make an empty sidecar for vectors of one space."""

    def load(self, database: str, space: str, dim: int) -> tuple[Sidecar, bytes]:
        """Load the newest saved generation with the change token up to which it is current.

        Raises:
            SidecarDamagedError: there is none, or it fails its checks, or belongs to another store, space or version.
        """

    def save(self, sidecar: Sidecar, database: str, token: bytes) -> None:
        """Save a generation durably, then remove older ones. What was removed from the sidecar is not in the file.

        Raises:
            SidecarError: it could not be written (a full disk, say); the generation before is still there.
        """
