"""What a user confirmed over MCP, checked against the state when the operation runs.

Other calls proceed while a confirmation is pending, so by then a request's target (a tag, a scope's name, a file) may cover more or
something else. Operations that remove or replace therefore carry the agreement: anything beyond it is refused, and the user is asked
when the request is repeated.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from infinite_memory.errors import ChangedSinceAskedError
from infinite_memory.models import MemoryId, MemoryRecord, Scope, ScopeId
from infinite_memory.store.base import Located


@dataclass(frozen=True, slots=True)
class Agreement:
    """What a dry run found before the user was asked.

    ``memories`` may be removed, each with its text if that was read; ``scopes`` are the scopes named by the request; ``groups`` are the
    memories that each cleanup operation may take; ``contents`` describes the contents of a file. ``max_count`` is the number of memories
    that may be removed, whichever they are, if the user was only told their number.
    """

    memories: Mapping[MemoryId, str | None] = field(default_factory=dict)
    scopes: tuple[ScopeId, ...] = ()
    groups: Mapping[str, tuple[frozenset[MemoryId], ...]] = field(default_factory=dict)
    contents: tuple[str, ...] = ()
    max_count: int | None = None

    def check_scopes(self, *scopes: Scope) -> None:
        """Raise `ChangedSinceAskedError` if the names refer to other scopes now."""
        if tuple(scope.scope_id for scope in scopes) != self.scopes:
            raise ChangedSinceAskedError("another scope has that name")

    async def check_memories(self, memory_ids: Iterable[MemoryId], texts: Mapping[MemoryId, str]) -> None:
        """Raise `ChangedSinceAskedError` if more memories would be removed than were confirmed, or if a text has changed.

        Runs in a thread: a scope may hold a million memories.
        """
        await asyncio.to_thread(self._check_memories, memory_ids, texts)

    def _check_memories(self, memory_ids: Iterable[MemoryId], texts: Mapping[MemoryId, str]) -> None:
        excess = sum(1 for memory_id in memory_ids if memory_id not in self.memories)
        if self.max_count is not None:
            excess -= self.max_count
        if excess > 0:
            raise ChangedSinceAskedError(f"{excess:,} more {'memory' if excess == 1 else 'memories'} would go")
        if any(self.memories.get(memory_id) not in (None, text) for memory_id, text in texts.items()):
            raise ChangedSinceAskedError("what would go was changed")

    def limit_groups(self, operation: str, groups: Iterable[list[MemoryRecord]]) -> list[list[MemoryRecord]]:
        """Return the groups that are each contained in a confirmed group."""
        group_of = {
            memory_id: number for number, group in enumerate(self.groups.get(operation, ())) for memory_id in group
        }
        numbers = [(group, {group_of.get(memory.memory_id) for memory in group}) for group in groups]
        return [group for group, confirmed in numbers if len(confirmed) == 1 and None not in confirmed]

    def limit(self, operation: str, located: Located) -> dict[MemoryId, ScopeId]:
        """Return the memories that an operation may take individually."""
        allowed = frozenset[MemoryId]().union(*self.groups.get(operation, ()))
        return {memory_id: scope_id for memory_id, scope_id in located.items() if memory_id in allowed}

    async def mark(self, question: str) -> str:
        """Return a digest of the question and everything it covers."""
        return await asyncio.to_thread(self._mark, question)

    def _mark(self, question: str) -> str:
        groups = sorted((name, sorted(map(sorted, parts))) for name, parts in self.groups.items())
        content = repr((question, sorted(self.memories.items()), self.scopes, groups, self.contents))
        return hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()


def get_group(memories: Iterable[MemoryRecord]) -> frozenset[MemoryId]:
    """Return the ids of memories that an operation takes as a group."""
    return frozenset(memory.memory_id for memory in memories)
