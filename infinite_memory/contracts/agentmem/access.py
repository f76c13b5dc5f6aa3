"""Ownership of memories by users, agents, runs, sessions and organizations, and who may see them.

The user is stored in the memory's owners, verbatim, and in its source, by which every search is filtered before it ranks. The results
of that filter are checked against the owners.
"""

from __future__ import annotations

from collections.abc import Mapping

from infinite_memory.contracts.agentmem.table import SCOPE, MemoryType, ScopeType
from infinite_memory.contracts.fields import Fields
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.types import ScopedFilter
from infinite_memory.engine.visibility import OwnerRule, OwnerRules, Visibility
from infinite_memory.errors import AgentNotFoundError, InvalidRequestError, ScopeNotFoundError
from infinite_memory.models import Filter, MemoryId, MemoryRecord
from infinite_memory.normalization import normalize
from infinite_memory.store.owners import OwnerCount

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


def get_owners(fields: Fields) -> Mapping[str, str]:
    """Collect the owners of a memory; its scope is the one given, else the narrowest whose id is given.

    Raises:
        InvalidRequestError: the id of the given scope is missing.
    """
    ids = {name: value for name in _ID_OF.values() if (value := fields.find_text(name)) is not None}
    reach: ScopeType | None = fields["scope_type"]
    if reach is None:
        reach = next(kind for kind, name in _ID_OF.items() if name in ids)
    elif _ID_OF[reach] not in ids:
        raise InvalidRequestError(_ID_OF[reach], f"is required for scope_type {reach.value!r}")
    return ids | {REACH: reach.value}


def make_source(user_id: str) -> str:
    """Return the source of all memories of a user."""
    return _SOURCE + user_id


def make_superseded_source(user_id: str) -> str:
    """Return the source of a user's superseded memories: they are in no search."""
    return _OLD_SOURCE + user_id


def see_user(user_id: str, agent_id: str | None = None, *, with_shared: bool = False) -> Visibility:
    """Return the visibility of a user's current memories: all of them, or those of one agent.

    Args:
        with_shared: Whether memories without an agent are visible in addition to the agent's.
    """
    rules: OwnerRules = (OwnerRule.equals(USER, user_id),)
    if agent_id is not None:
        rules += (OwnerRule(AGENT, frozenset({agent_id, None} if with_shared else {agent_id})),)
    return Visibility(
        scope_names=(SCOPE,),
        owners=(rules,),
        hidden_statuses=frozenset({SUPERSEDED}),
        source=make_source(user_id),
        filtered_owners=frozenset({USER}),
        unlisted_statuses=frozenset({SUPERSEDED}),
        other_sources=frozenset({make_superseded_source(user_id)}),
        types=tuple(type_.value for type_ in MemoryType),
        creates_scopes=True,
        agents_of=user_id,
        described=f"the user {user_id!r}",
    )


def make_filter(visibility: Visibility, kind: MemoryType | None = None) -> ScopedFilter:
    """Return a filter for what *visibility* allows and for a type, as precisely as filters can express it."""
    rest = visibility.narrow(Filter(type=kind.value if kind else None))
    return ScopedFilter((SCOPE,), rest, lenient=True, is_apart=True)


def make_content_key(owners: Mapping[str, str], content: str, number: int = 0) -> str:
    """Return a key of a memory's owners and text; its id is derived from it, so the same statement is not stored twice.

    Case, Unicode form, white space and sentence-final punctuation are ignored; nothing else is, as "C" is not "C++".
    *number* is above 0 if the memory with the previous id has another text by now.
    """
    normalized = " ".join(normalize("NFC", content).casefold().split()).rstrip(" .!。！…") or content
    parts = [*(f"{name}={owners[name]}" for name in sorted(owners)), normalized, *([str(number)] if number else [])]
    return "\0".join(parts)


def format_id(memory_id: MemoryId) -> str:
    """Return a memory's id with this contract's prefix."""
    return _MARK + memory_id


def parse_id(text: str) -> MemoryId:
    """Parse a memory's id, with or without the prefix."""
    return MemoryId(text.removeprefix(_MARK))


async def list_memories(engine: Engine, visibility: Visibility, kind: MemoryType | None = None) -> list[MemoryRecord]:
    """Return everything that *visibility* allows, newest first."""
    memories: list[MemoryRecord] = []
    cursor: str | None = None
    while True:
        page = await engine.memories.list_page(make_filter(visibility, kind), _PAGE, cursor)
        memories += [memory for memory in page.memories if visibility.allows(memory)]
        cursor = page.next_cursor
        if cursor is None:
            return memories


async def list_ids(engine: Engine, visibility: Visibility) -> frozenset[MemoryId]:
    """Return the ids of the current memories of the owners in *visibility*, without reading the memories."""
    try:
        scope = await engine.scopes.get(SCOPE)
    except ScopeNotFoundError:
        return frozenset()
    return await engine.owners.list_ids(scope, visibility.exact_owners, leave_out_status=[SUPERSEDED])


async def count_agents(engine: Engine, agent_id: str | None = None) -> list[OwnerCount]:
    """Return every agent that *engine* shows, or the one of that name, with the number of its current memories."""
    try:
        scope = await engine.scopes.get(SCOPE)
        counted = await engine.owners.count(scope, AGENT, owner=agent_id, leave_out_status=[SUPERSEDED])
    except ScopeNotFoundError:
        counted = []
    counts = {count.owner: count for count in counted}
    for agent in await engine.owners.list_agents():
        if agent_id in (None, agent.agent_id):
            counts.setdefault(agent.agent_id, OwnerCount(agent.agent_id, 0, agent.created_at))
    return [counts[owner] for owner in sorted(counts)]


async def check_agent(engine: Engine, agent_id: str | None) -> None:
    """Reject an agent that does not exist; None is always accepted.

    Raises:
        AgentNotFoundError: it has no memory, and never had one.
    """
    if agent_id is not None and not await count_agents(engine, agent_id):
        raise AgentNotFoundError(agent_id)
