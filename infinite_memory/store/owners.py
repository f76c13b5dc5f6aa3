"""What the engine needs to know of owners, beside `Store`: who has memories, and how many."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from infinite_memory.models import MemoryId, ScopeId


@dataclass(frozen=True, slots=True)
class OwnerCount:
    """One owner: how many live memories it has, and when its first was stored.

    One whose memories are all softly deleted is still there, with a count of 0.
    """

    owner: str
    count: int
    first_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that was made before it has memories. ``user_id`` is whose it is; None for nobody's in particular."""

    agent_id: str
    user_id: str | None
    name: str
    description: str
    created_at: dt.datetime


class Owners(Protocol):
    """Figures over `MemoryRecord.owners`, counted from the documents and so never out of step with them."""

    async def tally(
        self,
        scope_id: ScopeId,
        kind: str,
        *,
        owner: str | None = None,
        among: Mapping[str, str] | None = None,
        leave_out_status: Collection[str] = (),
    ) -> list[OwnerCount]:
        """Count the memories of a scope by the owner of one *kind* (``agent_id``, say), owners in alphabetical order.

        Args:
            owner: Only this one, letter for letter.
            among: Only memories that have these owners as well, by kind.
            leave_out_status: Memories of these states do not count.
        """

    async def live_ids_of(
        self, scope_id: ScopeId, among: Mapping[str, str], *, leave_out_status: Collection[str] = ()
    ) -> frozenset[MemoryId]:
        """Name the live memories of a scope that have all of these owners, by kind; reads no memory.

        Args:
            leave_out_status: Memories of these states are left out.
        """

    async def ids_of(self, scope_id: ScopeId, among: Mapping[str, str]) -> frozenset[MemoryId]:
        """Name the memories of a scope, live and hidden, that have all of these owners, by kind; reads no memory."""

    async def read(self, scope_id: ScopeId, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, Mapping[str, str]]:
        """Return the owners of those of the memories, live or hidden, that are in the scope, and nothing else of them."""

    async def add_agent(self, agent: Agent) -> bool:
        """Make an agent; False when the user has one of that id already, which stays as it is."""

    async def remove_agents(self, user_id: str) -> None:
        """Remove the agents that were made for a user."""

    async def agents(self, user_id: str | None = None) -> list[Agent]:
        """List the agents that were made, oldest first; those of one user, or with None everybody's."""
