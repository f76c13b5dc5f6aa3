"""The temporal knowledge graph: what holds of a subject, since when, and what held before.

Facts belong to a scope as memories do. Asserting another object of the same subject and predicate closes what held until now;
nothing is ever overwritten, so the graph can be asked what it knew at any instant.
"""

from __future__ import annotations

import datetime as dt

from infinite_memory.engine.parts import Parts
from infinite_memory.models import Fact, FactId, Scope, floor_to_millisecond
from infinite_memory.store.facts import Asserted


class FactKeeping:
    """The engine's methods about facts."""

    parts: Parts

    async def assert_fact(
        self, scope: str, subject: str, predicate: str, object_: str,
        *, confidence: float = 1.0, provenance: str | None = None,
    ) -> Asserted:  # fmt: skip
        """Let a triple hold from now on; the same object again only takes over confidence and provenance.

        Raises:
            ScopeNotFoundError: the scope does not exist.
            ScopeArchivedError: the scope was put away.
        """
        await self.parts.index.sidecar()
        place = await self.parts.scopes.get_open(scope, create=False)
        now = floor_to_millisecond(self.parts.clock())
        fact = Fact(
            FactId(""), place.scope_id, subject.strip(), predicate.strip(), object_, now, None, confidence, provenance
        )
        return await self.parts.store.facts.put(fact)

    async def facts_of(self, scope: str, subject: str, at: dt.datetime | None = None) -> list[Fact]:
        """List what holds of *subject* now, or held *at* an instant, by predicate.

        Raises:
            ScopeNotFoundError: the scope does not exist or is archived.
        """
        place = await self._visible(scope)
        return await self.parts.store.facts.of_subject(place.scope_id, subject, at)

    async def count_facts(self, scope: str | None = None) -> int:
        """Count the facts that hold now, of one scope or of all.

        Raises:
            ScopeNotFoundError: the scope does not exist or is archived.
        """
        scope_ids = None if scope is None else [(await self._visible(scope)).scope_id]
        return await self.parts.store.facts.count(scope_ids)

    async def _visible(self, scope: str) -> Scope:
        await self.parts.index.sidecar()
        [found] = await self.parts.scopes.get_visible([scope], lenient=False)
        return found
