"""The text score of a memory: BM25 of its best passage, normalized for length.

Why not plain BM25 (`Found.normalize`): its length normalization, b = 0.75, is fixed in tantivy, and is too weak if all memories are long
(a page about everything outranks the sentence about the subject) and far too strong for a single page among sentences. So a passage counts
as one and a half times the mean at most, its score is divided by the fifth root of the length beyond 60 words, and again by a root of
the number of passages. Measured on two public sets of conversations (words alone, recall@10): without any of it .70 if memories are
long; with whole texts and the first root .773 and .533; with passages of 200 words .743 and .533; with all three .784 and .544.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from infinite_memory.index.base import ParsedTextQuery
from infinite_memory.index.text.write_buffer import Passage
from infinite_memory.models import MemoryId
from infinite_memory.text.bm25 import K1, length_norm, saturated

FLAT_LENGTH, LENGTH_ROOT = 60, 0.2  # words, and the fifth root: see above
MAX_LENGTH = 1.5  # times the mean: a longer passage counts as this long in BM25
PASSAGES_ROOT = 0.15  # the best of many passages scores higher by chance than a single one


def score_passage(query: ParsedTextQuery, passage: Passage, mean: float) -> float:
    """Return the BM25 score of a passage, computed as tantivy does."""
    norm = length_norm(passage.length, mean)
    return sum(
        term.weight * term.idf * saturated(count, norm)
        for term in query.terms
        if (count := passage.counts.get(term.word, 0))
    )


@dataclass(frozen=True, slots=True, eq=False)
class NormalizedScores:
    """Scores normalized for length and number of passages, and the share of the question that matched, 0 to 1."""

    scores: NDArray[np.float64]
    coverages: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Found:
    """The results of one search, in columns: memories, BM25 of the best passage, its length in stems, and the number of passages."""

    ids: list[MemoryId] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    passages: list[int] = field(default_factory=list)

    def add(self, memory_id: MemoryId, score: float, length: int, passages: int) -> None:
        """Add one memory."""
        self.ids.append(memory_id)
        self.scores.append(score)
        self.lengths.append(length)
        self.passages.append(passages)

    def normalize(self, mean: float, max_score: float) -> NormalizedScores:
        """Return all scores normalized for length, vectorised: one by one takes as long as the search.

        Args:
            mean: The mean passage length.
            max_score: The score of a text with every word of the question; coverage is the share of it.
        """
        scores = np.array(self.scores, np.float64)
        lengths = np.maximum(1.0, np.array(self.lengths, np.float64))
        capped = 1 + length_norm(np.minimum(lengths, MAX_LENGTH * mean), mean)
        normalized = scores * (1 + length_norm(lengths, mean))  # as if each word occurred once
        discounts = np.maximum(1.0, lengths / FLAT_LENGTH) ** -LENGTH_ROOT
        discounts *= np.array(self.passages, np.float64) ** -PASSAGES_ROOT
        coverages = np.minimum(1.0, normalized / (max_score * (K1 + 1))) if max_score else np.zeros(len(scores))
        return NormalizedScores(normalized / capped * discounts, coverages)
