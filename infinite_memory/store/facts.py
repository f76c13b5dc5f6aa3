"""Storage interface for facts: triples that hold for a time range, and their history.

For each subject and predicate of a scope at most one triple holds at any moment, even under concurrent assertions. Only after a merge of
scopes can a past instant have a triple from each.
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

    ASSERTED = "asserted"  # no triple for this subject and predicate
    REPLACED = "replaced"  # another object held until now
    CONFIRMED = "confirmed"  # the same object holds already; confidence was updated, and provenance if given


@dataclass(frozen=True, slots=True)
class Asserted:
    """The fact that holds now, and the closed previous one (REPLACED only)."""

    fact: Fact
    outcome: FactOutcome
    closed: Fact | None = None


class Facts(Protocol):
    """Triples by scope. Subjects and predicates are matched folded (`models.fold`) and shown as written; objects exactly."""

    async def put(self, fact: Fact) -> Asserted:
        """Assert *fact* from its ``valid_from`` on, and close the one that held until then.

        ``fact_id`` may be empty. If the clock was set back, the new fact starts a millisecond after the old one did, so that no two ranges
        overlap. Retrying a call that may have succeeded is safe.

        Raises:
            ScopeNotFoundError: the scope was merged or removed.
        """

    async def of_subject(self, scope_id: ScopeId, subject: str, at: dt.datetime | None) -> list[Fact]:
        """List the triples of a subject that hold now (None) or held at an instant, by predicate."""

    async def history(self, scope_id: ScopeId, subject: str, predicate: str) -> list[Fact]:
        """List every triple of a subject and predicate, oldest first."""

    async def count(self, scope_ids: Collection[ScopeId] | None = None) -> int:
        """Count the facts of some scopes (None: of all) that hold now."""
