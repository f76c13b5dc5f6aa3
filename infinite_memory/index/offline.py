"""Stand-in for a vector index whose server does not answer: it finds nothing, so that only the text index is searched."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from infinite_memory.errors import IndexUnavailableError
from infinite_memory.index.base import Hit, ImportanceDecay, Neighbours, Page
from infinite_memory.models import Filter, IndexBatch, IndexRow, MemoryId, MemoryRecord, ScopeId

if TYPE_CHECKING:
    from infinite_memory.models import Vectors


class OfflineIndex:
    """Implements `VectorIndex`: empty for a search by words, an error for everything that would be wrong without the rows.

    Args:
        reason: Why the server cannot be reached.
        written: Memories that were just written, whose words are to be indexed.
    """

    is_remote: ClassVar[bool] = False

    def __init__(self, reason: str, written: Sequence[MemoryRecord] = ()) -> None:
        self.reason = reason
        self._written = {memory.memory_id: memory for memory in written}

    # used by a search by words

    def search(self, vector: Vectors, k: int, where: Filter) -> list[Hit]:
        """Return no hits."""
        return []

    def list_page(self, where: Filter, limit: int, cursor: str | None, newest_first: bool) -> Page:
        """Return an empty page: callers only ask which candidates have a tag."""
        return Page((), 0, None)

    def top_by_weight(self, where: Filter, limit: int, decay: ImportanceDecay) -> list[MemoryId]:
        """List nothing."""
        return []

    def locate(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, ScopeId]:
        """Return the scopes of just written memories; the store is asked for all others."""
        return {memory_id: self._written[memory_id].scope_id for memory_id in memory_ids if memory_id in self._written}

    def get_revisions(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, int]:
        """Return the revisions of just written memories."""
        return {memory_id: self._written[memory_id].revision for memory_id in memory_ids if memory_id in self._written}

    def neighbours(self, memory_ids: Iterable[MemoryId], max_turns: int | None = None) -> Mapping[MemoryId, Neighbours]:
        """Return nothing; memories written now are reindexed when the server is back."""
        return {}

    def tags(self, start: int, limit: int) -> Sequence[str]:
        """List nothing."""
        return []

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    # wrong without the rows

    def _refuse(self) -> IndexUnavailableError:
        return IndexUnavailableError(self.reason)

    def upsert(self, rows: Iterable[IndexRow]) -> None:
        """Raise `IndexUnavailableError`."""
        raise self._refuse()

    def upsert_batch(self, rows: IndexBatch) -> None:
        """Raise `IndexUnavailableError`."""
        raise self._refuse()

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Raise `IndexUnavailableError`."""
        raise self._refuse()

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Raise `IndexUnavailableError`."""
        raise self._refuse()

    def move_scope(self, source: ScopeId, target: ScopeId) -> None:
        """Raise `IndexUnavailableError`."""
        raise self._refuse()

    def count(self, where: Filter) -> int:
        """Raise `IndexUnavailableError`."""
        raise self._refuse()

    def count_by_time(self, where: Filter, edges: Sequence[dt.datetime]) -> list[int]:
        """Raise `IndexUnavailableError`."""
        raise self._refuse()

    def count_by_scope(self) -> Mapping[ScopeId, int]:
        """Raise `IndexUnavailableError`."""
        raise self._refuse()

    def count_conversations(self, where: Filter) -> int:
        """Raise `IndexUnavailableError`."""
        raise self._refuse()

    def pending(self, limit: int) -> Sequence[MemoryId]:
        """Raise `IndexUnavailableError`."""
        raise self._refuse()

    def count_pending(self) -> int:
        """Raise `IndexUnavailableError`."""
        raise self._refuse()

    def iter_revisions(self) -> Iterator[Mapping[MemoryId, int]]:
        """Raise `IndexUnavailableError`."""
        raise self._refuse()

    @property
    def dead_count(self) -> int:
        """Always 0."""
        return 0

    def compact(self, *, all_rows: bool = False) -> int:
        """Raise `IndexUnavailableError`."""
        raise self._refuse()
