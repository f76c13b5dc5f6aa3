"""One search: parse the question, gather candidates by vector and by keyword, rank them, read the best.

Candidates come from vectors (the sidecar) and from keywords (the text index); hits of one are also scored by the other, so that the
order does not depend on the depth of each. A hit whose document is gone is dropped and replaced by the next one: the store is the
source of truth.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from infinite_memory.embedding.service import EmbeddingService
from infinite_memory.embedding.vocabulary import READ, Reading
from infinite_memory.engine.access import Access
from infinite_memory.engine.candidates import Sources, gather
from infinite_memory.engine.confidence import SAME_TEXT, SECOND_TRUST, confidence_in, trust_in
from infinite_memory.engine.entity_mentions import EntityIndex, EntityNames, ParsedQuery
from infinite_memory.engine.ranking import MEANING_SHARE, SECOND_MEANING_SHARE, Candidate, Scale, rank
from infinite_memory.engine.snippets import best_window
from infinite_memory.engine.turns import find_addressed
from infinite_memory.engine.types import Mode, ScopedFilter
from infinite_memory.errors import EmbeddingError, SidecarNotReadyError
from infinite_memory.index.base import Spelling, VectorIndex
from infinite_memory.index.second_space import SecondQuestion
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import Filter, Match, MemoryId, MemoryRecord, Scope, content_hash
from infinite_memory.settings import RecallSettings
from infinite_memory.store.base import Store
from infinite_memory.text.offload import run_at_once_or_in_thread

if TYPE_CHECKING:
    from infinite_memory.embedding.reranker import Reranker
    from infinite_memory.models import Vectors

T = TypeVar("T")

PATIENCE_S = 1.0  # how long a hybrid search waits for an index that is being rebuilt, before it falls back to keywords
OVERFETCH = 8  # hits requested beyond k, so that a few repeated texts need no second search
CANDIDATES = 50  # candidates of each kind; the ranking is the same with 30 and with all
LONG_CHARS = 500  # without a vector, a longer text may have several windows
RERANKED = 50  # candidates passed to a re-ranker, if one is configured
RERANKED_CHARS = 4000  # of each; a cross-encoder reads about 500 tokens
GROWTH_FACTOR = 4  # factor by which the search grows if collapsing left too few
LONG_QUERY_CHARS = 1000  # parsing a longer question takes more than a few milliseconds
IN_THREAD = 20_000  # above this many memories searching would block the event loop
FEW_CANDIDATES = 200  # gathered without a thread

_SHARES = {Mode.HYBRID: MEANING_SHARE, Mode.SEMANTIC: 1.0, Mode.TEXT: 0.0, Mode.FUZZY: 0.0}
_SPELLINGS = {
    Mode.HYBRID: Spelling.UNKNOWN,
    Mode.SEMANTIC: Spelling.UNKNOWN,
    Mode.TEXT: Spelling.EXACT,
    Mode.FUZZY: Spelling.ALL,
}


@dataclass(frozen=True, slots=True)
class Search(Sources):
    """A prepared search: vectors and keywords are set if they may be used."""

    note: str | None = None
    reading: Reading = READ


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best matches of a search; all candidates in order, with their scale, and the memories read.

    ``exhausted``: there are no more candidates; ``is_full``: the texts read fill a reply, and those after them were not read.

    ``note`` says why a configured re-ranker was not used; ``rerank_scores`` are its scores.
    """

    matches: list[Match]
    candidates: list[Candidate]
    scale: Scale
    memories: dict[MemoryId, MemoryRecord]
    exhausted: bool
    note: str | None = None
    rerank_scores: Mapping[MemoryId, float] = dataclasses.field(default_factory=dict)
    is_full: bool = False


