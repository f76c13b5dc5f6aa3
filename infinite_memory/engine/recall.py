"""Finding memories: filter first, rank what passes, read the documents, collapse what says the same.

Candidates come from meaning (the sidecar's vectors) and from words (the text index); what one of them found is also
scored by the other, so that the order does not depend on how deep each looked. A hit whose document is gone is
dropped, and the room is filled with the next one: the store is the truth.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from infinite_memory.engine.confidence import SAME_TEXT, confidence_in
from infinite_memory.engine.excerpts import best_window
from infinite_memory.engine.naming import Asked, Names
from infinite_memory.engine.parts import Found, Listing, Mode, Parts, Where
from infinite_memory.engine.ranking import MEANING_SHARE, Candidate, discounted, rank
from infinite_memory.engine.remember import content_hash
from infinite_memory.errors import EmbeddingError, SidecarNotReadyError
from infinite_memory.models import Filter, Match, MemoryId, MemoryRecord, Scope, TagsMode, TimeRange
from infinite_memory.sidecar.base import Hit, Sidecar, Spelling, TextHit, TextIndex, Wording

if TYPE_CHECKING:
    from infinite_memory.embedding.reranker import Reranker
    from infinite_memory.models import Vectors

T = TypeVar("T")

PATIENCE_S = 1.0  # a hybrid question waits so long for an index that is being rebuilt, before the words alone answer it
SLACK = 8  # hits asked for beyond k, so that a few repeated texts need no second search
POOL = 50  # candidates of each kind; 30 and all of them rank alike
LONG_CHARS = 500  # where no vector tells how many windows a text has, one of more characters may have several
RERANKED = 50  # candidates that a re-ranker, where one is set, reads again
RERANKED_CHARS = 4000  # of each; a cross-encoder reads some 500 tokens
WIDEN = 4  # factor by which the search grows when collapsing left room
IN_THREAD = 20_000  # memories from which on searching would hold up the loop

_SHARES = {Mode.HYBRID: MEANING_SHARE, Mode.SEMANTIC: 1.0, Mode.TEXT: 0.0, Mode.FUZZY: 0.0}
_SPELLINGS = {
    Mode.HYBRID: Spelling.UNKNOWN,
    Mode.SEMANTIC: Spelling.UNKNOWN,
    Mode.TEXT: Spelling.EXACT,
    Mode.FUZZY: Spelling.ALL,
}


@dataclass(frozen=True, slots=True)
class Search:
    """A question ready to be searched: what may be used of vector and words is there."""

    sidecar: Sidecar
    text: TextIndex | None
    vector: Vectors | None
    wording: Wording | None
    tag_keys: frozenset[str]
    narrow: Filter
    mode: Mode
    note: str | None


@dataclass(frozen=True, slots=True)
class Ranked:
    """The best of a search, read; every candidate in order, and every memory read. ``exhausted`` where there are no more candidates.

    ``note`` tells why the re-ranker that is set was not used.
    """

    matches: list[Match]
    candidates: list[Candidate]
    memories: dict[MemoryId, MemoryRecord]
    exhausted: bool
    note: str | None = None


class Recalling:
    """The engine's methods that read memories."""

    parts: Parts
    _names: Names = Names(())
    _names_of: tuple[int, int] = (0, 0)

    async def recall(
        self, query: str, where: Where, k: int, *, min_confidence: float = 0.0, mode: Mode = Mode.HYBRID
    ) -> Found:
        """Find the memories that answer *query* best among those that pass *where*.

        Texts that are equal after folding case and white space are one match. Fewer than *k* only when fewer pass the
        filter and *min_confidence*; by words alone, when fewer have one of them. A hybrid recall goes by words alone,
        with a note, while the model is loading or when it failed.

        Raises:
            EmbeddingError: *mode* needs the model and it cannot be used.
            SidecarNotReadyError: *mode* needs the text index and it is still being built.
            ScopeNotFoundError: a scope of *where* does not exist.
        """
        scopes, search = await self._prepare(query, where, mode)
        matches, ranked = await self._answers(query, search, k)
        good = [match for match in matches if match.confidence >= min_confidence]
        if self.parts.uses is not None:
            self.parts.uses.note(match.memory for match in good)
        return Found(tuple(await self._with_windows(good, search)), scopes, note_of(search, ranked))

    async def _answers(
        self, query: str, search: Search, k: int, beside: Sequence[MemoryId] = ()
    ) -> tuple[list[Match], Ranked]:
        """Give the best *k* matches, those of equal texts as one, and what they were taken from; for *beside* see `_ranked`."""
        wanted = k + SLACK
        while True:
            ranked = await self._ranked(query, search, wanted, beside=beside)
            collapsed = collapse(ranked.matches)
            if len(collapsed) >= k or ranked.exhausted:
                break
            wanted *= WIDEN
        return collapsed[:k], ranked

    async def nearest(self, query: str, where: Where, k: int, *, min_confidence: float) -> list[Match]:
        """Find the *k* best matches, each for itself: texts that are equal are not collapsed. Errors as in `recall`.

        Confidence is that of the memory alone: what was said just before it, which a recall goes by as well, does not count.
        """
        _, search = await self._prepare(query, where, Mode.HYBRID)
        ranked = await self._ranked(query, search, k, alone=True)
        return [match for match in ranked.matches[:k] if match.confidence >= min_confidence]

    async def list_memories(
        self, where: Where, limit: int, cursor: str | None = None, *, newest_first: bool = True
    ) -> Listing:
        """List memories that pass *where* by the time they happened.

        Raises:
            ScopeNotFoundError: a scope of *where* does not exist.
            InvalidRequestError: *cursor* is none of ours.
        """
        sidecar = await self.parts.index.sidecar()
        scopes, narrow = await self._resolve(where)
        page = sidecar.list_page(narrow, limit, cursor, newest_first)
        found = await self._read(sidecar, page.memory_ids)
        memories = tuple(found[one] for one in page.memory_ids if one in found)
        return Listing(memories, page.total, page.next_cursor, scopes)

    async def last_conversation_start(self, before: dt.datetime) -> dt.datetime | None:
        """Tell when the newest conversation before *before* began; None when nothing was ever said."""
        sidecar = await self.parts.index.sidecar()
        page = sidecar.list_page(Filter(time=TimeRange(None, before)), 1, None, newest_first=True)
        found = list((await self._read(sidecar, page.memory_ids)).values())
        if not found:
            return None
        newest = found[0]
        if newest.conversation_id is None:
            return newest.occurred_at
        same = Filter(conversation_id=newest.conversation_id, time=TimeRange(None, before))
        first = sidecar.list_page(same, 1, None, newest_first=False)
        opened = await self._read(sidecar, first.memory_ids)
        return next((one.occurred_at for one in opened.values()), newest.occurred_at)

    async def _resolve(self, where: Where) -> tuple[tuple[Scope, ...], Filter]:
        """Turn scope names into ids; archived scopes are hidden."""
        if where.scopes is None:
            return tuple(one for one in self.parts.scopes.all() if one.archived_at is None), where.rest
        scopes = await self.parts.scopes.get_visible(where.scopes, lenient=where.lenient)
        return scopes, dataclasses.replace(where.rest, scope_ids=frozenset(one.scope_id for one in scopes))

    async def _read(self, sidecar: Sidecar, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, MemoryRecord]:
        located = dict(sidecar.locate(memory_ids))
        if sidecar is self.parts.index.partial:  # it does not know all of them yet
            located |= await self.parts.store.locate([one for one in memory_ids if one not in located])
        return await self.parts.store.fetch(located)

    async def _prepare(self, query: str, where: Where, mode: Mode) -> tuple[tuple[Scope, ...], Search]:
        """Resolve scopes, read the question's words and names, embed what is left of it.

        While a lost sidecar is rebuilt the words alone are searched, where the mode allows it.
        """
        notes: list[str] = []
        index = self.parts.index
        patience_s = PATIENCE_S if mode is Mode.HYBRID else 0.0
        sidecar = await (index.sidecar() if mode is Mode.SEMANTIC else index.for_words(patience_s))
        if is_partial := sidecar is index.partial:
            notes.append("the index is being rebuilt: found by words alone")
        scopes, narrow = await self._resolve(where)
        text = self.parts.index.words
        if text is None and mode in (Mode.TEXT, Mode.FUZZY):
            raise SidecarNotReadyError("the text index is still being built; try again in a moment")
        if text is None and mode is Mode.HYBRID:
            notes.append("the text index is still being built: found by meaning alone")
        wording = await self._maybe_in_thread(sidecar, lambda: text.read(query, _SPELLINGS[mode])) if text else None
        asked = self._understood(query, wording, sidecar)
        vector = None
        try:
            vector = None if is_partial else await self._vector(asked.embedded, mode)
        except EmbeddingError as problem:
            if mode is Mode.SEMANTIC or text is None:
                raise
            notes.append(f"found by words alone: {problem}")
        note = "; ".join(notes) or None
        return scopes, Search(sidecar, text, vector, wording, asked.tag_keys, narrow, mode, note)

    def _understood(self, query: str, wording: Wording | None, sidecar: Sidecar) -> Asked:
        """Read the names in a question, by the tags that there are."""
        tags = sidecar.tags()
        if self._names_of != (id(sidecar), len(tags)):
            self._names, self._names_of = Names(tags), (id(sidecar), len(tags))
        return self._names.read(query, wording.corrected if wording else {})

    async def _vector(self, text: str, mode: Mode) -> Vectors | None:
        embeddings, settings = self.parts.embeddings, self.parts.config.recall
        if mode is Mode.SEMANTIC:
            return await embeddings.embed_query(text)
        if mode is Mode.HYBRID:
            return await embeddings.embed_query(text, settings.model_wait_s)
        return await embeddings.embed_query(text) if embeddings.state == "ready" else None  # for the confidence only

    async def _ranked(
        self, query: str, search: Search, wanted: int, *, beside: Sequence[MemoryId] = (), alone: bool = False
    ) -> Ranked:
        """Rank the best *wanted* candidates and read them; in the same searches and the same reading also those of *beside*."""
        pool = max(POOL, 2 * wanted)
        candidates, exhausted = await self._maybe_in_thread(search.sidecar, lambda: _gather(search, pool, beside))
        share = _SHARES[search.mode] if search.vector is not None else 0.0
        ordered = [one for one, _ in rank(candidates, share)]
        reranker = None if alone or search.mode not in (Mode.HYBRID, Mode.SEMANTIC) else self.parts.reranker
        best = ordered[: wanted if reranker is None else max(wanted, RERANKED)]
        found = await self._read(search.sidecar, list(dict.fromkeys([*(one.memory_id for one in best), *beside])))
        sure = [
            (one, _confidence(one, found[one.memory_id], place, query, search, alone=alone))
            for place, one in enumerate(best)
            if one.memory_id in found
        ]
        note = None
        if reranker is not None:
            try:
                sure = (await _reranked(reranker, query, sure, found))[:wanted]
            except EmbeddingError as problem:
                note = f"in the order before re-ranking: {problem}"
        matches: list[Match] = []
        lowest = 1.0
        for one, confidence in sure[:wanted]:
            lowest = min(lowest, confidence)
            matches.append(Match(found[one.memory_id], lowest, windows=one.windows))
        return Ranked(matches, ordered, found, exhausted and len(ordered) <= wanted, note)

    async def _with_windows(self, matches: Sequence[Match], search: Search) -> list[Match]:
        """Tell of long memories which stretch matched; only those are read with their vectors."""
        long = [
            match.memory.memory_id
            for match in matches
            if match.windows > 1 or (search.vector is None and len(match.memory.text) > LONG_CHARS)
        ]
        if not long:
            return list(matches)
        whole = await self.parts.store.fetch(search.sidecar.locate(long), vectors=True)
        share, words = _SHARES[search.mode], None
        if search.text is not None and search.wording is not None and search.mode is not Mode.SEMANTIC:
            words = partial(search.text.share, search.wording)

        def told(match: Match) -> Match:
            memory = whole.get(match.memory.memory_id)
            if memory is None or memory.text != match.memory.text:
                return match
            return dataclasses.replace(match, window=best_window(memory, search.vector, words, share))

        return await self._maybe_in_thread(search.sidecar, lambda: [told(match) for match in matches])

    async def _maybe_in_thread(self, sidecar: Sidecar, work: Callable[[], T]) -> T:
        is_whole = sidecar is not self.parts.index.partial  # of a part nobody knows yet how large the whole is
        if is_whole and sum(sidecar.count_by_scope().values()) < IN_THREAD:
            return work()
        return await asyncio.get_running_loop().run_in_executor(None, work)


