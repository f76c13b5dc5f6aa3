"""Whose a memory is: users, agents, runs, sessions and organizations, and who may see it.

The user stands in the memory's owners, letter for letter, and in its source, by which every search is narrowed before it ranks. What
the source lets through is checked against the owners.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from infinite_memory.contracts.agentmem.table import SCOPE, MemoryType, ScopeType
from infinite_memory.contracts.fields import Fields
from infinite_memory.engine import Engine
from infinite_memory.engine.parts import Where
from infinite_memory.errors import AgentNotFoundError, InvalidRequestError, ScopeNotFoundError
from infinite_memory.models import Filter, MemoryId, MemoryRecord
from infinite_memory.store.owners import Agent, OwnerCount

USER, AGENT, REACH = "user_id", "agent_id", "scope_type"
SUPERSEDED = "superseded"
_SOURCE, _OLD_SOURCE = "agentmem:", "agentmem, superseded:"
_MARK = "mem_"
_PAGE = 1000

_ID_OF = {
    ScopeType.SESSION: "session_id",
    ScopeType.RUN: "run_id",
    ScopeType.AGENT: "agent_id",
    ScopeType.USER: "user_id",
    ScopeType.ORGANIZATION: "org_id",
}
"""The id that each scope type needs, narrowest first; an organization is wider than the user, who is always given."""


def owners_of(fields: Fields) -> Mapping[str, str]:
    """Collect whose a memory is; its scope is the one that was given, else the narrowest whose id was given.

    Raises:
        InvalidRequestError: the scope that was given lacks its id.
    """
    ids = {name: value for name in _ID_OF.values() if (value := fields.find_text(name)) is not None}
    reach: ScopeType | None = fields["scope_type"]
    if reach is None:
        reach = next(kind for kind, name in _ID_OF.items() if name in ids)
    elif _ID_OF[reach] not in ids:
        raise InvalidRequestError(_ID_OF[reach], f"is required for scope_type {reach.value!r}")
    return ids | {REACH: reach.value}


def source_of(user_id: str) -> str:
    """Give the source that all memories of a user have."""
    return _SOURCE + user_id


def superseded_source_of(user_id: str) -> str:
    """Give the source of a user's memories that newer ones took the place of: they are in no search."""
    return _OLD_SOURCE + user_id


def where_of(user_id: str, kind: MemoryType | None = None) -> Where:
    """Narrow to the memories of a user, and of a type."""
    return Where((SCOPE,), Filter(source=source_of(user_id), type=kind.value if kind else None), lenient=True)


@dataclass(frozen=True, slots=True)
class Sight:
    """What a request sees of a user's memories: all of them, or those of one agent, with or without what belongs to no agent."""

    user_id: str
    agent_id: str | None = None
    with_shared: bool = False

    def shows(self, memory: MemoryRecord) -> bool:
        """Tell whether *memory* is the user's, current, and of the agent."""
        if memory.owners.get(USER) != self.user_id or memory.status == SUPERSEDED:
            return False
        agent = memory.owners.get(AGENT)
        return self.agent_id is None or agent == self.agent_id or (self.with_shared and agent is None)


def own_id(owners: Mapping[str, str], content: str, number: int = 0) -> MemoryId:
    """Make the id of a memory from whose it is and what it says, so that saying it again is met and not stored twice.

    Case, Unicode form, white space and what ends a sentence do not count; nothing else is left out, for "C" is not "C++".
    *number* is above 0 where a memory that had the id says something else by now.
    """
    said = " ".join(unicodedata.normalize("NFC", content).casefold().split()).rstrip(" .!。！…") or content
    parts = [*(f"{name}={owners[name]}" for name in sorted(owners)), said, *([str(number)] if number else [])]
    return MemoryId(hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:24])


def id_out(memory_id: MemoryId) -> str:
    """Write a memory's id as this contract does."""
    return _MARK + memory_id


def id_in(text: str) -> MemoryId:
    """Read a memory's id, with its mark or without."""
    return MemoryId(text.strip().removeprefix(_MARK).lower())


async def memories_of(engine: Engine, sight: Sight, kind: MemoryType | None = None) -> list[MemoryRecord]:
    """Read everything that *sight* shows, newest first."""
    found: list[MemoryRecord] = []
    cursor: str | None = None
    while True:
        page = await engine.list_memories(where_of(sight.user_id, kind), _PAGE, cursor)
        found += [one for one in page.memories if sight.shows(one)]
        cursor = page.next_cursor
        if cursor is None:
            return found


async def ids_of_agent(engine: Engine, user_id: str, agent_id: str) -> frozenset[MemoryId]:
    """Name the current memories of one agent and user, without reading them."""
    try:
        scope = await engine.get_scope(SCOPE)
    except ScopeNotFoundError:
        return frozenset()
    owners = engine.parts.store.owners
    return await owners.ids_of_agent(scope.scope_id, agent_id, user_id, leave_out_status=[SUPERSEDED])


async def agents_of(engine: Engine, agent_id: str | None = None) -> list[OwnerCount]:
    """List every agent that *engine* shows, or the one of that name, with the number of its current memories."""
    owners, only = engine.parts.store.owners, engine.only_owners
    try:
        scope = await engine.get_scope(SCOPE)
        counted = await owners.tally(scope.scope_id, AGENT, owner=agent_id, among=only, leave_out_status=[SUPERSEDED])
    except ScopeNotFoundError:
        counted = []
    found = {one.owner: one for one in counted}
    for made in await made_agents(engine):
        if agent_id in (None, made.agent_id):
            found.setdefault(made.agent_id, OwnerCount(made.agent_id, 0, made.created_at))
    return [found[one] for one in sorted(found)]


async def made_agents(engine: Engine) -> list[Agent]:
    """List the agents that were made before they had memories, of whom *engine* shows."""
    await engine.parts.index.connected()
    return await engine.parts.store.owners.agents(engine.only_owners.get(USER))


async def check_agent(engine: Engine, agent_id: str | None) -> None:
    """Refuse an agent that does not exist; None is no agent.

    Raises:
        AgentNotFoundError: it has no memory, and never had one.
    """
    if agent_id is not None and not await agents_of(engine, agent_id):
        raise AgentNotFoundError(agent_id)