class Searcher:
    """Searches the memories that one caller may see. Use from one event loop only."""

    def __init__(
        self, *, access: Access, store: Store, index: IndexSync, embeddings: EmbeddingService, names: EntityNames,
        settings: RecallSettings, reranker: Reranker | None,
    ) -> None:  # fmt: skip
        self._access, self._store, self._index, self._embeddings = access, store, index, embeddings
        self._names, self._settings, self._reranker = names, settings, reranker

    async def prepare(
        self, query: str, where: ScopedFilter, mode: Mode, spelling: Spelling | None = None
    ) -> tuple[tuple[Scope, ...], Search]:
        """Resolve scopes, parse the question's words and names, and embed the rest of it.

        While a lost sidecar is rebuilt only keywords are searched, if the mode allows it.
        """
        notes: list[str] = []
        index = self._index
        patience_s = PATIENCE_S if mode is Mode.HYBRID else 0.0
        sidecar = await (index.sidecar() if mode is Mode.SEMANTIC else index.for_words(patience_s))
        if is_partial := sidecar is index.partial:
            notes.append(f"{index.why_partial}: found by words alone")
        elif index.why_behind is not None:
            notes.append(f"{index.why_behind}: what was stored since is found by words alone")
        scopes, filter_ = await self._access.resolve(where)
        text = self._index.words
        if text is None and mode in (Mode.TEXT, Mode.FUZZY):
            raise SidecarNotReadyError("the text index is still being built; try again in a moment")
        if text is None and mode is Mode.HYBRID:
            notes.append("the text index is still being built: found by meaning alone")
        seen = await self._word_statistics(where, filter_)
        is_long = len(query) > LONG_QUERY_CHARS
        wording = None
        if text is not None:
            wording = await self.maybe_in_thread(
                sidecar, lambda: text.read(query, spelling or _SPELLINGS[mode], seen), at_once=not is_long
            )
        names = await self._find_names(where, sidecar)
        parsed = await self.maybe_in_thread(
            sidecar, lambda: names.read(query, wording.corrected if wording else {}), at_once=not is_long
        )
        embedded = await self._choose_embedded(parsed)
        vector = None
        try:
            vector = None if is_partial else await self._vector(embedded, mode)
        except EmbeddingError as exc:
            if mode is Mode.SEMANTIC or text is None:
                raise
            notes.append(f"found by words alone: {exc}")
        if vector is not None and index.is_behind and self._access.sees_everything:
            notes.append("some memories have no vector yet: those are found by words alone")
        second = None if vector is None else await self._second_question(embedded, filter_, mode, notes)
        note = "; ".join(notes) or None
        reading = READ if vector is None else await self._embeddings.reading(embedded)
        # Other memories must not show, not even as gaps between turns (`seen`).
        uses_turns = mode is Mode.HYBRID and vector is not None and wording is not None and seen is None
        is_english = second is None or not second.is_foreign
        addressed = find_addressed(query) if uses_turns and is_english else None
        return scopes, Search(
            sidecar, text, vector, wording, parsed.tag_keys, filter_, mode, second, uses_turns, addressed,
            note=note, reading=reading,
        )  # fmt: skip

    async def _choose_embedded(self, parsed: ParsedQuery) -> str:
        """Return the text to embed: words of another language are not typos in the memories' language."""
        if parsed.as_written != parsed.embedded:
            [is_foreign] = await self._embeddings.find_foreign([parsed.as_written])
            if is_foreign:
                return parsed.as_written
        return parsed.embedded

    async def _second_question(self, text: str, filter_: Filter, mode: Mode, notes: list[str]) -> SecondQuestion | None:
        """Return the question in the second space, if it needs that; if the space is unavailable, add a note on the fallback."""
        wait_s = self._settings.wait_s if mode is Mode.SEMANTIC else self._settings.model_wait_s
        try:
            return await self._index.second.read(text, filter_, wait_s)
        except EmbeddingError as exc:
            notes.append(f"other languages than English are found by words, hardly by meaning: {exc}")
            return None

    async def _word_statistics(self, where: ScopedFilter, filter_: Filter) -> Filter | None:
        """Return the filter for the memories that word frequencies and spellings come from; None for all memories, which is faster."""
        if self._access.sees_everything:
            return filter_ if where.is_apart else None
        if not self._access.visibility.conceals:
            return None
        return (await self._access.resolve(ScopedFilter(None)))[1]

    async def _find_names(self, where: ScopedFilter, sidecar: VectorIndex) -> EntityIndex | EntityNames:
        """Return the names to parse a question with: those in the tags, or none if they have to be concealed."""
        if self._access.visibility.conceals:
            return EntityIndex(())
        await self._names.learn(sidecar)
        return EntityIndex(()) if where.is_apart else self._names

    async def find_answers(
        self, query: str, search: Search, k: int, beside: Sequence[MemoryId] = ()
    ) -> tuple[list[Match], Ranked]:
        """Return the best *k* matches with equal texts collapsed, and the ranking that they are from; for *beside* see `find_ranked`."""
        limit = k + OVERFETCH
        while True:
            ranked = await self.find_ranked(query, search, limit, beside=beside)
            collapsed = collapse(ranked.matches)
            if len(collapsed) >= k or ranked.exhausted:
                break
            if ranked.is_full:
                full = f"the best {len(collapsed)} only: their texts fill a reply; a filter finds others"
                ranked = dataclasses.replace(ranked, note="; ".join(filter(None, (ranked.note, full))))
                break
            limit *= GROWTH_FACTOR
        return collapsed[:k], ranked

    async def _vector(self, text: str, mode: Mode) -> Vectors | None:
        embeddings, settings = self._embeddings, self._settings
        if mode is Mode.SEMANTIC:
            return await embeddings.embed_query(text)
        if mode is Mode.HYBRID:
            return await embeddings.embed_query(text, settings.model_wait_s)
        # In text mode it is used for the confidence only.
        return await embeddings.embed_query(text) if embeddings.state == "ready" else None

    async def find_ranked(
        self, query: str, search: Search, wanted: int, *, beside: Sequence[MemoryId] = (), alone: bool = False
    ) -> Ranked:
        """Rank and read the best *wanted* candidates, and in the same searches and read those of *beside*."""
        pool = max(CANDIDATES, 2 * wanted)
        candidates, exhausted = await self.maybe_in_thread(
            search.sidecar,
            lambda: gather(search, pool, beside),
            at_once=pool <= FEW_CANDIDATES and len(query) <= LONG_QUERY_CHARS,
        )
        scale = Scale.of(candidates, get_meaning_share(search))
        ordered = [candidate for candidate, _ in rank(candidates, scale)]
        reranker = None if alone or search.mode not in (Mode.HYBRID, Mode.SEMANTIC) else self._reranker
        best = ordered[: wanted if reranker is None else max(wanted, RERANKED)]
        ids = list(dict.fromkeys([*beside, *(candidate.memory_id for candidate in best)]))
        by_id, looked_at = await self._access.read_page(search.sidecar, ids)
        existing = [pair for pair in enumerate(best) if pair[1].memory_id in by_id]
        judged = _judging(content_hash(query), search, alone=alone)
        reads_texts = alone or search.reading.share < 1
        sure = await run_at_once_or_in_thread(
            (by_id[candidate.memory_id].text for _, candidate in existing) if reads_texts else (),
            lambda: [
                (candidate, judged(candidate, by_id[candidate.memory_id], position)) for position, candidate in existing
            ],
        )
        note: str | None = None
        rerank_scores: dict[MemoryId, float] = {}
        if reranker is not None:
            try:
                sure, rerank_scores = await _reranked(reranker, query, sure, by_id)
            except EmbeddingError as exc:
                note = f"in the order before re-ranking: {exc}"
        matches: list[Match] = []
        lowest = 1.0
        for candidate, confidence in sure[:wanted]:
            lowest = min(lowest, confidence)
            matches.append(Match(by_id[candidate.memory_id], lowest, windows=candidate.windows))
        is_all = exhausted and len(ordered) <= wanted and looked_at == len(ids)
        return Ranked(matches, ordered, scale, by_id, is_all, note, rerank_scores, is_full=looked_at < len(ids))

    async def with_windows(self, matches: Sequence[Match], search: Search) -> list[Match]:
        """Add the matching window to long memories; only those are read with their vectors."""
        long = {
            match.memory.memory_id: match.memory.scope_id
            for match in matches
            if match.windows > 1 or (search.vector is None and len(match.memory.text) > LONG_CHARS)
        }
        if not long:
            return list(matches)
        memories = await self._store.fetch(long, vectors=True)
        share, words = _SHARES[search.mode], None
        vector = None if search.second is not None and search.second.is_foreign else search.vector
        if search.text is not None and search.wording is not None and search.mode is not Mode.SEMANTIC:
            words = search.wording.share

        def told(match: Match) -> Match:
            memory = memories.get(match.memory.memory_id)
            if memory is None or memory.text != match.memory.text:
                return match
            return dataclasses.replace(match, window=best_window(memory, vector, words, share))

        return await run_at_once_or_in_thread(
            (memory.text for memory in memories.values()), lambda: [told(match) for match in matches]
        )

    async def maybe_in_thread(self, sidecar: VectorIndex, func: Callable[[], T], *, at_once: bool = True) -> T:
        """Run *func*, in a thread if there are many memories, or if it is not *at_once* done."""
        is_whole = sidecar is not self._index.partial  # the size of a partial index does not show that of the whole
        is_near = at_once and is_whole and not sidecar.is_remote
        if is_near and sum(sidecar.count_by_scope().values()) < IN_THREAD:
            return func()
        return await asyncio.get_running_loop().run_in_executor(None, func)


