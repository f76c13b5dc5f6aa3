"""Finding memories: hybrid search for a question, plain vector or keyword search, and why a memory was found or not.

Filter first, rank what passes, read the documents, collapse equal texts (`engine/search.py` does the work). Contracts that judge each
memory themselves use plain vector or keyword search, which does not collapse.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from infinite_memory.embedding.service import EmbeddingService
from infinite_memory.embedding.vocabulary import READ, Reading
from infinite_memory.engine.access import Access
from infinite_memory.engine.candidates import Meaning, Nearness
from infinite_memory.engine.confidence import confidence_of, trust_in
from infinite_memory.engine.explanation import (
    MAX_ABOVE,
    MAX_CHARS,
    Explainer,
    Explanation,
    Reason,
    Standing,
    find_failed,
)
from infinite_memory.engine.search import Ranked, Search, Searcher, get_meaning_share, get_note
from infinite_memory.engine.types import Mode, RecallResult, ScopedFilter
from infinite_memory.engine.usage import UsageCounter
from infinite_memory.errors import EmbeddingError, IndexUnavailableError, InvalidRequestError
from infinite_memory.index.base import Spelling, call
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import Filter, Match, MemoryId, MemoryRecord, Scope, ScopeId
from infinite_memory.store.base import Store
from infinite_memory.store.scope_cache import ScopeCache
from infinite_memory.text.bm25 import searched_stems
from infinite_memory.text.offload import run_at_once_or_in_thread

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

GROWTH_FACTOR = 4  # factor by which a search grows when too few of its hits pass
MIN_COUNT = 32  # hits requested at first, so that a few that do not pass need no second search
MAX_STEMS = 40  # of a longer query the text index uses only the rarest, and would miss memories


@dataclass(frozen=True, slots=True)
class Near:
    """One memory and its similarity: ``cosine`` of its best window, and the ``confidence`` derived from it, 0 to 1."""

    memory: MemoryRecord
    cosine: float
    confidence: float


class Recall:
    """Searches the memories that a caller may see."""

    def __init__(
        self, *, access: Access, searcher: Searcher, store: Store, index: IndexSync, scopes: ScopeCache,
        embeddings: EmbeddingService, uses: UsageCounter | None,
    ) -> None:  # fmt: skip
        self._access, self._searcher, self._uses = access, searcher, uses
        self._store, self._index, self._scopes, self._embeddings = store, index, scopes, embeddings

    async def search(
        self,
        query: str,
        where: ScopedFilter,
        k: int,
        *,
        min_confidence: float = 0.0,
        mode: Mode = Mode.HYBRID,
        explain: bool = False,
        by_word: bool = True,
        counts_use: bool = True,
    ) -> RecallResult:
        """Find the memories that answer *query* best among those that pass *where*.

        Texts that are equal after folding case and whitespace are one match. Fewer than *k* only if fewer pass the filter and
        *min_confidence*; in keyword modes, if fewer contain a word of the query. A hybrid recall falls back to keywords, with a note, while
        the model is loading or after it failed.

        Args:
            explain: Whether to return the parts of each score.
            by_word: Whether these include the contribution of each word.
            counts_use: Whether results count as used; False for callers that show only some of them (`record_use`).

        Raises:
            EmbeddingError: *mode* needs the model and it cannot be used.
            SidecarNotReadyError: *mode* needs the text index and it is still being built.
            ScopeNotFoundError: a scope of *where* does not exist.
        """
        try:
            scopes, search = await self._searcher.prepare(query, where, mode)
            matches, ranked = await self._searcher.find_answers(query, search, k)
        except IndexUnavailableError:
            if mode is Mode.SEMANTIC:
                raise
            # The index server became unavailable during the search: retry, now with keywords only.
            scopes, search = await self._searcher.prepare(query, where, mode)
            matches, ranked = await self._searcher.find_answers(query, search, k)
        accepted = [match for match in matches if match.confidence >= min_confidence]
        return await self._make_result(
            query, scopes, search, ranked, accepted, explain=explain, by_word=by_word, counts_use=counts_use
        )

    async def _make_result(
        self, query: str, scopes: tuple[Scope, ...], search: Search, ranked: Ranked, accepted: Sequence[Match], *,
        explain: bool, by_word: bool = True, counts_use: bool,
    ) -> RecallResult:  # fmt: skip
        """Return the *accepted* matches of a search as a result."""
        if counts_use:
            self.record_use(match.memory for match in accepted)
        explanations = (
            await explain_candidates(query, search, ranked, [match.memory for match in accepted], by_word=by_word)
            if explain
            else {}
        )
        return RecallResult(
            tuple(await self._searcher.with_windows(accepted, search)), scopes, get_note(search, ranked), explanations
        )

    def record_use(self, memories: Iterable[MemoryRecord]) -> None:
        """Count memories that were shown as used."""
        if self._uses is not None:
            self._uses.record(memories)

    async def find_closest(self, query: str, where: ScopedFilter, k: int, *, min_confidence: float) -> RecallResult:
        """Find the *k* best matches without collapsing equal texts. Errors and note as in `search`.

        Equal texts get the same confidence whatever their rank, so that forgetting by query leaves no copy behind. Words are not
        spell-corrected: a guess is no reason to select a memory. Confidence is that of the memory alone: the turn before it, which
        a recall also uses, does not count.
        """
        scopes, search = await self._searcher.prepare(query, where, Mode.HYBRID, Spelling.EXACT)
        ranked = await self._searcher.find_ranked(query, search, k, alone=True)
        matches = ranked.matches[:k]
        # Reversed, so that of equal texts the first one's confidence is used.
        confidences = {match.memory.content_hash: match.confidence for match in reversed(matches)}
        as_sure = (dataclasses.replace(match, confidence=confidences[match.memory.content_hash]) for match in matches)
        sure = tuple(match for match in as_sure if match.confidence >= min_confidence)
        return RecallResult(sure, scopes, get_note(search, ranked))

    async def find_standing(
        self,
        memory_id: MemoryId,
        query: str,
        where: ScopedFilter,
        k: int,
        *,
        min_confidence: float = 0.0,
        mode: Mode = Mode.HYBRID,
        explain: bool = False,
        counts_use: bool = True,
    ) -> tuple[RecallResult, Standing]:
        """Return the result of `search`, and the standing of *memory_id* in the same search; arguments and errors as there."""
        self._access.visibility.check_everything()
        sidecar = await self._index.sidecar()
        located = await self._access.locate(memory_id)
        memory = (await self._store.fetch(located, deleted=None, vectors=True)).get(memory_id)
        scopes, search = await self._searcher.prepare(query, where, mode)
        obstacle = self._find_obstacle(memory, located.get(memory_id))
        if memory is not None and obstacle is None:
            scope_id = located[memory_id]
            if failed := await call(sidecar, lambda: find_failed(sidecar, search.narrow, memory_id, scope_id)):
                obstacle = Standing(Reason.FILTER, failed, is_embedded=memory.embedding is not None)
        extra_ids = [] if obstacle is not None else [memory_id]
        matches, ranked = await self._searcher.find_answers(query, search, k, beside=extra_ids)
        if memory is not None and obstacle is None:
            explanation = (await explain_candidates(query, search, ranked, [memory])).get(memory_id)
            standing = _judge_standing(memory, search, matches, ranked, explanation, min_confidence)
        else:
            standing = obstacle or Standing(Reason.UNKNOWN)
        # With these reasons it is a candidate only because it was asked about.
        is_extra = standing.reason in (Reason.NOT_EMBEDDED, Reason.NO_WORD)
        accepted = [
            match
            for match in matches
            if match.confidence >= min_confidence and not (is_extra and match.memory.memory_id == memory_id)
        ]
        result = await self._make_result(
            query, scopes, search, ranked, accepted, explain=explain, counts_use=counts_use
        )
        return result, standing

    def _find_obstacle(self, memory: MemoryRecord | None, scope_id: ScopeId | None) -> Standing | None:
        """Return what excludes a memory from every search; None if nothing does."""
        if memory is None:
            return Standing(Reason.UNKNOWN)
        if memory.deleted_at is None and scope_id not in self._scopes.archived_ids():
            return None
        reason = Reason.ARCHIVED if memory.deleted_at is None else Reason.DELETED
        return Standing(reason, is_embedded=memory.embedding is not None)

    async def find_nearest(
        self, target: str | Sequence[float], where: ScopedFilter, k: int, passes: Callable[[MemoryRecord], bool]
    ) -> list[Near]:
        """Find the *k* nearest memories that pass *where* and *passes*; fewer only if no more pass.

        Args:
            target: A text, or a vector of the engine's own embedding model.

        Raises:
            EmbeddingError: the model cannot be used.
            InvalidRequestError: the vector has another length, or no direction (all zeros).
        """
        sidecar = await self._index.sidecar()
        _, filter_ = await self._access.resolve(where)
        vector = await self._direction(target)
        reading = await self._embeddings.reading(target) if isinstance(target, str) else READ
        second = None
        if isinstance(target, str):
            with contextlib.suppress(EmbeddingError):  # use the first space only
                second = await self._index.second.read(target, filter_)
        size = max(MIN_COUNT, 2 * k)
        while True:
            is_exhausted, hits = await call(sidecar, partial(_look, Meaning(sidecar, vector, second), size, filter_))
            memories = await self._access.read(sidecar, [hit.memory_id for hit in hits])
            read = [
                (memory, hit) for hit in hits if (memory := memories.get(hit.memory_id)) is not None and passes(memory)
            ]
            if len(read) >= k or is_exhausted:
                texts = (memory.text for memory, _ in read[:k]) if reading.share < 1 else ()
                return await run_at_once_or_in_thread(texts, partial(_weigh, reading, read[:k]))
            size *= GROWTH_FACTOR

    async def find_with_words(
        self, query: str, where: ScopedFilter, take: Callable[[Sequence[MemoryRecord]], Awaitable[None]]
    ) -> bool:
        """Pass *take* the memories that pass *where* and have a word of *query*, page by page, possibly with some that have none.

        Returns:
            False if the text index cannot answer: it is being built, or the query has no indexed words, or too many.
        """
        text, stems = self._index.words, searched_stems(query)
        if text is None or not 0 < len(stems) <= MAX_STEMS:
            return False
        sidecar = await self._index.sidecar()
        _, filter_ = await self._access.resolve(where)
        memory_ids: list[MemoryId] = []
        if every := await call(sidecar, lambda: sidecar.count(filter_)):
            wording = text.read(query, Spelling.EXACT)
            hits = await asyncio.get_running_loop().run_in_executor(None, lambda: text.search(wording, every, filter_))
            memory_ids = [hit.memory_id for hit in hits]
        if not memory_ids:
            await self._access.read(sidecar, [])
        while memory_ids:
            page, looked_at = await self._access.read_page(sidecar, memory_ids)
            await take(list(page.values()))
            memory_ids = memory_ids[looked_at:]
        return True

    async def _direction(self, target: str | Sequence[float]) -> Vectors:
        import numpy as np  # lazy, like the model: never at process start

        embeddings = self._embeddings
        if isinstance(target, str):
            return await embeddings.embed_query(target)
        await embeddings.ready()
        vector = np.asarray(target, dtype=np.float32)
        norm = float(np.linalg.norm(vector))
        if len(vector) != embeddings.dim:
            expected = f"{embeddings.dim} numbers, as {embeddings.space} makes them, were expected"
            raise InvalidRequestError("vector", f"has {len(vector):,} numbers; {expected}")
        if not 0 < norm < float("inf"):
            raise InvalidRequestError("vector", "has no direction: its length is 0, or too large")
        unit: Vectors = vector / np.float32(norm)
        return unit


def _look(meaning: Meaning, size: int, where: Filter) -> tuple[bool, list[Nearness]]:
    """Return whether the best *size* hits are all that there are, and the hits by descending score."""
    return meaning.look(size, where), meaning.ranked()


def _weigh(reading: Reading, hits: Sequence[tuple[MemoryRecord, Nearness]]) -> list[Near]:
    """Return memories with their similarity and confidence, which is lower if the model reads only a part of the question."""
    results: list[Near] = []
    for memory, hit in hits:
        is_trusted = hit.is_second or reading.share == 1
        cosine = hit.cosine if is_trusted else hit.cosine * trust_in(reading, memory.text)
        results.append(Near(memory, hit.cosine, confidence_of(cosine)))
    return results


def _judge_standing(
    memory: MemoryRecord, search: Search, matches: Sequence[Match], ranked: Ranked, explanation: Explanation | None,
    min_confidence: float,
) -> Standing:  # fmt: skip
    """Return the standing of a candidate in its search."""
    memory_id, is_embedded = memory.memory_id, memory.embedding is not None
    order = [candidate.memory_id for candidate in ranked.candidates]
    rank = order.index(memory_id)
    equal = next((match for match in matches if match.memory.content_hash == memory.content_hash), None)
    above: tuple[MemoryId, ...] = ()
    confidence: float | None = None
    is_found = explanation is not None and explanation.parts.total > 0
    if not is_found and not is_embedded and search.mode in (Mode.HYBRID, Mode.SEMANTIC):
        reason = Reason.NOT_EMBEDDED  # a candidate only because it was asked about, like the next case
    elif not is_found and not get_meaning_share(search):
        reason = Reason.NO_WORD
    elif equal is not None and equal.memory.memory_id != memory_id:
        reason, above = Reason.SAME_TEXT, (equal.memory.memory_id,)
    elif equal is not None:
        confidence = equal.confidence
        reason = Reason.SHOWN if confidence >= min_confidence else Reason.CONFIDENCE
    else:
        reason, above = Reason.RANK, tuple(order[max(0, rank - MAX_ABOVE) : rank])
    return Standing(reason, (), above, explanation, confidence, is_embedded)


async def explain_candidates(
    query: str, search: Search, ranked: Ranked, memories: Sequence[MemoryRecord], *, by_word: bool = True
) -> dict[MemoryId, Explanation]:
    """Return the parts of the scores of *memories*, which are candidates; the contribution of each word only with *by_word*."""
    wording = search.wording if by_word and search.mode is not Mode.SEMANTIC else None

    def work() -> dict[MemoryId, Explanation]:
        explainer = Explainer(query, wording, ranked.candidates, ranked.scale)
        scores = ranked.rerank_scores
        return {memory.memory_id: explainer.explain(memory, scores.get(memory.memory_id)) for memory in memories}

    texts = () if wording is None else (query, *(memory.text[:MAX_CHARS] for memory in memories))
    return await run_at_once_or_in_thread(texts, work)