def note_of(search: Search, ranked: Ranked) -> str | None:
    """Say what could not be used of a search; None where everything was."""
    return "; ".join(one for one in (search.note, ranked.note) if one) or None


def _confidence(one: Candidate, memory: MemoryRecord, place: int, query: str, search: Search, *, alone: bool) -> float:
    """Tell how sure it is that a candidate answers; with *alone* what was said beside it does not count."""
    if memory.content_hash == content_hash(query):
        return SAME_TEXT
    coverage = one.coverage
    if alone and search.text is not None and search.wording is not None:
        coverage = min(coverage, search.text.share(search.wording, memory.text))
    return confidence_in(one.cosine, coverage, one.verbatim, place)


async def _reranked(
    reranker: Reranker, query: str, sure: Sequence[tuple[Candidate, float]], found: Mapping[MemoryId, MemoryRecord]
) -> list[tuple[Candidate, float]]:
    """Put candidates in the order of a cross-encoder. The confidences stay the same ones, and fall with the new order."""
    texts = [found[one.memory_id].text[:RERANKED_CHARS] for one, _ in sure]
    scores = await asyncio.to_thread(reranker.scores, query, texts)
    ordered = sorted(zip(scores, (one for one, _ in sure), strict=True), key=lambda pair: -pair[0])
    falling = sorted((confidence for _, confidence in sure), reverse=True)
    return [(one, confidence) for (_, one), confidence in zip(ordered, falling, strict=True)]