def get_note(search: Search, ranked: Ranked) -> str | None:
    """Return a note on what a search could not use; None if it used everything."""
    return "; ".join(note for note in (search.note, ranked.note) if note) or None


def get_meaning_share(search: Search) -> float:
    """Return the weight of vector scores against keyword scores in a search."""
    if search.mode is Mode.HYBRID and search.second is not None and search.second.is_foreign:
        return SECOND_MEANING_SHARE
    return _SHARES[search.mode] if search.vector is not None else 0.0


def _judging(question_hash: str, search: Search, *, alone: bool) -> Callable[[Candidate, MemoryRecord, int], float]:
    """Return the confidence function: of a candidate, its memory and rank, for a question with content hash *question_hash*.

    With *alone* the turns next to it do not count.
    """

    def confidence(candidate: Candidate, memory: MemoryRecord, rank: int) -> float:
        if memory.content_hash == question_hash:
            return SAME_TEXT
        coverage = candidate.coverage
        if alone and search.text is not None and search.wording is not None:
            coverage = min(coverage, search.wording.share(memory.text))
        cosine = candidate.cosine
        if cosine is not None and candidate.is_second:
            cosine *= SECOND_TRUST
        elif cosine is not None and search.reading.share < 1:
            cosine *= trust_in(search.reading, memory.text)
        return confidence_in(cosine, coverage, candidate.exact_phrase, rank)

    return confidence


