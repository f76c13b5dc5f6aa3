"""Ownership of Laravel memories and who may see them: client ids, owners, and the hierarchy from system to user.

A client's UUID is shown as it was given. The engine's own id is derived from it, so that two writes of the same UUID are the same
memory, whichever is first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from infinite_memory.contracts.laravel.table import SCOPE, ScopeType
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.visibility import OwnerRule, Visibility
from infinite_memory.errors import ScopeNotFoundError
from infinite_memory.models import MemoryId, MemoryRecord, fold

UUID_OWNER, ORGANIZATION, REPOSITORY, USER, REACH = "uuid", "organization", "repository", "user", "scope_type"


def to_memory_id(uuid: str) -> MemoryId:
    """Return the engine's id for a UUID in its canonical form."""
    return MemoryId(hashlib.sha256(UUID(uuid).bytes).hexdigest()[:24])


def get_owners(
    uuid: str, organization: str, repository: str | None, reach: ScopeType, user: str | None
) -> Mapping[str, str]:
    """Return the owners of a memory; *user* only for a user's own memory."""
    owners = {UUID_OWNER: uuid, ORGANIZATION: organization, REACH: reach.value}
    if repository is not None:
        owners[REPOSITORY] = repository
    if reach is ScopeType.USER:
        owners[USER] = user or ""
    return owners


def get_reach(memory: MemoryRecord) -> ScopeType:
    """Return the scope type of a memory."""
    return ScopeType(memory.owners[REACH])


def make_view(
    organization: str | None, user: str | None, repository: str | None, memories: Iterable[MemoryRecord] = ()
) -> Visibility:
    """Return the visibility of a caller: memories of the system, of known organizations, of the named repository, and its own.

    A repository or an organization that does not exist has no memories, and never widens the visibility.

    Args:
        organization: The organization whose memories are visible; None for all, or for those that own the repository.
        repository: The named repository, if any.
        memories: Where to look for the organizations of that repository if none is known.
    """
    if organization is not None:
        return see(user, frozenset({fold(organization)}), repository)
    if repository is None:
        return see(user)
    named = fold(repository)  # once: it may be megabytes long
    owning = frozenset(
        fold(memory.owners[ORGANIZATION])
        for memory in memories
        if fold(memory.owners.get(REPOSITORY, "")) == named and ORGANIZATION in memory.owners
    )
    return see(user, owning, repository)  # an unknown repository has no memories


def see(user: str | None, organizations: frozenset[str] | None = None, repository: str | None = None) -> Visibility:
    """Return the visibility of a user in organizations (folded; None: all) and in a named repository.

    Memories that another contract stored in this scope are visible to nobody.
    """
    own = OwnerRule(USER, frozenset({user} if user else {None, ""}))
    organizational = (
        ()
        if organizations is None
        else (OwnerRule(ORGANIZATION, frozenset[str | None](organizations), is_folded=True),)
    )
    in_repository: tuple[OwnerRule, ...] = ()
    in_or_above: tuple[OwnerRule, ...] = ()  # of the repository, or wider than one
    if repository is not None:
        in_repository = (OwnerRule(REPOSITORY, frozenset({fold(repository)}), is_folded=True),)
        in_or_above = (OwnerRule(REPOSITORY, frozenset({fold(repository), None}), is_folded=True),)
    rules = {
        ScopeType.SYSTEM: (),
        ScopeType.ORGANIZATION: (*in_or_above, *organizational),
        ScopeType.REPOSITORY: (*in_repository, *organizational),
        ScopeType.USER: (own, *in_or_above),
    }
    return Visibility(
        scope_names=(SCOPE,),
        owners=tuple((OwnerRule.equals(REACH, reach.value), *rest) for reach, rest in rules.items()),
        described="this caller",
    )


async def find_owners(engine: Engine, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, Mapping[str, str]]:
    """Return the owners of memories; unknown ids are omitted."""
    try:
        scope = await engine.scopes.get(SCOPE)
    except ScopeNotFoundError:
        return {}
    return await engine.owners.find_several(scope, memory_ids)


async def find_visible(
    engine: Engine, view: Visibility, uuid: str, *, deleted: bool | None = False
) -> MemoryRecord | None:
    """Return the memory of a UUID if *view* allows it; *deleted* as in `Store.fetch`.

    The owners are looked up first, so that rejecting another user's UUID takes as long as an unknown one.
    """
    try:
        scope = await engine.scopes.get(SCOPE)
    except ScopeNotFoundError:
        return None
    memory_id = to_memory_id(uuid)
    owners = await engine.owners.find(scope, memory_id)
    if owners is None or not view.allows_owners(owners) or scope.archived_at is not None:
        return None
    memory = (await engine.memories.fetch(scope, [memory_id], deleted=deleted)).get(memory_id)
    return memory if memory is not None and view.allows(memory) else None
