"""Explains a memory's rank in a recall: the parts of its score, the contribution of each word of the question, and why it was not
shown, if it was not."""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infinite_memory.engine.ranking import Candidate, Scale, ScoreParts
from infinite_memory.index.base import ParsedTextQuery, VectorIndex
from infinite_memory.models import FILTERED_NUMBERS, FILTERED_TEXTS, Filter, MemoryId, MemoryRecord, ScopeId
from infinite_memory.text.bm25 import K1, saturated
from infinite_memory.text.stemmer import stem_words
from infinite_memory.text.tokenizer import tokenize

MAX_CHARS = 20_000  # of a text are searched for words; more takes over a millisecond


@dataclass(frozen=True, slots=True)
class Explanation:
    """The parts of a result's score, which add up to it.

    ``rank`` is its rank among all candidates, from 1, before a re-ranker reordered them by ``rerank_score`` (None without one).
    ``by_word`` divides the keyword part among the words of the question; ``cosine`` is the raw similarity.
    """

    parts: ScoreParts
    rank: int
    by_word: Mapping[str, float]
    cosine: float | None
    rerank_score: float | None = None


class Explainer:
    """Explains candidates of one search; *candidates* are all of them, in order, with their *scale*.

    Without *wording* the keyword part is not divided by word, which takes as long as a search.
    """

    def __init__(
        self, query: str, wording: ParsedTextQuery | None, candidates: Sequence[Candidate], scale: Scale
    ) -> None:
        self._scale = scale
        self._ranks = {candidate.memory_id: (rank, candidate) for rank, candidate in enumerate(candidates, 1)}
        self._terms = wording.terms if wording is not None else ()
        words = tokenize(query) if self._terms else []
        self._spelt: dict[str, str] = {}
        for stem, word in zip(stem_words(words), words, strict=True):
            self._spelt.setdefault(stem, word)

    def explain(self, memory: MemoryRecord, rerank_score: float | None = None) -> Explanation:
        """Return the parts of the score of a candidate that has been read."""
        rank, candidate = self._ranks[memory.memory_id]
        parts = self._scale.parts(candidate)
        return Explanation(parts, rank, self._by_word(memory.text, parts.words), candidate.cosine, rerank_score)

    def _by_word(self, text: str, total: float) -> dict[str, float]:
        """Return the keyword part divided by each word's BM25 weight in the text; empty if none of them is in its first `MAX_CHARS`."""
        if not total or not self._terms:
            return {}
        counts = Counter(stem_words(tokenize(text[:MAX_CHARS])))
        weights: dict[str, float] = {}
        for term in self._terms:
            if count := counts[term.word]:
                word = self._spelt.get(term.word, term.word)
                weights[word] = weights.get(word, 0.0) + term.idf * term.weight * saturated(count, K1)
        whole = sum(weights.values())
        return {word: total * weight / whole for word, weight in weights.items()} if whole else {}


MAX_ABOVE = 5  # memories ranked right above one that was not shown; the results themselves are known

_PARTS = {
    "tag_keys": "tags",
    "time": "time_range",
    **{by.part: by.request_name for by in (*FILTERED_TEXTS.values(), *FILTERED_NUMBERS.values())},
}
"""Parts of a filter, and their names in requests."""


class Reason(enum.Enum):
    """Why a memory is or is not among the results."""

    SHOWN = "shown"
    UNKNOWN = "unknown"
    DELETED = "deleted"
    ARCHIVED = "archived"
    FILTER = "filter"
    NOT_EMBEDDED = "not_embedded"
    NO_WORD = "no_word"
    SAME_TEXT = "same_text"
    CONFIDENCE = "confidence"
    RANK = "rank"


@dataclass(frozen=True, slots=True)
class Standing:
    """The outcome of a recall for one memory.

    ``failed`` names the parts of the filter that it does not pass, ``above`` the memories right above it, nearest last, or the one with
    the same text that was shown instead. ``explanation`` is set if it was a candidate.
    """

    reason: Reason
    failed: tuple[str, ...] = ()
    above: tuple[MemoryId, ...] = ()
    explanation: Explanation | None = None
    confidence: float | None = None
    is_embedded: bool | None = None


def find_failed(sidecar: VectorIndex, filter_: Filter, memory_id: MemoryId, scope_id: ScopeId) -> tuple[str, ...]:
    """Return the names of the filter parts that a memory does not pass."""
    failed = [] if filter_.scope_ids is None or scope_id in filter_.scope_ids else ["scope"]
    alone = Filter(memory_ids=frozenset({memory_id}), tags_mode=filter_.tags_mode)
    for field, name in _PARTS.items():
        value = getattr(filter_, field)
        if value != getattr(Filter(), field) and not sidecar.count(dataclasses.replace(alone, **{field: value})):
            failed.append(name)
    return tuple(failed)