async def _reranked(
    reranker: Reranker, query: str, sure: Sequence[tuple[Candidate, float]], memories: Mapping[MemoryId, MemoryRecord]
) -> tuple[list[tuple[Candidate, float]], dict[MemoryId, float]]:
    """Return candidates in the order of a cross-encoder, and its scores.

    The confidences are reassigned in descending order to the new ranking.
    """
    texts = [memories[candidate.memory_id].text[:RERANKED_CHARS] for candidate, _ in sure]
    scores = await asyncio.to_thread(reranker.scores, query, texts)
    ordered = sorted(zip(scores, (candidate for candidate, _ in sure), strict=True), key=lambda pair: -pair[0])
    falling = sorted((confidence for _, confidence in sure), reverse=True)
    rerank_scores = {candidate.memory_id: score for score, candidate in ordered}
    return [(candidate, confidence) for (_, candidate), confidence in zip(ordered, falling, strict=True)], rerank_scores


def collapse(matches: Sequence[Match]) -> list[Match]:
    """Collapse matches whose texts are equal after folding; the best one stays, with the others' times."""
    by_text: dict[str, list[Match]] = {}
    for match in matches:
        by_text.setdefault(match.memory.content_hash, []).append(match)
    return [
        dataclasses.replace(first, repeated_at=_get_other_times(first, rest)) if rest else first
        for first, *rest in by_text.values()
    ]


def _get_other_times(first: Match, rest: Sequence[Match]) -> tuple[dt.datetime, ...]:
    """Return the times of the memories with the same text as *first*.

    A time taken over from a merged memory that is itself among them again (the merge was undone) counts once.
    """
    own = [match.memory.occurred_at for match in rest]
    seen = {*own, first.memory.occurred_at}
    merged = (
        occurrence for match in (first, *rest) for occurrence in match.memory.occurrences if occurrence not in seen
    )
    return (*own, *dict.fromkeys(merged))
