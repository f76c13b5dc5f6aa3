"""Scopes as a whole: new names and descriptions, and one scope poured into another."""

from __future__ import annotations

from dataclasses import dataclass

from infinite_memory.engine.parts import Parts
from infinite_memory.engine.scopes import check_name, is_global
from infinite_memory.errors import InvalidRequestError
from infinite_memory.models import Scope


@dataclass(frozen=True, slots=True)
class Merged:
    """What pouring one scope into another moved."""

    source: Scope
    target: Scope
    count: int


async def change_scope(parts: Parts, name: str, new_name: str | None, description: str | None) -> Scope:
    """Rename or describe a scope.

    Raises:
        ScopeNotFoundError: there is none of that name.
        ScopeExistsError: another scope has the new name.
        InvalidRequestError: the new name is reserved, or Global would lose its own.
    """
    await parts.index.sidecar()
    scope = await parts.scopes.get(name)
    if new_name is not None:
        check_name(new_name, "new_name")
        if is_global(scope):
            raise InvalidRequestError("new_name", f"{scope.name} always exists and keeps its name")
    changed = await parts.store.change_scope(scope.scope_id, name=new_name, description=description)
    await parts.scopes.refresh()
    return changed


async def merge_scopes(parts: Parts, name: str, into: str, *, dry_run: bool = False) -> Merged:
    """Move every memory of a scope into another, and remove the emptied one; ids, times and revisions stay.

    Raises:
        ScopeNotFoundError: one of them does not exist.
        InvalidRequestError: they are the same, or it is Global that would go, or the target is archived.
    """
    await parts.index.sidecar()
    source, target = await parts.scopes.get(name), await parts.scopes.get(into)
    if source.scope_id == target.scope_id:
        raise InvalidRequestError("into", f"{target.name!r} is the same scope")
    if is_global(source):
        raise InvalidRequestError("scope", f"{source.name} always exists; its memories can be moved one by one only")
    if target.archived_at is not None:
        raise InvalidRequestError("into", f"{target.name!r} is archived; take it out first")
    store = parts.store
    if dry_run:
        live = (await store.count_live()).get(source.scope_id, 0)
        return Merged(source, target, live + len(await store.deleted_ids([source.scope_id], None)))
    async with store.copies.exclusive():
        count = await store.copies.merge_scopes(source.scope_id, target.scope_id)
        await store.drop_scope(source.scope_id)
    await parts.scopes.refresh()
    await parts.index.check()  # takes the new places over
    parts.index.scope_removed(source.scope_id)
    parts.index.scopes_changed()
    return Merged(source, target, count)
