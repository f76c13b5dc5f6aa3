"""The routes about agents, scopes, figures, backups, and the service itself."""

from __future__ import annotations

from infinite_memory.contracts.agentmem.people import agents_of
from infinite_memory.contracts.agentmem.prompting import agent_out
from infinite_memory.contracts.agentmem.replies import name_out
from infinite_memory.contracts.agentmem.table import ID_CHARS
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.kinds import NameField, TextField
from infinite_memory.errors import AlreadyExistsError, shown
from infinite_memory.models import floor_to_millisecond
from infinite_memory.rest.backend import ApiRequest
from infinite_memory.store.owners import Agent

AGENT_FIELDS = (
    NameField(name="agent_id", about="Its id", required=True, max_chars=ID_CHARS),
    NameField(name="name", about="Its name for people; default: made of its id", max_chars=ID_CHARS),
    TextField(name="description", about="What it is for", blank=True, limit="query_chars"),
)
_SEEN = ("total_memories", "conversation_count", "scopes", "soft_deleted", "version")
"""What of the figures is told to who does not see everything."""


async def list_agents(request: ApiRequest) -> tuple[int, Json]:
    """List agents with the number of their current memories."""
    reply = await request.agentmem("agentmem_list_agents", {})
    return 200, {"agents": reply["agents"], "total": reply["total"]}


async def create_agent(request: ApiRequest) -> tuple[int, Json]:
    """Make an agent, before its first memory or after: then it is the name and the description that are new.

    Raises:
        AlreadyExistsError: the user has one of that id.
    """
    fields = request.check(*AGENT_FIELDS)
    engine = await request.engine()
    name = fields.text("agent_id")
    agent = Agent(
        name, request.user_id, fields.find_text("name") or name_out(name), fields.find_text("description") or "",
        floor_to_millisecond(engine.parts.clock()),
    )  # fmt: skip
    if not await engine.add_agent(agent):
        raise AlreadyExistsError(f"there is an agent {shown(name)} already")
    [counted] = await agents_of(engine, name)
    return 201, agent_out(counted, agent) | {"description": agent.description}


async def list_scopes(request: ApiRequest) -> tuple[int, Json]:
    """List scopes."""
    reply = await request.native("list_memory_scopes", {})
    return 200, {"scopes": reply["scopes"]}


async def create_scope(request: ApiRequest) -> tuple[int, Json]:
    """Make a scope."""
    reply = await request.native("create_memory_scope", request.fields)
    return 201, {name: value for name, value in reply.items() if name != "status"}


async def stats(request: ApiRequest) -> tuple[int, Json]:
    """Give figures; those of the whole memory only to who sees all of it."""
    told = (await request.native("get_memory_stats", {}))["stats"]
    return 200, {"stats": {name: told[name] for name in _SEEN} if request.is_narrow else told}


async def list_backups(request: ApiRequest) -> tuple[int, Json]:
    """List backups."""
    reply = await request.native("list_backups", {})
    return 200, {"backups": reply["backups"], "folder": reply["folder"]}


async def create_backup(request: ApiRequest) -> tuple[int, Json]:
    """Write a backup, and read it back."""
    reply = await request.native("backup_memory", {})
    return 201, {name: value for name, value in reply.items() if name != "status"}
