"""Ranks memories that are at hand by their own words: title and text, nothing else.

Why not the text index alone: it also searches by day, tags and the turn before, which helps a question and is wrong where a contract
promises that a match bears the words that were asked for. Here the candidates are few (what a caller may see), and all matches are
wanted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from infinite_memory.models import MemoryRecord
from infinite_memory.sidecar.stems import stems_of
from infinite_memory.sidecar.wording import content_words
from infinite_memory.sidecar.words import words_of

K1, B = 1.2, 0.75  # the usual constants of BM25
TITLE_WEIGHT = 2  # a word of the title counts as often as this many of the text
FULL_CHARS = 200_000  # of one text; beyond that it is not read for words


@dataclass(frozen=True, slots=True)
class WordMatch:
    """A memory that has at least one word of the query.

    ``score`` is BM25, ``coverage`` (0 to 1) the share of the query's words it has, rare ones counting more, ``has_all`` whether none
    lacks.
    """

    memory: MemoryRecord
    score: float
    coverage: float
    has_all: bool

    def confidence(self, best: float) -> float:
        """Give 0 to 1, four decimals; *best* is the highest score of the same search."""
        return round(min(1.0, self.coverage * (0.6 + 0.4 * self.score / best)), 4) if best else 0.0


def match_words(query: str, memories: Iterable[MemoryRecord]) -> list[WordMatch]:
    """Find the memories that have words of *query*, by falling score, equal ones by newer first.

    Words are compared by their stems; articles and auxiliaries count only in a query of nothing else.
    """
    words = words_of(query)
    asked = list(dict.fromkeys(stems_of(content_words(words) or words)))
    read = [(memory, _counts(memory)) for memory in memories]
    if not asked or not read:
        return []
    total = len(read)
    mean = sum(counts.total() for _, counts in read) / total
    rarity = {stem: _idf(sum(stem in counts for _, counts in read), total) for stem in asked}
    matches = [
        found for memory, counts in read if (found := _match(memory, counts, asked, rarity, mean or 1.0)) is not None
    ]
    matches.sort(key=lambda one: (one.memory.created_at, one.memory.memory_id), reverse=True)
    matches.sort(key=lambda one: -one.score)
    return matches


def searched_stems(query: str) -> list[str]:
    """List the stems of *query* that are no articles, auxiliaries and the like."""
    return list(dict.fromkeys(stems_of(content_words(words_of(query)))))


def _counts(memory: MemoryRecord) -> Counter[str]:
    counts = Counter(stems_of(words_of(memory.text[:FULL_CHARS])))
    if memory.title:
        for stem in stems_of(words_of(memory.title)):
            counts[stem] += TITLE_WEIGHT
    return counts


def _idf(having: int, total: int) -> float:
    return math.log(1 + (total - having + 0.5) / (having + 0.5))


def _match(
    memory: MemoryRecord, counts: Counter[str], asked: Sequence[str], rarity: Mapping[str, float], mean: float
) -> WordMatch | None:
    """Score one memory; None where it has none of the words asked for."""
    score = covered = 0.0
    found = 0
    for stem in asked:
        if frequency := counts[stem]:
            found += 1
            saturated = frequency * (K1 + 1) / (frequency + K1 * (1 - B + B * counts.total() / mean))
            score += rarity[stem] * saturated
            covered += rarity[stem]
    if not score:
        return None
    return WordMatch(memory, score, covered / sum(rarity.values()), found == len(asked))
