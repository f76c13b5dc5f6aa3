"""What the engine needs of what belongs to memories and goes with them: how often they were answers, and their links."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from infinite_memory.models import Link, MemoryId, ScopeId


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
        """Return the counts of a scope's memories; those never used are left out."""

    async def find(self, memory_id: MemoryId) -> Use | None:
        """Return the use of one memory; None where it never was an answer."""


class Links(Protocol):
    """Relations between memories, which go with the memories. The names of relations are matched letter for letter."""

    async def put(self, link: Link, scope_id: ScopeId) -> bool:
        """Add *link*, which begins in a memory of *scope_id*; returns whether it is new. Repeating it changes nothing."""

    async def of(self, memory_ids: Collection[MemoryId]) -> list[Link]:
        """List the links that begin or end at one of the memories, oldest first."""
