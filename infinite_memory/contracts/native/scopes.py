"""Commands that change whole scopes."""

from __future__ import annotations

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import FlagField, NameField, TextField
from infinite_memory.contracts.native.serializers import serialize_scope
from infinite_memory.contracts.native.table import TABLE, CommandContext
from infinite_memory.engine.scopes import Merged
from infinite_memory.errors import InvalidRequestError
from infinite_memory.models import fold


@TABLE.command(
    "change_memory_scope",
    NameField(name="scope", about="Name of the scope", required=True),
    NameField(name="new_name", about="Its new name", new=True),
    TextField(name="description", about="Its new description", blank=True, limit="query_chars"),
    title="Rename or describe a scope", destructive=True, idempotent=True,
)  # fmt: skip
async def change_memory_scope(call: CommandContext) -> Reply:
    """Give a scope another name or description. Its memories stay as they are; an active scope stays active."""
    fields = call.fields
    if "new_name" not in fields and fields.find_text("description") is None:
        raise InvalidRequestError("new_name", "nothing is to change: give new_name or description")
    old = fields.text("scope")
    new_name, description = fields.find_text("new_name"), fields.find_text("description")
    changed = await call.engine.scopes.change(old, new_name, description, agreement=call.agreement)
    await _follow(call, old, changed.scope.name)
    return serialize_scope(changed.scope) | {"outcome": changed.outcome}


@TABLE.command(
    "merge_memory_scopes",
    NameField(name="scope", about="The scope that goes", required=True),
    NameField(name="into", about="The scope that its memories move into", required=True),
    FlagField(name="dry_run", about="Only tell what would move", default=False),
    title="Merge two scopes", destructive=True,
)  # fmt: skip
async def merge_memory_scopes(call: CommandContext) -> Reply:
    """Move every memory of one scope into another and remove the emptied scope. Ids, times and revisions stay. Use it only
    when the user asks for it."""
    fields = call.fields
    dry_run = fields.flag("dry_run")
    merged = await merge(call, dry_run=dry_run)
    if not dry_run:
        await _follow(call, merged.source.name, merged.target.name)
    reply: Reply = {"scope": merged.source.name, "into": merged.target.name}
    return reply | ({"dry_run": True, "would_move": merged.count} if dry_run else {"moved": merged.count})


async def merge(call: CommandContext, *, dry_run: bool) -> Merged:
    """Merge the scopes of a `merge_memory_scopes` request."""
    source, target = call.fields.text("scope"), call.fields.text("into")
    return await call.engine.scopes.merge(source, target, dry_run=dry_run, agreement=call.agreement)


async def _follow(call: CommandContext, name: str, to: str) -> None:
    """Keep the scope that was active as *name* active: storing without a scope would create one of that name again."""
    if fold(call.session.active_scope) == fold(name) and call.session.active_scope != to:
        await call.session.activate(to)
