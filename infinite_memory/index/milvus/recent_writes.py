"""This process's writes to an index in the last seconds, which a read that does not wait may not show yet."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from infinite_memory.index.milvus import schema
from infinite_memory.index.milvus.connection import Row
from infinite_memory.models import FILTERED, MemoryId, ScopeId

REMEMBERED_S = 30.0
"""How long writes are kept: a server makes them visible to all within a fraction of a second, within some seconds under overload."""

CONVERSATION = FILTERED["conversation_id"].column
SOURCE = FILTERED["source"].column
FIELDS = (schema.MEMORY, schema.SCOPE, schema.REVISION, schema.WINDOWS, schema.OCCURRED, CONVERSATION, SOURCE)


@dataclass(frozen=True, slots=True)
class Known:
    """The indexed metadata of one memory, without its vectors."""

    memory_id: MemoryId
    scope_id: ScopeId
    revision: int
    windows: int
    occurred_ms: int
    conversation: str
    source: str

    @classmethod
    def of(cls, row: Row) -> Known:
        """Create it from a memory's main row, queried with `FIELDS`."""
        return cls(MemoryId(row[schema.MEMORY]), ScopeId(row[schema.SCOPE]), *(row[name] for name in FIELDS[2:]))


class RecentWrites:
    """Recently written and removed memories. Methods may be called from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writes: OrderedDict[MemoryId, tuple[float, Known | None]] = OrderedDict()

    def wrote(self, memories: Iterable[Known]) -> None:
        """Record that memories were written."""
        self._record({memory.memory_id: memory for memory in memories})

    def removed(self, memory_ids: Iterable[MemoryId]) -> None:
        """Record that memories were removed."""
        self._record(dict.fromkeys(memory_ids))

    def _record(self, writes: Mapping[MemoryId, Known | None]) -> None:
        now = time.monotonic()
        with self._lock:
            for memory_id, entry in writes.items():
                self._writes[memory_id] = now, entry
                self._writes.move_to_end(memory_id)
            while self._writes and next(iter(self._writes.values()))[0] < now - REMEMBERED_S:
                self._writes.popitem(last=False)

    def among(self, memory_ids: Iterable[MemoryId]) -> dict[MemoryId, Known | None]:
        """Return those of *memory_ids* that were recently written (their metadata) or removed (None)."""
        oldest = time.monotonic() - REMEMBERED_S
        with self._lock:
            writes = {memory_id: self._writes.get(memory_id) for memory_id in memory_ids}
        return {memory_id: write[1] for memory_id, write in writes.items() if write is not None and write[0] >= oldest}

    def all(self) -> dict[MemoryId, Known | None]:
        """Return every memory that was recently written or removed."""
        with self._lock:
            memory_ids = list(self._writes)
        return self.among(memory_ids)
