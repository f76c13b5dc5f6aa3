"""Where a Laravel memory belongs and who may see it: ids of its clients, owners, and the hierarchy from system to user.

A client's UUID is shown as it was given. The engine's own id is computed from it, so that two writes of the same UUID are the same
memory whoever comes first.
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
    """Return the engine's id for a UUID in its usual form."""
    return MemoryId(hashlib.sha256(UUID(uuid).bytes).hexdigest()[:24])


def get_owners(
    uuid: str, organization: str, repository: str | None, reach: ScopeType, user: str | None
) -> Mapping[str, str]:
    """Write down whom a memory belongs to; *user* only where it is a user's own."""
    owners = {UUID_OWNER: uuid, ORGANIZATION: organization, REACH: reach.value}
    if repository is not None:
        owners[REPOSITORY] = repository
    if reach is ScopeType.USER:
        owners[USER] = user or ""
    return owners


def get_reach(memory: MemoryRecord) -> ScopeType:
    """Return how far a memory reaches."""
    return ScopeType(memory.owners[REACH])


def make_view(
    organization: str | None, user: str | None, repository: str | None, memories: Iterable[MemoryRecord] = ()
) -> Visibility:
    """Return what a caller sees: what is the system's, of known organizations, of a repository that was named, and its own.

    A repository or an organization that does not exist has nothing of its own, and never widens what is seen.

    Args:
        organization: Whose memories are seen; None for those of all, or of those that own the repository.
        repository: The repository that was named, if any.
        memories: Where to look for the organizations of that repository when none is known.
    """
    if organization is not None:
        return see(user, frozenset({fold(organization)}), repository)
    if repository is None:
        return see(user)
    owning = frozenset(
        fold(memory.owners[ORGANIZATION])
        for memory in memories
        if fold(memory.owners.get(REPOSITORY, "")) == fold(repository) and ORGANIZATION in memory.owners
    )
    return see(user, owning, repository)  # of a repository that nobody knows there is nothing to show


def see(user: str | None, organizations: frozenset[str] | None = None, repository: str | None = None) -> Visibility:
    """Return the visibility of a user, in organizations (folded; None: in all) and in a repository that was named.

    What was stored into this scope by another contract reaches nobody.
    """
    own = OwnerRule(USER, frozenset({user} if user else {None, ""}))
    organizational = (
        ()
        if organizations is None
        else (OwnerRule(ORGANIZATION, frozenset[str | None](organizations), is_folded=True),)
    )
    in_repository: tuple[OwnerRule, ...] = ()
    in_or_above: tuple[OwnerRule, ...] = ()  # of the repository, or of none and reaching further than one
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
    """Return whose memories are; ids that name none are left out."""
    try:
        scope = await engine.scopes.get(SCOPE)
    except ScopeNotFoundError:
        return {}
    return await engine.owners.find_several(scope, memory_ids)


async def find_visible(
    engine: Engine, view: Visibility, uuid: str, *, deleted: bool | None = False
) -> MemoryRecord | None:
    """Find the memory of a UUID where *view* shows it; *deleted* as in `Store.fetch`.

    Whose it is is looked up first, so that the UUID of somebody else's memory takes as long to be refused as one of nobody's.
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