def collapse(matches: Sequence[Match]) -> list[Match]:
    """Make one match of those whose texts are equal after folding; the best stays and tells the others' times."""
    by_text: dict[str, Match] = {}
    for match in matches:
        key = match.memory.content_hash
        first = by_text.get(key)
        if first is None:
            by_text[key] = match
        else:
            by_text[key] = dataclasses.replace(first, repeated_at=(*first.repeated_at, *match.memory.occurrences))
    return list(by_text.values())


def _gather(search: Search, pool: int, beside: Sequence[MemoryId] = ()) -> tuple[list[Candidate], bool]:
    """Collect candidates from meaning and words, and score each by both, *beside* too; tells whether the pools held all there is."""
    sidecar, text, vector, wording, narrow = search.sidecar, search.text, search.vector, search.wording, search.narrow
    # A filter for tags is narrow enough; without one, those who are named get a pool of their own.
    named = None
    if search.tag_keys and not narrow.tag_keys:
        named = dataclasses.replace(narrow, tag_keys=search.tag_keys, tags_mode=TagsMode.ANY)
    near: dict[MemoryId, Hit] = {}
    worded: dict[MemoryId, TextHit] = {}
    exhausted = True
    for where in (narrow, named) if named is not None else (narrow,):
        if vector is not None and search.mode in (Mode.HYBRID, Mode.SEMANTIC):
            hits = sidecar.search(vector, pool, where)
            exhausted &= len(hits) < pool
            near |= {hit.memory_id: hit for hit in hits}
        if text is not None and wording is not None and search.mode is not Mode.SEMANTIC:
            found = text.search(wording, pool, where)
            exhausted &= len(found) < pool
            worded |= {hit.memory_id: hit for hit in found}
    ids = near.keys() | worded.keys() | set(beside)
    if vector is not None and (lacking := ids - near.keys()):
        near |= {
            hit.memory_id: hit for hit in sidecar.search(vector, len(lacking), Filter(memory_ids=frozenset(lacking)))
        }
    if text is not None and wording is not None and (lacking := ids - worded.keys()):
        worded |= {
            hit.memory_id: hit for hit in text.search(wording, len(lacking), Filter(memory_ids=frozenset(lacking)))
        }
    lifted: frozenset[MemoryId] = frozenset()
    if search.tag_keys and ids:
        bearing = Filter(memory_ids=frozenset(ids), tag_keys=search.tag_keys, tags_mode=TagsMode.ANY)
        lifted = frozenset(sidecar.list_page(bearing, len(ids), None, newest_first=True).memory_ids)
    return [_candidate(one, near.get(one), worded.get(one), one in lifted) for one in ids], exhausted


def _candidate(memory_id: MemoryId, near: Hit | None, worded: TextHit | None, lifted: bool) -> Candidate:
    made = Candidate(memory_id, lifted=lifted)
    if near is not None:
        made.cosine, made.windows = discounted(near.score, near.windows), near.windows
    if worded is not None:
        made.words, made.coverage, made.verbatim = worded.score, worded.coverage, worded.verbatim
    return made
