"""Who may see and change what, as a value: which scopes, whose memories in them, and what may be written there.

Every use case of the engine asks it (`engine/access.py` applies it to the store and the index), so what it does not allow is denied
whatever field, filter, cursor or id a request comes with. `Visibility()` allows nothing; each of its parts opens something. HTTP
tokens, Laravel's callers and AgentMem's users are values of it.
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
    """Allows owners whose entry *name* is one of ``values``; None among these stands for owners without that entry.

    With ``is_folded`` the case of letters does not count; ``values`` are folded then.
    """

    name: str
    values: frozenset[str | None]
    is_folded: bool = False

    @classmethod
    def equals(cls, name: str, value: str) -> OwnerRule:
        """Return the rule that *name* is *value*, letter for letter."""
        return cls(name, frozenset({value}))

    def allows(self, owners: Mapping[str, str]) -> bool:
        """True if *owners* pass."""
        value = owners.get(self.name)
        return (fold(value) if self.is_folded and value is not None else value) in self.values


OwnerRules = tuple[OwnerRule, ...]
"""Rules that hold together."""

ANYBODYS: tuple[OwnerRules, ...] = ((),)
"""Whoever owns a memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """What somebody may see and change. The default allows nothing.

    Attributes:
        sees_everything: Allows all; the other attributes do not count then.
        scope_names: Scopes that are seen, by the names that they have now.
        scope_ids: Scopes that are seen, whatever they are called now.
        owners: Whose memories are seen: those of owners that pass all rules of one of these alternatives.
        hidden_statuses: Memories of these states are not seen.
        source: The source that memories seen here have, and by which a search is narrowed before it ranks; None for any.
        filtered_owners: Names of the owners that ``source`` implies.
        unlisted_statuses: Memories of these states are in no search that goes by `exact_owners`.
        other_sources: Sources beside ``source`` that a memory may be changed to.
        types: Types that a memory may be changed to; None for any.
        creates_scopes: Whether a scope that is seen and not there yet is made when something is stored into it.
        agents_of: The user whose agents are listed and made here; None for nobody's, or everybody's where everything is seen.
        described: Whose memories these are, in words for messages.
        conceals: Whether nothing of the rest may be noticed, neither names nor how rare a word is. False for who may see the rest
            and did not ask for it.
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

    # what is read

    def allows_scope(self, scope: Scope) -> bool:
        """True if *scope* is seen."""
        return (
            self.sees_everything
            or scope.scope_id in self.scope_ids
            or fold(scope.name) in {fold(name) for name in self.scope_names}
        )

    def allows_owners(self, owners: Mapping[str, str]) -> bool:
        """True if a memory of these owners, in a scope that is seen, may be seen too."""
        return self.sees_everything or any(all(rule.allows(owners) for rule in rules) for rules in self.owners)

    def allows(self, memory: MemoryRecord) -> bool:
        """True if a memory, live or hidden, in a scope that is seen, is seen too."""
        return self.sees_everything or (memory.status not in self.hidden_statuses and self.allows_owners(memory.owners))

    def narrow(self, where: Filter) -> Filter:
        """Return what of a filter is seen, as far as filters can say it; `allows` says the rest."""
        if self.sees_everything or self.source is None:
            return where
        if where.source not in (None, self.source):
            return dataclasses.replace(where, memory_ids=_NOTHING)
        return dataclasses.replace(where, source=self.source)

    @property
    def exact_owners(self) -> Mapping[str, str]:
        """The owners that every memory seen here has, by name; empty where more than equality decides."""
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
        """Whether `narrow` alone lets through what is seen, so that no owner has to be looked up."""
        return {rule.name for rules in self.owners for rule in rules} <= self.filtered_owners

    # what is written

    def check_everything(self) -> None:
        """Raise where less than everything is seen: for what cannot be done to a part.

        Raises:
            ForbiddenError: less is seen.
        """
        if not self.sees_everything:
            raise ForbiddenError("a token that is bound to users or scopes may not do this")

    def check_new(self, memory: NewMemory) -> None:
        """Refuse to store what would not be seen, in a scope that is.

        Raises:
            ForbiddenError: its owners or its source are others.
        """
        if self.sees_everything:
            return
        if not self.allows_owners(memory.owners) or self.source not in (None, memory.source):
            raise ForbiddenError(f"only memories of {self.described} are stored here")

    def check_agent(self, agent: Agent) -> None:
        """Refuse to make an agent of a user who is not seen.

        Raises:
            ForbiddenError: it is one.
        """
        if self.agents_of is None:
            self.check_everything()
        elif agent.user_id != self.agents_of:
            raise ForbiddenError(f"only agents of {self.described} are made here")

    def check_update(self, changes: MemoryUpdate) -> None:
        """Refuse a change that would take a memory out of sight, or out of the types that are known here.

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
"""What the owner of the memory sees."""
