"""Routes for agents, scopes, statistics, backups, and the service itself."""

from __future__ import annotations

from infinite_memory.contracts.agentmem.access import count_agents
from infinite_memory.contracts.agentmem.prompts import find_agents, format_name, serialize_agent
from infinite_memory.contracts.agentmem.table import ID_CHARS
from infinite_memory.contracts.field_types import NameField, TextField
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.native import admin
from infinite_memory.contracts.native.lifecycle import serialize_backup, serialize_listed
from infinite_memory.contracts.native.serializers import serialize_scope
from infinite_memory.errors import AlreadyExistsError, truncated_repr
from infinite_memory.models import floor_to_millisecond
from infinite_memory.store.owners import Agent
from infinite_memory.transports.http.api.backend import ApiRequest

AGENT_FIELDS = (
    NameField(name="agent_id", about="Its id", required=True, max_chars=ID_CHARS, new=True),
    NameField(name="name", about="Its name for people; default: made of its id", max_chars=ID_CHARS, new=True),
    TextField(name="description", about="What it is for", blank=True, limit="query_chars"),
)
_SEEN = ("total_memories", "conversation_count", "scopes", "soft_deleted", "version")
"""The statistics that callers with restricted visibility get."""


async def list_agents(request: ApiRequest) -> tuple[int, Json]:
    """List agents with the number of their current memories."""
    agents = await find_agents(await request.engine())
    return 200, {"agents": agents, "total": len(agents)}


async def create_agent(request: ApiRequest) -> tuple[int, Json]:
    """Create an agent, before its first memory or after: then only the name and the description are new.

    Raises:
        AlreadyExistsError: the user already has an agent of that id.
    """
    fields = request.check(*AGENT_FIELDS)
    engine = await request.engine()
    name = fields.text("agent_id")
    agent = Agent(
        name, request.user_id, fields.find_text("name") or format_name(name), fields.find_text("description") or "",
        floor_to_millisecond(engine.now()),
    )  # fmt: skip
    if not await engine.owners.add_agent(agent):
        raise AlreadyExistsError(f"there is an agent {truncated_repr(name)} already")
    [counted] = await count_agents(engine, name)
    return 201, serialize_agent(counted, agent)


async def list_scopes(request: ApiRequest) -> tuple[int, Json]:
    """List scopes."""
    scopes = await (await request.engine()).scopes.list_all()
    return 200, {"scopes": [serialize_scope(scope) for scope in scopes if scope.archived_at is None]}


async def create_scope(request: ApiRequest) -> tuple[int, Json]:
    """Create a scope."""
    call = await request.native("create_memory_scope", request.fields)
    scope = await admin.create_scope(call.engine, call.fields)
    return 201, {"scope_id": scope.scope_id, "scope_name": scope.name, "outcome": "created"}


async def stats(request: ApiRequest) -> tuple[int, Json]:
    """Return statistics; those of the whole memory only to callers that see all of it."""
    figures = await admin.collect_stats(await request.native("get_memory_stats", {}))
    return 200, {"stats": {name: figures[name] for name in _SEEN} if request.is_narrow else figures}


async def list_backups(request: ApiRequest) -> tuple[int, Json]:
    """List backups."""
    backups = (await request.administration()).open_backups()
    listed = [serialize_listed(backup) for backup in await backups.list_all()]
    return 200, {"backups": listed, "folder": str(backups.folder)}


async def create_backup(request: ApiRequest) -> tuple[int, Json]:
    """Write a backup and verify it."""
    backups = (await request.administration()).open_backups()
    return 201, serialize_backup(await backups.create())
