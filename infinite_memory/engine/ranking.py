"""Ranks candidates: vector and keyword scores on one scale, plus boosts for named tags and for evidence from the conversation
(`turns`).

Why scores are divided by the best one and not min-max normalised: the worst depends on the number of candidates, the best does not; on
two public data sets pools of 30 and of everything then give the same order. Why the constants: each is in the middle of a plateau whose
values differ by less than a percentage point on both sets.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from infinite_memory.engine.turns import Spoken, find_evidence
from infinite_memory.index.base import Neighbours
from infinite_memory.models import MemoryId

MEANING_SHARE = 0.6  # weight of vector score against keyword score in a hybrid recall; 0.5 to 0.7 perform alike
SECOND_MEANING_SHARE = 0.55  # the same if the second model reads the question; 0.5 and 0.6 differ by a point at most
TAG_LIFT = 0.3  # boost for a tag that the question names; 0.2 to 0.4 perform alike
WINDOW_DISCOUNT = 0.06  # the best of n windows is higher by chance: subtracted from the cosine per e-fold of windows
MAX_DISCOUNT = 0.12  # reached at eight windows; more does not help with texts that long, and hides longer ones
MIN_COSINE = 0.3  # a best cosine below this is noise and is not scaled up to 1
MIN_COVERAGE = 0.3  # the same for keywords: a best match with less than this share of the question's words


@dataclass(slots=True)
class Candidate:
    """One memory that may answer, with its evidence.

    ``cosine`` is discounted for windows, and converted to the scale of the first space if from the second; None without a vector.
    ``turn`` has its neighbours in the conversation, if these count; ``is_short``: it fits one window of the first model;
    ``is_addressed``: the question asks about its speaker.
    """

    memory_id: MemoryId
    cosine: float | None = None
    windows: int = 1
    words: float = 0.0
    coverage: float = 0.0
    exact_phrase: float = 0.0
    boosted: bool = False
    is_second: bool = False
    turn: Neighbours | None = None
    is_short: bool = True
    is_addressed: bool = False


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """The parts whose sum is a candidate's score."""

    meaning: float
    words: float
    tag: float
    exact_phrase: float
    conversation: float = 0.0

    @property
    def total(self) -> float:
        """The score."""
        return round(self.meaning + self.words + self.tag + self.exact_phrase + self.conversation, 9)


@dataclass(frozen=True, slots=True)
class Scale:
    """The common scale of one search's candidates.

    It consists of their best cosine and best keyword score, the weight of each kind, and the boosts from conversations.
    """

    meaning_share: float
    cosine_unit: float
    words_unit: float
    lifts: Mapping[MemoryId, float] = field(default_factory=dict)

    @classmethod
    def of(cls, candidates: Sequence[Candidate], meaning_share: float) -> Scale:
        """Return the scale of *candidates*, which may be in any order.

        Args:
            candidates: All candidates of a search.
            meaning_share: 1 for vectors only, 0 for keywords only.
        """
        best_cosine = max((candidate.cosine for candidate in candidates if candidate.cosine is not None), default=0.0)
        best_words = max(candidates, key=lambda candidate: candidate.words, default=None)
        words_unit = 0.0
        if best_words is not None and best_words.words > 0:
            words_unit = best_words.words * max(1.0, MIN_COVERAGE / max(best_words.coverage, 1e-6))
        scale = cls(meaning_share, max(best_cosine, MIN_COSINE), words_unit)
        if not 0 < meaning_share < 1:
            return scale
        evidence = find_evidence(scale.to_spoken(candidates))
        return dataclasses.replace(
            scale, lifts={memory_id: memory_evidence.lift for memory_id, memory_evidence in evidence.items()}
        )

    def to_spoken(self, candidates: Sequence[Candidate]) -> list[Spoken]:
        """Return those of *candidates* that belong to a conversation, each with its own scores."""
        return [
            Spoken(
                candidate.memory_id,
                candidate.turn,
                candidate.is_short,
                *self._near(candidate),
                sum(self._weighted(candidate)[:2]),
                candidate.is_addressed,
            )
            for candidate in candidates
            if candidate.turn is not None
        ]

    def parts(self, candidate: Candidate) -> ScoreParts:
        """Return the parts of a candidate's score."""
        return ScoreParts(*self._weighted(candidate))

    def score(self, candidate: Candidate) -> float:
        """Return the sum of a candidate's parts."""
        return round(sum(self._weighted(candidate)), 9)

    def _near(self, candidate: Candidate) -> tuple[float, float]:
        """Return the vector and keyword scores of a candidate, each relative to the best."""
        meaning = max(0.0, candidate.cosine or 0.0) / self.cosine_unit
        return meaning, candidate.words / self.words_unit if self.words_unit else 0.0

    def _weighted(self, candidate: Candidate) -> tuple[float, float, float, float, float]:
        meaning, words = self._near(candidate)
        # A verbatim match is keyword evidence: it counts wherever keywords do.
        letters = candidate.exact_phrase if self.meaning_share < 1 else 0.0
        lift = self.lifts.get(candidate.memory_id, 0.0)
        return (
            self.meaning_share * meaning,
            (1 - self.meaning_share) * words,
            TAG_LIFT * candidate.boosted,
            letters,
            lift,
        )


def discounted(cosine: float, windows: int) -> float:
    """Return a cosine discounted for the number of windows it is the best of."""
    if windows <= 1:  # the usual case
        return cosine
    return cosine - min(MAX_DISCOUNT, WINDOW_DISCOUNT * math.log(windows))


def rank(candidates: Iterable[Candidate], scale: Scale) -> list[tuple[Candidate, float]]:
    """Return candidates by descending score, ties by newer id first; *scale* is theirs."""
    scored = [(candidate, scale.score(candidate)) for candidate in candidates]
    scored.sort(key=lambda pair: pair[0].memory_id, reverse=True)
    scored.sort(key=lambda pair: -pair[1])
    return scored
