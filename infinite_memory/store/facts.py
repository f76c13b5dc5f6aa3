"""What the engine needs of the home of facts, beside `Store`: triples that hold for a stretch of time, and their history.

Of one subject and predicate of a scope at most one triple holds at any moment, whoever asserts at the same time. Only where scopes were
merged, what held in either of them at a time of the past is given side by side.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from infinite_memory.models import Fact, ScopeId


class FactOutcome(enum.Enum):
    """What an assertion did."""

    ASSERTED = "asserted"  # nothing was known of subject and predicate
    REPLACED = "replaced"  # another object held until now
    CONFIRMED = "confirmed"  # the same object holds already; confidence was taken over, and a provenance that was given


@dataclass(frozen=True, slots=True)
class Asserted:
    """The fact that holds now, and what became of the one before (REPLACED only)."""

    fact: Fact
    outcome: FactOutcome
    closed: Fact | None = None


class Facts(Protocol):
    """Triples by scope. Subjects and predicates are matched folded (`models.fold`) and shown as written; objects letter for letter."""

    async def put(self, fact: Fact) -> Asserted:
        """Let *fact* hold from its ``valid_from`` on, and close what held until then.

        ``fact_id`` may be empty. When the clock was set back, the new fact begins a millisecond after the old one did, so that no
        two stretches overlap. Repeating a call that may have happened is safe.

        Raises:
            ScopeNotFoundError: the scope was merged or removed.
        """

    async def of_subject(self, scope_id: ScopeId, subject: str, at: dt.datetime | None) -> list[Fact]:
        """List what holds of a subject now (None) or held at an instant, by predicate."""

    async def history(self, scope_id: ScopeId, subject: str, predicate: str) -> list[Fact]:
        """List every triple of a subject and predicate, oldest first."""

    async def count(self, scope_ids: Collection[ScopeId] | None = None) -> int:
        """Count the facts of some scopes (None: of all) that hold now."""
