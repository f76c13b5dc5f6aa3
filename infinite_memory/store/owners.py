"""Storage interface for owners: who has memories, and how many."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from infinite_memory.models import MemoryId, ScopeId


@dataclass(frozen=True, slots=True)
class OwnerCount:
    """An owner: how many live memories it has, and when its first was stored.

    An owner whose memories are all soft-deleted is still listed, with a count of 0.
    """

    owner: str
    count: int
    first_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent created before it has memories. ``user_id`` is its owner; None if it has none."""

    agent_id: str
    user_id: str | None
    name: str
    description: str
    created_at: dt.datetime


class Owners(Protocol):
    """Counts over `MemoryRecord.owners`, taken from the documents and so always consistent with them."""

    async def tally(
        self,
        scope_id: ScopeId,
        kind: str,
        *,
        owner: str | None = None,
        owners: Mapping[str, str] | None = None,
        leave_out_status: Collection[str] = (),
    ) -> list[OwnerCount]:
        """Count the memories of a scope by the owner of one *kind* (``agent_id``, say), owners in alphabetical order.

        Args:
            owner: Only this one, matched exactly.
            owners: Only memories that have these owners as well, by kind.
            leave_out_status: Memories of these states do not count.
        """

    async def live_ids_of(
        self, scope_id: ScopeId, owners: Mapping[str, str], *, leave_out_status: Collection[str] = ()
    ) -> frozenset[MemoryId]:
        """Return the ids of the live memories of a scope that have all of these owners, by kind; reads no memory.

        Args:
            leave_out_status: Memories of these states are omitted.
        """

    async def ids_of(self, scope_id: ScopeId, owners: Mapping[str, str]) -> frozenset[MemoryId]:
        """Return the ids of the memories of a scope, live and hidden, that have all of these owners, by kind; reads no memory."""

    async def read(self, scope_id: ScopeId, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, Mapping[str, str]]:
        """Return the owners of those of the memories, live or soft-deleted, that are in the scope; reads no other field."""

    async def add_agent(self, agent: Agent) -> bool:
        """Create an agent; False if the user already has one with that id, which is left unchanged."""

    async def remove_agents(self, user_id: str) -> None:
        """Remove the agents created for a user."""

    async def agents(self, user_id: str | None = None) -> list[Agent]:
        """List created agents, oldest first; those of one user, or all with None."""
