"""What turns of a conversation add to each other's scores."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from infinite_memory.engine.ranking import Candidate, Scale, rank
from infinite_memory.engine.turns import (
    ADDRESSED,
    AFTER,
    ASSISTANT,
    BEFORE,
    CONVERSATION,
    SPEAKING,
    USER,
    Spoken,
    find_addressed,
    find_evidence,
)
from infinite_memory.index.base import Neighbours
from infinite_memory.models import MemoryId


def find_lifts(candidates: Sequence[Spoken]) -> dict[str, float]:
    return {one: evidence.lift for one, evidence in find_evidence(candidates).items()}


def turn(name: str, before: str | None = None, after: str | None = None, talk: str = "talk") -> Neighbours:
    return Neighbours(*(MemoryId(one) if one is not None else None for one in (before, after)), talk)


def spoken(name: str, place: Neighbours, words: float = 0.0, score: float = 0.0, *, is_short: bool = True) -> Spoken:
    return Spoken(MemoryId(name), place, is_short, meaning=score, words=words, score=score)


def test_a_page_takes_no_words_from_beside_it_and_lends_none() -> None:
    for is_short in (True, False):
        lifts = find_lifts(
            [
                spoken("ask", turn("ask", after="page"), words=1.0),
                spoken("page", turn("page", "ask", "thanks"), words=1.0, is_short=is_short),
                spoken("thanks", turn("thanks", "page")),
            ]
        )
        assert [one > 0 for one in lifts.values()] == [is_short, is_short, is_short]


def test_the_words_of_the_turns_beside_it_lift_a_turn() -> None:
    lifts = find_lifts(
        [
            spoken("ask", turn("ask", after="answer"), words=1.0),
            spoken("answer", turn("answer", "ask", "thanks")),
            spoken("thanks", turn("thanks", "answer"), words=0.5),
        ]
    )
    assert lifts["answer"] == pytest.approx(BEFORE * 1.0 + AFTER * 0.5)
    assert lifts["ask"] == lifts["thanks"] == 0


def test_the_best_other_turn_of_its_conversation_lifts_a_turn_and_none_lifts_itself() -> None:
    lifts = find_lifts(
        [
            spoken("first", turn("first"), score=0.9),
            spoken("second", turn("second"), score=0.4),
            spoken("alone", turn("alone", talk="another"), score=0.8),
        ]
    )
    assert lifts["first"] == pytest.approx(CONVERSATION * 0.4)
    assert lifts["second"] == pytest.approx(CONVERSATION * 0.9)
    assert lifts["alone"] == 0


def test_a_turn_that_was_not_found_says_nothing() -> None:
    lifts = find_lifts([spoken("answer", turn("answer", "hidden", "gone"), words=0.2)])
    assert lifts == {"answer": 0.0}


def test_lifts_do_not_depend_on_how_many_candidates_there_are() -> None:
    few = [
        spoken(f"{number:03}", turn(f"{number:03}", f"{number + 1:03}"), words=1 - number / 200, score=1 - number / 200)
        for number in range(SPEAKING)
    ]
    more = [
        spoken(f"{number:03}", turn(f"{number:03}"), words=1 - number / 200, score=1 - number / 200)
        for number in range(SPEAKING, 3 * SPEAKING)
    ]
    assert find_lifts(few).items() <= find_lifts([*more, *few]).items()


def conversation() -> list[Candidate]:
    return [
        Candidate(MemoryId("ask"), 0.5, words=10.0, coverage=1.0, turn=turn("ask", after="answer")),
        Candidate(MemoryId("answer"), 0.4, words=1.0, coverage=0.1, turn=turn("answer", "ask")),
        Candidate(MemoryId("other"), 0.5, words=1.0, coverage=0.1),
    ]


def test_a_turn_stands_before_a_memory_of_no_conversation_by_what_was_said_before_it() -> None:
    assert [one.memory_id for one, _ in rank(conversation(), Scale.of(conversation(), 0.6))] == [
        "ask",
        "answer",
        "other",
    ]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_by_meaning_or_words_alone_conversations_add_nothing(share: float) -> None:
    scale = Scale.of(conversation(), share)
    assert [scale.parts(one).conversation for one in conversation()] == [0, 0, 0]


def test_the_parts_add_up_to_the_score_with_the_conversation_among_them() -> None:
    scale = Scale.of(conversation(), 0.6)
    for one in conversation():
        assert scale.parts(one).total == scale.score(one)
    assert scale.parts(conversation()[1]).conversation > 0


@pytest.mark.parametrize(
    ("question", "whom"),
    [
        ("When does my first sprint end?", USER),
        ("which deadline was agreed for the review", USER),
        ("What did you recommend for the kitchen?", ASSISTANT),
        ("What have you already told me about tides?", ASSISTANT),
        ("the book that you’ve mentioned", ASSISTANT),
        ("the approach that you suggested for the garden", ASSISTANT),
        ("Your advice on the loan, please", ASSISTANT),
        ("what the assistant said about yeast", ASSISTANT),
        ("Can you write a test for the parser?", None),
        ("Do you know when my train leaves?", None),
    ],
)
def test_a_question_asks_about_the_user_unless_it_asks_what_the_assistant_said(question: str, whom: str | None) -> None:
    assert find_addressed(question) == whom


def test_a_turn_of_the_one_who_is_asked_about_is_lifted() -> None:
    said = spoken("said", turn("said", talk="one"))
    answered = spoken("answered", turn("answered", talk="two"))
    assert find_lifts([said._replace(is_addressed=True), answered]) == {"said": ADDRESSED, "answered": 0.0}
