"""BM25: the formula, for everything that ranks by words, and a ranking of loaded memories by title and text only.

Why this ranking in addition to the text index: that also searches by day, tags and the previous turn, which helps a question but
is wrong where a contract promises that a match contains the words of the query. Here the candidates are few (those that a caller
may see), and all matches are wanted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from infinite_memory.models import MemoryRecord
from infinite_memory.text.offload import run_at_once_or_in_thread
from infinite_memory.text.stemmer import stem_words
from infinite_memory.text.stopwords import content_words
from infinite_memory.text.tokenizer import tokenize

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Lengths = TypeVar("Lengths", float, "NDArray[np.float64]")

K1, B = 1.2, 0.75  # the usual constants of BM25; tantivy has them too, hard-coded
TITLE_WEIGHT = 2  # a word in the title counts as this many in the text
FULL_CHARS = 200_000  # of one text; the rest is not tokenized


def inverse_document_frequency(frequency: int, total: int) -> float:
    """Return the IDF of a word that occurs in *frequency* of *total* texts."""
    return math.log(1 + (max(total, frequency) - frequency + 0.5) / (frequency + 0.5))


def length_norm(length: Lengths, mean_length: float) -> Lengths:
    """Return the length normalization of a text of *length* words, or of each of many texts."""
    return K1 * (1 - B + B * length / mean_length)


def saturated(count: float, norm: float) -> float:
    """Return the saturated frequency of a word that occurs *count* times in a text whose `length_norm` is *norm*."""
    return count * (K1 + 1) / (count + norm)


@dataclass(frozen=True, slots=True)
class WordMatch:
    """A memory that has at least one word of the query.

    ``score`` is BM25, ``coverage`` (0 to 1) the share of the query's words that it has, weighted by rarity, ``has_all`` whether it has
    all of them.
    """

    memory: MemoryRecord
    score: float
    coverage: float
    has_all: bool

    def confidence(self, best_score: float) -> float:
        """Return the confidence, 0 to 1 with four decimals; *best_score* is the highest score of the same search."""
        return round(min(1.0, self.coverage * (0.6 + 0.4 * self.score / best_score)), 4) if best_score else 0.0


async def match_words(query: str, memories: Iterable[MemoryRecord]) -> list[WordMatch]:
    """Find the memories that contain words of *query*, by descending score, then newest first.

    Words are compared by their stems; stop words count only in a query of nothing else. Large amounts of text are searched in a thread.
    """
    read = list(memories)
    return await run_at_once_or_in_thread((memory.text[:FULL_CHARS] for memory in read), lambda: _matches(query, read))


def _matches(query: str, memories: Sequence[MemoryRecord]) -> list[WordMatch]:
    words = tokenize(query)
    stems = list(dict.fromkeys(stem_words(content_words(words) or words)))
    read = [(memory, _counts(memory)) for memory in memories]
    if not stems or not read:
        return []
    total = len(read)
    mean = sum(counts.total() for _, counts in read) / total
    rarity = {stem: inverse_document_frequency(sum(stem in counts for _, counts in read), total) for stem in stems}
    matches = [
        hit for memory, counts in read if (hit := _match(memory, counts, stems, rarity, mean or 1.0)) is not None
    ]
    matches.sort(key=lambda match: (match.memory.created_at, match.memory.memory_id), reverse=True)
    matches.sort(key=lambda match: -match.score)
    return matches


def searched_stems(query: str) -> list[str]:
    """Return the stems of *query* without stop words."""
    return list(dict.fromkeys(stem_words(content_words(tokenize(query)))))


def _counts(memory: MemoryRecord) -> Counter[str]:
    counts = Counter(stem_words(tokenize(memory.text[:FULL_CHARS])))
    if memory.title:
        for stem in stem_words(tokenize(memory.title)):
            counts[stem] += TITLE_WEIGHT
    return counts


def _match(
    memory: MemoryRecord, counts: Counter[str], terms: Sequence[str], rarity: Mapping[str, float], mean: float
) -> WordMatch | None:
    """Score one memory; None if it has none of the words."""
    score = covered = 0.0
    matched, norm = 0, length_norm(counts.total(), mean)
    for stem in terms:
        if frequency := counts[stem]:
            matched += 1
            score += rarity[stem] * saturated(frequency, norm)
            covered += rarity[stem]
    if not score:
        return None
    return WordMatch(memory, score, covered / sum(rarity.values()), matched == len(terms))
