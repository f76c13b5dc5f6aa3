"""What a caller may see and change, as a value: which scopes, whose memories in them, and what may be written.

Every use case of the engine checks it (`engine/access.py` applies it to the store and the index), so anything it does not allow is
denied, whatever field, filter, cursor or id a request has. `Visibility()` allows nothing; each attribute grants something. HTTP tokens,
Laravel's callers and AgentMem's users have such values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from infinite_memory.engine.types import MemoryUpdate, NewMemory
from infinite_memory.errors import ForbiddenError, InvalidRequestError
from infinite_memory.models import Filter, MemoryId, MemoryRecord, Scope, ScopeId, fold
from infinite_memory.store.owners import Agent

_NOTHING: frozenset[MemoryId] = frozenset()


@dataclass(frozen=True, slots=True)
class OwnerRule:
    """Allows owners whose entry *name* is one of ``values``; None among these means owners without that entry.

    With ``is_folded`` the comparison ignores case; ``values`` are folded then.
    """

    name: str
    values: frozenset[str | None]
    is_folded: bool = False

    @classmethod
    def equals(cls, name: str, value: str) -> OwnerRule:
        """Return the rule that *name* equals *value* exactly."""
        return cls(name, frozenset({value}))

    def allows(self, owners: Mapping[str, str]) -> bool:
        """True if *owners* pass."""
        value = owners.get(self.name)
        return (fold(value) if self.is_folded and value is not None else value) in self.values


OwnerRules = tuple[OwnerRule, ...]
"""Rules combined with AND."""

ANYBODYS: tuple[OwnerRules, ...] = ((),)
"""Memories of any owner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """What a caller may see and change. The default allows nothing.

    Attributes:
        sees_everything: Allows everything; the other attributes are ignored then.
        scope_names: Visible scopes, by their current names.
        scope_ids: Visible scopes, whatever their names.
        owners: Owners of the visible memories: those that pass all rules of one of these alternatives.
        hidden_statuses: Memories with these statuses are not visible.
        source: The source of all visible memories, by which searches are filtered before ranking; None for any.
        filtered_owners: Names of the owners that ``source`` implies.
        unlisted_statuses: Memories with these statuses are excluded from searches by `exact_owners`.
        other_sources: Sources besides ``source`` that a memory may be changed to.
        types: Types that a memory may be changed to; None for any.
        creates_scopes: Whether storing into a visible but missing scope creates it.
        agents_of: The user whose agents can be listed and registered; None for no user's, or all if everything is visible.
        described: Description of these memories for messages.
        conceals: Whether the rest must leave no trace, such as names or word frequencies. False for callers that may see the rest but
            did not ask for it.
    """

    sees_everything: bool = False
    scope_names: tuple[str, ...] = ()
    scope_ids: tuple[ScopeId, ...] = ()
    owners: tuple[OwnerRules, ...] = ()
    hidden_statuses: frozenset[str] = frozenset()
    source: str | None = None
    filtered_owners: frozenset[str] = frozenset()
    unlisted_statuses: frozenset[str] = frozenset()
    other_sources: frozenset[str] = frozenset()
    types: tuple[str, ...] | None = None
    creates_scopes: bool = False
    agents_of: str | None = None
    described: str = "nobody"
    conceals: bool = True

    # reading

    def allows_scope(self, scope: Scope) -> bool:
        """True if *scope* is visible."""
        return (
            self.sees_everything
            or scope.scope_id in self.scope_ids
            or fold(scope.name) in {fold(name) for name in self.scope_names}
        )

    def allows_owners(self, owners: Mapping[str, str]) -> bool:
        """True if a memory with these owners, in a visible scope, may be visible too."""
        return self.sees_everything or any(all(rule.allows(owners) for rule in rules) for rules in self.owners)

    def allows(self, memory: MemoryRecord) -> bool:
        """True if a memory, live or soft-forgotten, in a visible scope, is visible too."""
        return self.sees_everything or (memory.status not in self.hidden_statuses and self.allows_owners(memory.owners))

    def narrow(self, where: Filter) -> Filter:
        """Return a filter narrowed to what is visible, as far as filters can express it; `allows` checks the rest."""
        if self.sees_everything or self.source is None:
            return where
        if where.source not in (None, self.source):
            return dataclasses.replace(where, memory_ids=_NOTHING)
        return dataclasses.replace(where, source=self.source)

    @property
    def exact_owners(self) -> Mapping[str, str]:
        """The owners that every visible memory has, by name; empty if visibility depends on more than equality."""
        if len(self.owners) != 1:
            return {}
        exact: dict[str, str] = {}
        for rule in self.owners[0]:
            value = next(iter(rule.values), None)
            if len(rule.values) != 1 or rule.is_folded or value is None:
                return {}
            exact[rule.name] = value
        return exact

    @property
    def is_filtered(self) -> bool:
        """Whether `narrow` alone is exact, so that no owner has to be looked up."""
        return {rule.name for rules in self.owners for rule in rules} <= self.filtered_owners

    # writing

    def check_everything(self) -> None:
        """Raise for restricted callers: for operations on the whole memory only.

        Raises:
            ForbiddenError: the caller is restricted.
        """
        if not self.sees_everything:
            raise ForbiddenError("a token that is bound to users or scopes may not do this")

    def check_new(self, memory: NewMemory) -> None:
        """Raise if a new memory in a visible scope would not be visible.

        Raises:
            ForbiddenError: it has other owners or another source.
        """
        if self.sees_everything:
            return
        if not self.allows_owners(memory.owners) or self.source not in (None, memory.source):
            raise ForbiddenError(f"only memories of {self.described} are stored here")

    def check_agent(self, agent: Agent) -> None:
        """Raise if an agent belongs to an invisible user.

        Raises:
            ForbiddenError: the user is not visible.
        """
        if self.agents_of is None:
            self.check_everything()
        elif agent.user_id != self.agents_of:
            raise ForbiddenError(f"only agents of {self.described} are made here")

    def check_update(self, changes: MemoryUpdate) -> None:
        """Raise if a change would make a memory invisible, or give it a type that is not allowed.

        Raises:
            InvalidRequestError: it would.
        """
        if self.sees_everything:
            return
        if self.source is not None and changes.source not in (None, self.source, *self.other_sources):
            raise InvalidRequestError("metadata.source", "a user's memory has no source of its own")
        if self.types is not None and changes.type is not None and changes.type not in self.types:
            expected = ", ".join(repr(name) for name in self.types)
            raise InvalidRequestError.invalid_value("metadata.type", changes.type, f"one of {expected}")
        if changes.owners is not None and not self.allows_owners(changes.owners):
            raise InvalidRequestError("user_id", "a memory stays its user's")


EVERYTHING = Visibility(sees_everything=True, owners=ANYBODYS, conceals=False)
"""Visibility of the owner of the memory."""
