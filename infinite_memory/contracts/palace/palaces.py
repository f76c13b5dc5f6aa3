"""Tools for palaces. A palace is a scope; its description is its identity text, layer 0 of every recall."""

from __future__ import annotations

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import NameField, TextField
from infinite_memory.contracts.palace.table import PALACE, TABLE, CommandContext
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.engine.types import ScopedFilter
from infinite_memory.errors import ScopeNotFoundError
from infinite_memory.store.scope_cache import check_name


@TABLE.command(
    "palace_create",
    NameField(name="name", about="Its name: any text of 1 to 256 characters", required=True, new=True),
    TextField(name="description", about="Its identity text: who or what it is about; begins every recall", blank=True,
              limit="query_chars"),
    title="Create a palace",
)  # fmt: skip
async def palace_create(call: CommandContext) -> Reply:
    """Create a new memory palace."""
    name = call.fields.text("name")
    check_name(name, "name")
    scope = await call.engine.scopes.create(name, call.fields.find_text("description") or "")
    return {"palace_id": scope.name, "status": "created"}


@TABLE.command("palace_list", title="List palaces", read_only=True, idempotent=True)
async def palace_list(call: CommandContext) -> Reply:
    """List all palaces on this machine."""
    return {"palaces": [scope.name for scope in await call.engine.scopes.list_all() if scope.archived_at is None]}


@TABLE.command("palace_info", PALACE, title="About a palace", read_only=True, idempotent=True)
async def palace_info(call: CommandContext) -> Reply:
    """Get metadata and stats for a single palace."""
    scope = await call.engine.scopes.get(call.palace)
    if scope.archived_at is not None:
        raise ScopeNotFoundError(call.palace, archived=True)
    return {
        "id": scope.name,
        "name": scope.name,
        "drawer_count": await call.engine.memories.count(ScopedFilter((scope.name,))),
        "data_dir": str(call.data_dir),
        "description": scope.description,
        "fact_count": await call.engine.graph.count_facts(scope.name),
        "created_at": format_instant(scope.created_at),
    }
