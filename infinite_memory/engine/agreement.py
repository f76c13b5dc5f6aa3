"""What a user agreed to over MCP, held against what is there when it is carried out.

Other calls go on while a question waits for its answer, so that what a request names (a tag, a scope's name, a file) may be more, or
something else, by then. What removes or replaces therefore takes the agreement along: what goes further is refused, and is asked about
when the request comes again.
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
    """What a rehearsal came upon before the user was asked.

    ``memories`` may go, each with its text where that was read; ``scopes`` are the scopes that the request named; ``groups`` are what
    each operation of tidying up may take; ``contents`` tells what was in a file. ``most`` is how many memories may go, whichever they
    are, where the user was told no more than their number.
    """

    memories: Mapping[MemoryId, str | None] = field(default_factory=dict)
    scopes: tuple[ScopeId, ...] = ()
    groups: Mapping[str, tuple[frozenset[MemoryId], ...]] = field(default_factory=dict)
    contents: tuple[str, ...] = ()
    most: int | None = None

    def check_scopes(self, *scopes: Scope) -> None:
        """Raise `ChangedSinceAskedError` where the names lead to other scopes now."""
        if tuple(scope.scope_id for scope in scopes) != self.scopes:
            raise ChangedSinceAskedError("another scope has that name")

    async def check_memories(self, memory_ids: Iterable[MemoryId], texts: Mapping[MemoryId, str]) -> None:
        """Raise `ChangedSinceAskedError` where more memories would go than were asked about, or some say something else.

        In a thread: a scope may hold a million.
        """
        await asyncio.to_thread(self._check_memories, memory_ids, texts)

    def _check_memories(self, memory_ids: Iterable[MemoryId], texts: Mapping[MemoryId, str]) -> None:
        more = sum(1 for memory_id in memory_ids if memory_id not in self.memories)
        if self.most is not None:
            more -= self.most
        if more > 0:
            raise ChangedSinceAskedError(f"{more:,} more {'memory' if more == 1 else 'memories'} would go")
        if any(self.memories.get(one) not in (None, text) for one, text in texts.items()):
            raise ChangedSinceAskedError("what would go was changed")

    def limit_groups(self, operation: str, groups: Iterable[list[MemoryRecord]]) -> list[list[MemoryRecord]]:
        """Return the groups that each lie in one that was asked about."""
        group_of = {one: number for number, group in enumerate(self.groups.get(operation, ())) for one in group}
        numbers = [(group, {group_of.get(memory.memory_id) for memory in group}) for group in groups]
        return [group for group, found in numbers if len(found) == 1 and None not in found]

    def limit(self, operation: str, located: Located) -> dict[MemoryId, ScopeId]:
        """Return those that an operation may take one by one."""
        allowed = frozenset[MemoryId]().union(*self.groups.get(operation, ()))
        return {memory_id: scope_id for memory_id, scope_id in located.items() if memory_id in allowed}

    async def mark(self, question: str) -> str:
        """Return a digest of the question and of all that it stands for."""
        return await asyncio.to_thread(self._mark, question)

    def _mark(self, question: str) -> str:
        groups = sorted((name, sorted(map(sorted, parts))) for name, parts in self.groups.items())
        whole = repr((question, sorted(self.memories.items()), self.scopes, groups, self.contents))
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def get_group(memories: Iterable[MemoryRecord]) -> frozenset[MemoryId]:
    """Return the ids of memories that an operation takes together."""
    return frozenset(memory.memory_id for memory in memories)
