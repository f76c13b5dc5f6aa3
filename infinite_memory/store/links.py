"""What the engine needs of the home of links, beside `Store`: directed relations between memories.

`Store.remove` and `Store.drop_scope` take the links of what they remove with them.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from infinite_memory.models import Link, MemoryId, ScopeId


class Links(Protocol):
    """Relations between memories. The names of relations are matched letter for letter."""

    async def put(self, link: Link, scope_id: ScopeId) -> bool:
        """Add *link*, which begins in a memory of *scope_id*; tells whether it is new. Repeating it changes nothing."""

    async def of(self, memory_ids: Collection[MemoryId]) -> list[Link]:
        """List the links that begin or end at one of the memories, oldest first."""
