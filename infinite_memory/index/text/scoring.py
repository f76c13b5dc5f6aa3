"""What a memory scores by its words: BM25 of its best passage, evened out for length.

Why the score is not BM25's own (`LengthWeights`). Its discount for length, b = 0.75, is fixed in tantivy, and is too little where
all memories are long (a page that says a bit of everything outranks the sentence that says the thing) and far too much
for the one page among sentences. So a passage counts as one and a half times the mean at most, its score is divided by the
fifth root of the length beyond 60 words, and again by a root of the number of passages. Measured on two public sets
of conversations (words alone, recall@10): without any of it .70 where memories are long; with whole texts and the first
root .773 and .533; with passages of 200 words .743 and .533; with all three .784 and .544.
"""

from __future__ import annotations

from typing import NamedTuple

from infinite_memory.index.base import ParsedTextQuery, TextHit
from infinite_memory.index.text.write_buffer import Passage
from infinite_memory.models import MemoryId
from infinite_memory.text.bm25 import K1, length_norm, saturated

FLAT_LENGTH, LENGTH_ROOT = 60, 0.2  # words, and the fifth root: see above
MAX_LENGTH = 1.5  # times the mean: a passage that is longer counts as this long where its words are weighed
PASSAGES_ROOT = 0.15  # the best of many passages is a luckier draw than one


class Scored(NamedTuple):
    """The BM25 of a memory's best passage, that passage's length in stems, and how many passages the memory has."""

    score: float
    length: int
    passages: int


def score_passage(query: ParsedTextQuery, passage: Passage, mean: float) -> float:
    """Return the BM25 of a passage, as tantivy computes it."""
    norm = length_norm(passage.length, mean)
    return sum(
        term.weight * term.idf * saturated(count, norm)
        for term in query.terms
        if (count := passage.counts.get(term.word, 0))
    )


class LengthWeights:
    """What lengths do to the scores of one search, worked out once for each length."""

    def __init__(self, mean: float) -> None:
        self._mean = mean
        self._known: dict[tuple[int, int], tuple[float, float, float]] = {}

    def normalize(self, found: Scored) -> float:
        """Return the score of a memory, evened out for length and number of passages."""
        norm, capped, discount = self._known.get(found[1:]) or self._compute(found)
        return found[0] * norm / capped * discount

    def to_hit(
        self, memory_id: MemoryId, found: Scored, evened: float, exact_phrase: float, max_score: float
    ) -> TextHit:
        """Return a hit of the score that `normalize` gave, with how much of the question was there, as if each word stood there once."""
        norm = self._known[found[1:]][0]
        coverage = min(1.0, found.score * norm / (max_score * (K1 + 1))) if max_score else 0.0
        return TextHit(memory_id, evened, coverage, exact_phrase)

    def _compute(self, found: Scored) -> tuple[float, float, float]:
        """Return the norm of a length, that of the length as it counts at most, and the discount."""
        weights = (
            1 + length_norm(found.length, self._mean),
            1 + length_norm(min(found.length, MAX_LENGTH * self._mean), self._mean),
            max(1.0, found.length / FLAT_LENGTH) ** -LENGTH_ROOT * found.passages**-PASSAGES_ROOT,
        )
        self._known[found[1:]] = weights
        return weights
