"""Candidates of one search: hits of vector and keyword search, each scored by both.

The cosine of a candidate comes from one of two embedding spaces: from the second if the first model cannot read the question or the
memory, otherwise from the first. Both are on the scale of the first (`to_first_scale`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from infinite_memory.engine.ranking import Candidate, discounted
from infinite_memory.engine.turns import MAX_TURNS
from infinite_memory.engine.types import Mode
from infinite_memory.index.base import Hit, Neighbours, ParsedTextQuery, TextHit, TextIndex, VectorIndex
from infinite_memory.index.second_space import SecondQuestion
from infinite_memory.models import Filter, MemoryId, TagsMode

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

SECOND_SCALE = 1.1
"""Factor from cosines of the second space to those of the first. For questions and paragraphs in German, Spanish, Chinese and Arabic the
best of 120 unrelated paragraphs exceeds .35 to .39 in 3 % of the cases, and the right one has a median of .31 to .42; in English, with
the first model, these are .42 and .58."""

SECOND_WINDOWS = 5  # windows of the second model per window of the first
SECOND_FREE_WINDOWS = 10
"""Windows of the second model that are discounted as one of the first. Its windows are short, so the best of a few is rarely due to
chance: with 5 instead, German and Spanish questions rank their paragraph first one percentage point less often."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The indexes and queries of a search; None for those not used.

    With ``uses_turns`` turns of a conversation support each other, and those of ``addressed``, a speaker, are boosted (`turns`).
    """

    sidecar: VectorIndex
    text: TextIndex | None
    vector: Vectors | None
    wording: ParsedTextQuery | None
    tag_keys: frozenset[str]
    narrow: Filter
    mode: Mode
    second: SecondQuestion | None = None
    uses_turns: bool = False
    addressed: str | None = None

    @property
    def has_meaning(self) -> bool:
        """True if vectors are searched."""
        return self.vector is not None or self.second is not None


class Nearness(NamedTuple):
    """The similarity of a memory to a question, on the scale of the first space, and which space it is from."""

    memory_id: MemoryId
    cosine: float
    windows: int
    is_second: bool


def to_first_scale(cosine: float) -> float:
    """Return a cosine of the second space on the scale of the first."""
    return min(1.0, SECOND_SCALE * cosine)


def gather(sources: Sources, pool: int, beside: Sequence[MemoryId] = ()) -> tuple[list[Candidate], bool]:
    """Return the candidates of both searches and of *beside*, each scored by both, and whether the pools were exhausted."""
    sidecar, text, wording, filter_ = sources.sidecar, sources.text, sources.wording, sources.narrow
    # A tag filter is narrow enough; without one, memories with the named tags get their own pool.
    named = None
    if sources.tag_keys and not filter_.tag_keys:
        named = dataclasses.replace(filter_, tag_keys=sources.tag_keys, tags_mode=TagsMode.ANY)
    meaning = Meaning(sidecar, sources.vector, sources.second)
    worded: dict[MemoryId, TextHit] = {}
    exhausted = True
    for where in (filter_, named) if named is not None else (filter_,):
        if sources.mode in (Mode.HYBRID, Mode.SEMANTIC):
            exhausted &= meaning.look(pool, where)
        if text is not None and wording is not None and sources.mode is not Mode.SEMANTIC:
            hits = text.search(wording, pool, where)
            exhausted &= len(hits) < pool
            worded |= {hit.memory_id: hit for hit in hits}
    ids = meaning.found | worded.keys() | set(beside)
    meaning.score(ids)
    if text is not None and wording is not None and (lacking := ids - worded.keys()):
        if sum(hit.exact_phrase > 0 for hit in worded.values()) < pool:  # then no other memory contains a phrase
            wording = dataclasses.replace(wording, phrases=())
        worded |= {
            hit.memory_id: hit for hit in text.search(wording, len(lacking), Filter(memory_ids=frozenset(lacking)))
        }
    lifted: frozenset[MemoryId] = frozenset()
    if sources.tag_keys and ids:
        bearing = Filter(memory_ids=frozenset(ids), tag_keys=sources.tag_keys, tags_mode=TagsMode.ANY)
        lifted = frozenset(sidecar.list_page(bearing, len(ids), None, newest_first=True).memory_ids)
    turns = sidecar.neighbours(ids, MAX_TURNS) if sources.uses_turns else {}
    spoken_ids: frozenset[MemoryId] = frozenset()
    if turns and sources.addressed is not None:
        of_speaker = Filter(memory_ids=frozenset(turns), speaker=sources.addressed)
        spoken_ids = frozenset(sidecar.list_page(of_speaker, len(turns), None, newest_first=True).memory_ids)
    return [
        meaning.candidate(
            memory_id,
            worded.get(memory_id),
            boosted=memory_id in lifted,
            turn=turns.get(memory_id),
            is_addressed=memory_id in spoken_ids,
        )
        for memory_id in ids
    ], exhausted


class Meaning:
    """Vector search in both spaces for one question; without *second* in the first one only."""

    def __init__(self, sidecar: VectorIndex, vector: Vectors | None, second: SecondQuestion | None) -> None:
        self._sidecar, self._vector, self._second = sidecar, vector, second
        self._near: dict[MemoryId, Hit] = {}
        self._second_near: dict[MemoryId, Hit] = {}
        self._foreign: frozenset[MemoryId] = frozenset()

    @property
    def found(self) -> set[MemoryId]:
        """The ids found so far."""
        return self._near.keys() | self._second_near.keys()

    def look(self, pool: int, where: Filter) -> bool:
        """Search for the nearest; True if there are no more. The first space is skipped for text its model cannot read, if possible."""
        is_exhausted, second = True, self._second
        if second is not None:
            hits = second.index.search(second.vector, pool, second.narrowed(where))
            is_exhausted &= len(hits) < pool
            self._second_near |= {hit.memory_id: hit for hit in hits}
        if self._vector is not None and not (second is not None and second.is_foreign and self._is_second_whole()):
            hits = self._sidecar.search(self._vector, pool, where)
            is_exhausted &= len(hits) < pool
            self._near |= {hit.memory_id: hit for hit in hits}
        return is_exhausted

    def _is_second_whole(self) -> bool:
        """True if the second space has a vector for everything in the first index."""
        assert self._second is not None
        index = self._second.index
        return not index.count_pending() and index.count(Filter()) >= self._sidecar.count(Filter())

    def score(self, ids: set[MemoryId]) -> None:
        """Score memories found by keywords only, in the space that applies to each."""
        if self._second is not None and ids:
            self._foreign = self._second.find_foreign(ids)
            if lacking := self._foreign - self._second_near.keys():
                hits = self._second.index.search(self._second.vector, len(lacking), Filter(memory_ids=lacking))
                self._second_near |= {hit.memory_id: hit for hit in hits}
        scored = self._foreign & self._second_near.keys()
        if self._vector is not None and (lacking := frozenset(ids - self._near.keys() - scored)):
            hits = self._sidecar.search(self._vector, len(lacking), Filter(memory_ids=lacking))
            self._near |= {hit.memory_id: hit for hit in hits}

    def ranked(self) -> list[Nearness]:
        """Score the hits and return them, nearest first."""
        self.score(self.found)
        near = [self._nearness(memory_id) for memory_id in (self._near | self._second_near)]
        return sorted((nearness for nearness in near if nearness is not None), key=lambda nearness: -nearness.cosine)

    def _nearness(self, memory_id: MemoryId) -> Nearness | None:
        is_second = memory_id in self._foreign and memory_id in self._second_near
        if (hit := (self._second_near if is_second else self._near).get(memory_id)) is None:
            return None
        cosine = to_first_scale(hit.score) if is_second else hit.score
        return Nearness(memory_id, cosine, hit.windows, is_second)

    def candidate(
        self,
        memory_id: MemoryId,
        worded: TextHit | None,
        *,
        boosted: bool,
        turn: Neighbours | None,
        is_addressed: bool,
    ) -> Candidate:
        """Return a candidate with its evidence."""
        candidate = Candidate(memory_id, boosted=boosted, turn=turn, is_addressed=is_addressed)
        if (near := self._nearness(memory_id)) is not None:
            comparable = -(-near.windows // SECOND_FREE_WINDOWS) if near.is_second else near.windows
            candidate.cosine, candidate.windows = discounted(near.cosine, comparable), near.windows
            candidate.is_second = near.is_second
            candidate.is_short = near.windows <= (SECOND_WINDOWS if near.is_second else 1)
        if worded is not None:
            candidate.words, candidate.coverage = worded.score, worded.coverage
            candidate.exact_phrase = worded.exact_phrase
        return candidate
