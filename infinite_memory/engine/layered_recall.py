"""Recall in layers, as for a palace: identity, most important memories, and answers to the question.

Layer 0 is the scope's description, layer 1 its most important memories regardless of the question, layer 2 the search results and
layer 3 the same for a deep search. A memory that answers the question is in layer 2 or 3 even if it is among the most important, and
these come first, so a question always gets all of its answers. All layers use the searches and the single read of a plain recall.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Set
from dataclasses import dataclass

from infinite_memory.clock import Clock
from infinite_memory.engine.access import Access
from infinite_memory.engine.confidence import confidence_in
from infinite_memory.engine.importance import decay_at, importance_now
from infinite_memory.engine.search import Ranked, Searcher, get_note
from infinite_memory.engine.types import Mode, ScopedFilter
from infinite_memory.engine.usage import UsageCounter
from infinite_memory.index.base import VectorIndex
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import Filter, MemoryId, MemoryRecord, Scope

WEIGHTIEST = 15  # maximum number of memories in layer 1
IDENTITY, IMPORTANT, FOUND, DEEP = 0, 1, 2, 3  # layer numbers in replies


@dataclass(frozen=True, slots=True)
class Weighed:
    """A memory and its decayed importance, 0.0 to 1.0."""

    memory: MemoryRecord
    importance: float


@dataclass(frozen=True, slots=True)
class Layered:
    """A memory in a layered recall; ``score`` is the confidence that it answers the question, 0.0 to 1.0."""

    memory: MemoryRecord
    importance: float
    score: float
    layer: int


@dataclass(frozen=True, slots=True)
class LayeredFound:
    """Results of a layered recall.

    The description of ``scope`` is layer 0. ``results`` are the answers to the question, best first (layer 2 or 3), then layer 1.
    ``note`` as in `RecallResult`.
    """

    scope: Scope
    results: tuple[Layered, ...]
    note: str | None = None


class LayeredRecall:
    """Searches by relevance and importance among the memories that a caller may see."""

    def __init__(
        self, *, access: Access, searcher: Searcher, index: IndexSync, clock: Clock, uses: UsageCounter | None
    ) -> None:
        self._access, self._searcher, self._index = access, searcher, index
        self._clock, self._uses = clock, uses

    async def search(self, query: str, scope: str, k: int, *, deep: bool = False) -> LayeredFound:
        """Recall in layers: up to *k* memories that answer *query*, then up to 15 other important ones, without duplicates.

        With *deep* only the question counts: there is no layer 1.

        Raises:
            EmbeddingError: the model cannot be used.
            ScopeNotFoundError: the scope does not exist or is archived.
        """
        [found_scope], search = await self._searcher.prepare(query, ScopedFilter((scope,)), Mode.HYBRID)
        now = self._clock()
        important_ids = [] if deep else await self._heaviest(search.sidecar, search.narrow, WEIGHTIEST, now)
        matches, ranked = await self._searcher.find_answers(query, search, k, beside=important_ids)
        answers = {match.memory.memory_id for match in matches}
        if self._uses is not None:
            # Layer 1 is not counted as use: it is returned whatever the question.
            self._uses.record(match.memory for match in matches)
        others = [
            ranked.memories[memory_id]
            for memory_id in important_ids
            if memory_id in ranked.memories and memory_id not in answers
        ]
        scores = _scores(ranked, {memory.memory_id for memory in others}, len(matches))
        layer = DEEP if deep else FOUND
        return LayeredFound(
            found_scope,
            (
                *(
                    Layered(match.memory, importance_now(match.memory, now), match.confidence, layer)
                    for match in matches
                ),
                *(
                    Layered(memory, importance_now(memory, now), scores[memory.memory_id], IMPORTANT)
                    for memory in others
                ),
            ),
            get_note(search, ranked),
        )

    async def most_important(self, scope: str, limit: int, where: Filter | None = None) -> list[Weighed]:
        """Return the memories of a scope that pass *where*, by descending decayed importance, ties newest first.

        There are fewer than *limit* if their texts fill a page.

        Raises:
            ScopeNotFoundError: the scope does not exist or is archived.
        """
        sidecar = await self._index.sidecar()
        _, filter_ = await self._access.resolve(ScopedFilter((scope,), where or Filter()))
        now = self._clock()
        ordered = await self._heaviest(sidecar, filter_, limit, now)
        memories, _ = await self._access.read_page(sidecar, ordered)
        return [Weighed(memory, importance_now(memory, now)) for memory in memories.values()]

    async def _heaviest(self, sidecar: VectorIndex, where: Filter, limit: int, now: dt.datetime) -> list[MemoryId]:
        return await self._searcher.maybe_in_thread(sidecar, lambda: sidecar.top_by_weight(where, limit, decay_at(now)))


def _scores(ranked: Ranked, memory_ids: Set[MemoryId], first_rank: int) -> dict[MemoryId, float]:
    """Return the confidence of the memories, the first of which has the rank *first_rank*: the answers are above them."""
    candidates = (candidate for candidate in ranked.candidates if candidate.memory_id in memory_ids)
    return {
        candidate.memory_id: confidence_in(candidate.cosine, candidate.coverage, candidate.exact_phrase, rank)
        for rank, candidate in enumerate(candidates, first_rank)
    }
