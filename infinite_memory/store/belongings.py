"""Storage interface for records attached to memories and removed with them: usage counts and links."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from infinite_memory.models import Link, MemoryId, ScopeId


@dataclass(frozen=True, slots=True)
class Use:
    """How often a memory was recalled, and when last."""

    count: int
    used_at: dt.datetime


class Uses(Protocol):
    """Usage counts by memory. They are not critical, so a few may be lost in a crash."""

    async def add(self, counts: Mapping[MemoryId, tuple[ScopeId, int]], used_at: dt.datetime) -> None:
        """Add to the usage counts of memories, last used at *used_at*."""

    async def of_scope(self, scope_id: ScopeId) -> dict[MemoryId, int]:
        """Return the counts of a scope's memories; those never used are omitted."""

    async def find(self, memory_id: MemoryId) -> Use | None:
        """Return the usage of one memory; None if it was never recalled."""


class Links(Protocol):
    """Relations between memories, removed with them. Relation names are matched exactly."""

    async def put(self, link: Link, scope_id: ScopeId) -> bool:
        """Add *link*, which starts at a memory of *scope_id*; return whether it is new. Idempotent."""

    async def of(self, memory_ids: Collection[MemoryId]) -> list[Link]:
        """List the links that start or end at one of the memories, oldest first."""
