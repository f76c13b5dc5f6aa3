"""Where a Laravel memory belongs and who may see it: ids of its clients, owners, and the hierarchy from system to user.

A client's UUID is shown as it was given. The engine's own id is computed from it, so that two writes of the same UUID are the same
memory whoever comes first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from uuid import UUID

from infinite_memory.contracts.laravel.table import ScopeType
from infinite_memory.models import MemoryId, MemoryRecord, fold

UUID_OWNER, ORGANIZATION, REPOSITORY, USER, REACH = "uuid", "organization", "repository", "user", "scope_type"


def memory_id_of(uuid: str) -> MemoryId:
    """Give the engine's id for a UUID in its usual form."""
    return MemoryId(hashlib.sha256(UUID(uuid).bytes).hexdigest()[:24])


def owners_of(
    uuid: str, organization: str, repository: str | None, reach: ScopeType, user: str | None
) -> Mapping[str, str]:
    """Write down whom a memory belongs to; *user* only where it is a user's own."""
    owners = {UUID_OWNER: uuid, ORGANIZATION: organization, REACH: reach.value}
    if repository is not None:
        owners[REPOSITORY] = repository
    if reach is ScopeType.USER:
        owners[USER] = user or ""
    return owners


def reach_of(memory: MemoryRecord) -> ScopeType:
    """Tell how far a memory reaches."""
    return ScopeType(memory.owners[REACH])


@dataclass(frozen=True, slots=True)
class View:
    """What a caller sees: what is the system's, of known organizations (None: of all), of a repository that was named, its own."""

    user: str | None
    organizations: frozenset[str] | None = None
    repository: str | None = None

    def shows(self, memory: MemoryRecord) -> bool:
        """Tell whether *memory* is visible."""
        owners = memory.owners
        if REACH not in owners:
            return False  # stored into this scope by another contract
        reach = reach_of(memory)
        if reach is ScopeType.SYSTEM:
            return True
        if reach is ScopeType.USER and owners.get(USER, "") != (self.user or ""):
            return False
        if self.repository is not None and REPOSITORY in owners and fold(owners[REPOSITORY]) != fold(self.repository):
            return False
        if reach is ScopeType.USER or self.organizations is None:
            return True
        return fold(owners[ORGANIZATION]) in self.organizations


def view_of(
    organization: str | None, user: str | None, repository: str | None, memories: Iterable[MemoryRecord] = ()
) -> View:
    """Make the view of a caller.

    Args:
        repository: The repository that was named, if any.
        memories: Where to look for the organizations of that repository when none is known.
    """
    if organization is not None:
        return View(user, frozenset({fold(organization)}), repository)
    if repository is None:
        return View(user)
    owning = frozenset(
        fold(one.owners[ORGANIZATION])
        for one in memories
        if fold(one.owners.get(REPOSITORY, "")) == fold(repository) and ORGANIZATION in one.owners
    )
    return View(user, owning or None, repository)
