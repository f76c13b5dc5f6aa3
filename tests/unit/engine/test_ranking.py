"""The order of candidates, and what it does not depend on."""

from __future__ import annotations

import pytest

from infinite_memory.engine.confidence import confidence_in
from infinite_memory.engine.ranking import Candidate, Scale, discounted, rank
from infinite_memory.models import MemoryId


def candidate(name: str, cosine: float | None = 0.0, words: float = 0.0, **more: object) -> Candidate:
    made = Candidate(MemoryId(name), cosine, words=words, coverage=min(1.0, words / 10))
    for key, value in more.items():
        setattr(made, key, value)
    return made


def names(candidates: list[Candidate], share: float = 0.6) -> list[str]:
    return [one.memory_id for one, _ in rank(candidates, Scale.of(candidates, share))]


def test_what_both_find_stands_before_what_one_finds() -> None:
    assert names([candidate("a", 0.8), candidate("b", 0.7, 9.0), candidate("c", 0.0, 10.0)])[0] == "b"


def test_the_order_does_not_depend_on_how_many_candidates_there_are() -> None:
    few = [candidate("a", 0.6, 5.0), candidate("b", 0.5, 8.0)]
    many = [*few, candidate("x", -0.2), candidate("y", 0.1, 0.5)]
    assert names(few) == names(many)[:2]


def test_a_letter_for_letter_match_stands_first_wherever_words_count() -> None:
    found = [candidate("near", 0.9, 3.0), candidate("exact", 0.1, 6.0, exact_phrase=1.0)]
    assert names(found)[0] == "exact"
    assert names(found, share=1.0)[0] == "near"


def test_a_memory_without_a_vector_is_found_by_its_words() -> None:
    assert names([candidate("pending", None, 10.0), candidate("noise", 0.1)])[0] == "pending"


def test_equal_scores_are_ordered_newer_first() -> None:
    assert names([candidate("01", 0.5), candidate("02", 0.5)]) == ["02", "01"]


def test_the_best_of_many_windows_is_discounted() -> None:
    assert discounted(0.5, 1) == 0.5
    assert discounted(0.5, 20) < discounted(0.5, 2) < 0.5


@pytest.mark.parametrize("cosine", [-0.2, 0.0, 0.4, 1.0, None])
def test_confidence_rises_with_evidence_falls_with_rank_and_stays_between_0_and_1(cosine: float | None) -> None:
    sure = [confidence_in(cosine, coverage, 0.0, 0) for coverage in (0.0, 0.3, 0.6, 1.0)]
    assert sure == sorted(sure)
    fall = [confidence_in(cosine, 0.5, 0.0, place) for place in range(10)]
    assert fall == sorted(fall, reverse=True)
    assert all(0.0 <= one <= 1.0 for one in sure + fall)
