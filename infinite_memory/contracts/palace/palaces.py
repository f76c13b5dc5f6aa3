"""Tools about palaces themselves. A palace is a scope; its description is its identity text, layer 0 of every recall."""

from __future__ import annotations

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.kinds import NameField, TextField
from infinite_memory.contracts.palace.table import PALACE, TABLE, Call
from infinite_memory.contracts.when import instant_out
from infinite_memory.engine.parts import Where
from infinite_memory.errors import ScopeNotFoundError


@TABLE.command(
    "palace_create",
    NameField(name="name", about="Its name: any text of 1 to 256 characters", required=True),
    TextField(name="description", about="Its identity text: who or what it is about; begins every recall", blank=True,
              limit="query_chars"),
    title="Create a palace",
)  # fmt: skip
async def palace_create(call: Call) -> Reply:
    """Create a new memory palace."""
    scope = await call.engine.create_scope(call.fields.text("name"), call.fields.find_text("description") or "")
    return {"palace_id": scope.name, "status": "created"}


@TABLE.command("palace_list", title="List palaces", read_only=True, idempotent=True)
async def palace_list(call: Call) -> Reply:
    """List all palaces on this machine."""
    return {"palaces": [scope.name for scope in await call.engine.list_scopes() if scope.archived_at is None]}


@TABLE.command("palace_info", PALACE, title="About a palace", read_only=True, idempotent=True)
async def palace_info(call: Call) -> Reply:
    """Get metadata and stats for a single palace."""
    scope = await call.engine.get_scope(call.palace)
    if scope.archived_at is not None:
        raise ScopeNotFoundError(call.palace, archived=True)
    return {
        "id": scope.name,
        "name": scope.name,
        "drawer_count": await call.engine.count(Where((scope.name,))),
        "data_dir": str(call.data_dir),
        "description": scope.description,
        "fact_count": await call.engine.count_facts(scope.name),
        "created_at": instant_out(scope.created_at),
    }
