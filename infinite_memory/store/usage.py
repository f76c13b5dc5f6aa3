"""What the engine needs to know of the use of memories, beside `Store`: how often each was an answer, and when last."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from infinite_memory.models import MemoryId, ScopeId


@dataclass(frozen=True, slots=True)
class Use:
    """How often a memory was an answer, and when last."""

    count: int
    used_at: dt.datetime


class Uses(Protocol):
    """Counts by memory. They are worth little, so a few may be lost when a process dies."""

    async def add(self, counts: Mapping[MemoryId, tuple[ScopeId, int]], used_at: dt.datetime) -> None:
        """Count that memories were used so many times more, the last time at *used_at*."""

    async def of_scope(self, scope_id: ScopeId) -> dict[MemoryId, int]:
        """Give the counts of a scope's memories; those never used are left out."""

    async def find(self, memory_id: MemoryId) -> Use | None:
        """Return the use of one memory; None where it never was an answer."""
