"""Recall in layers, as for a palace: who one is, what matters most, and what answers the question.

Layer 0 is the scope's own description, layer 1 its weightiest memories whatever the question, layer 2 what is found by meaning and
layer 3 the same for a search that spares no effort. A memory that answers the question stands in layer 2 or 3 also when it is among
the weightiest, so a question always gets all of its answers. All layers come from the searches and the one reading of a plain recall.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Set
from dataclasses import dataclass
from functools import partial

from infinite_memory.engine.confidence import confidence_in
from infinite_memory.engine.importance import importance_now, weights_now
from infinite_memory.engine.parts import Mode, Where
from infinite_memory.engine.recall import Ranked, Recalling, note_of
from infinite_memory.models import Filter, MemoryId, MemoryRecord, Scope
from infinite_memory.sidecar.base import Sidecar

WEIGHTIEST = 15  # memories of layer 1 at most
IDENTITY, IMPORTANT, FOUND, DEEP = 0, 1, 2, 3  # the layers, by the numbers that a reply gives them


@dataclass(frozen=True, slots=True)
class Weighed:
    """A memory and its importance by now, 0.0 to 1.0."""

    memory: MemoryRecord
    importance: float


@dataclass(frozen=True, slots=True)
class Layered:
    """A memory of a layered recall; ``score`` is its nearness to the question, 0.0 to 1.0."""

    memory: MemoryRecord
    importance: float
    score: float
    layer: int


@dataclass(frozen=True, slots=True)
class LayeredFound:
    """What a layered recall found: the scope, whose description is layer 0, and layers 1 to 3 in order. ``note`` as in `Found`."""

    scope: Scope
    results: tuple[Layered, ...]
    note: str | None = None


class Layering(Recalling):
    """The engine's methods that take importance into account."""

    async def recall_layers(self, query: str, scope: str, k: int, *, deep: bool = False) -> LayeredFound:
        """Recall in layers: up to 15 weighty memories, then up to *k* that answer *query*, none of them twice.

        Raises:
            EmbeddingError: the model cannot be used.
            ScopeNotFoundError: the scope does not exist or is archived.
        """
        [place], search = await self._prepare(query, Where((scope,)), Mode.HYBRID)
        now = self.parts.clock()
        weighty = await self._heaviest(search.sidecar, search.narrow, WEIGHTIEST, now)
        matches, ranked = await self._answers(query, search, k, beside=weighty)
        answers = {match.memory.memory_id for match in matches}
        if self.parts.uses is not None:
            # The weightiest are no answers: they come whatever is asked.
            self.parts.uses.note(match.memory for match in matches)
        others = [ranked.memories[one] for one in weighty if one in ranked.memories and one not in answers]
        scores = _scores(ranked, {memory.memory_id for memory in others}, len(matches))
        layer = DEEP if deep else FOUND
        return LayeredFound(
            place,
            (
                *(Layered(one, importance_now(one, now), scores[one.memory_id], IMPORTANT) for one in others),
                *(
                    Layered(match.memory, importance_now(match.memory, now), match.confidence, layer)
                    for match in matches
                ),
            ),
            note_of(search, ranked),
        )

    async def weightiest(self, scope: str, limit: int, where: Filter | None = None) -> list[Weighed]:
        """List the memories of a scope that pass *where* by falling importance as of now, equal ones newer first.

        Raises:
            ScopeNotFoundError: the scope does not exist or is archived.
        """
        sidecar = await self.parts.index.sidecar()
        _, narrow = await self._resolve(Where((scope,), where or Filter()))
        now = self.parts.clock()
        ordered = await self._heaviest(sidecar, narrow, limit, now)
        found = await self._read(sidecar, ordered)
        return [Weighed(found[one], importance_now(found[one], now)) for one in ordered if one in found]

    async def _heaviest(self, sidecar: Sidecar, where: Filter, limit: int, now: dt.datetime) -> list[MemoryId]:
        weigh = partial(weights_now, now=now)
        return await self._maybe_in_thread(sidecar, lambda: sidecar.heaviest(where, limit, weigh))


def _scores(ranked: Ranked, wanted: Set[MemoryId], after: int) -> dict[MemoryId, float]:
    """Tell with which confidence some memories answer a question that *after* others answer better."""
    candidates = (one for one in ranked.candidates if one.memory_id in wanted)
    return {
        one.memory_id: confidence_in(one.cosine, one.coverage, one.verbatim, place)
        for place, one in enumerate(candidates, after)
    }
