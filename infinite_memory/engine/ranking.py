"""Puts candidates in order: nearness in meaning and in words on one scale, and a lift for what the question names and for what their
conversations say (`turns`).

Why the parts are divided by their best and not spread between best and worst: the worst depends on how many
candidates were looked at, the best does not; on two public sets pools of 30 and of everything then give the same
order. Why the constants: each stands in the middle of a plateau where its neighbours differ by less than a point on
both sets.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from infinite_memory.engine.turns import Spoken, find_evidence
from infinite_memory.index.base import Neighbours
from infinite_memory.models import MemoryId

MEANING_SHARE = 0.6  # of meaning against words in a hybrid recall; 0.5 to 0.7 are alike
SECOND_MEANING_SHARE = 0.55  # the same where the second model reads the question; 0.5 and 0.6 differ by a point at most
TAG_LIFT = 0.3  # for bearing a tag that the question names; 0.2 to 0.4 are alike
WINDOW_DISCOUNT = 0.06  # the best of n windows is a luckier draw than one: cosine less this for each e-fold of windows
MAX_DISCOUNT = 0.12  # reached at eight windows; more was measured to change nothing where texts have that many, and hides longer ones
MIN_COSINE = 0.3  # a best cosine under this is noise and is not blown up to full size
MIN_COVERAGE = 0.3  # the same for words: a best match with less than this share of the question


@dataclass(slots=True)
class Candidate:
    """One memory that may answer, and what speaks for it.

    ``cosine`` is discounted for windows, and on the scale of the first space where it is of the second; None without a vector.
    ``turn`` tells what was said beside it, where that is to count; ``is_short`` that it fits one window of the first model;
    ``is_addressed`` that the question asks about its speaker.
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
    """What a candidate's score is the sum of."""

    meaning: float
    words: float
    tag: float
    exact_phrase: float
    conversation: float = 0.0

    @property
    def total(self) -> float:
        """The score itself."""
        return round(self.meaning + self.words + self.tag + self.exact_phrase + self.conversation, 9)


@dataclass(frozen=True, slots=True)
class Scale:
    """What brings the candidates of one search to one scale: their best cosine and their best words, what each kind weighs,
    and what conversations add."""

    meaning_share: float
    cosine_unit: float
    words_unit: float
    lifts: Mapping[MemoryId, float] = field(default_factory=dict)

    @classmethod
    def of(cls, candidates: Sequence[Candidate], meaning_share: float) -> Scale:
        """Take the measure of *candidates*; they may stand in any order.

        Args:
            candidates: All of a search.
            meaning_share: 1 for meaning alone, 0 for words alone.
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
        return dataclasses.replace(scale, lifts={one: found.lift for one, found in evidence.items()})

    def to_spoken(self, candidates: Sequence[Candidate]) -> list[Spoken]:
        """Return those of *candidates* that belong to a conversation, with what speaks for each alone."""
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
        """Return how near a candidate is in meaning and in words, each as a share of the best."""
        meaning = max(0.0, candidate.cosine or 0.0) / self.cosine_unit
        return meaning, candidate.words / self.words_unit if self.words_unit else 0.0

    def _weighted(self, candidate: Candidate) -> tuple[float, float, float, float, float]:
        meaning, words = self._near(candidate)
        # A letter-for-letter match is of words: it counts wherever words do.
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
    """Take off what the best of several windows owes to their number."""
    if windows <= 1:  # nearly all
        return cosine
    return cosine - min(MAX_DISCOUNT, WINDOW_DISCOUNT * math.log(windows))


def rank(candidates: Iterable[Candidate], scale: Scale) -> list[tuple[Candidate, float]]:
    """Order candidates by falling score, equal ones by newer id first; *scale* is theirs."""
    scored = [(candidate, scale.score(candidate)) for candidate in candidates]
    scored.sort(key=lambda pair: pair[0].memory_id, reverse=True)
    scored.sort(key=lambda pair: -pair[1])
    return scored
