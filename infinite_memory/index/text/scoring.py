"""What a memory scores by its words: BM25 of its best passage, evened out for length.

Why the score is not BM25's own (`to_hit`). Its discount for length, b = 0.75, is fixed in tantivy, and is too little where
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


def to_hit(memory_id: MemoryId, found: Scored, exact_phrase: float, max_score: float, mean: float) -> TextHit:
    """Return a hit with its score evened out, and from that how much of the question was there, as if each word stood there once."""
    norm = 1 + length_norm(found.length, mean)
    coverage = min(1.0, found.score * norm / (max_score * (K1 + 1))) if max_score else 0.0
    evened = found.score * norm / (1 + length_norm(min(found.length, MAX_LENGTH * mean), mean))
    discount = max(1.0, found.length / FLAT_LENGTH) ** -LENGTH_ROOT * found.passages**-PASSAGES_ROOT
    return TextHit(memory_id, evened * discount, coverage, exact_phrase)
