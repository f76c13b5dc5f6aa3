"""Which hits surely belong to a prompt: those that are ahead of the others and have its words."""

from __future__ import annotations

import datetime as dt

import pytest

from infinite_memory.engine.explanation import Explanation
from infinite_memory.engine.ranking import ScoreParts
from infinite_memory.hooks.relevance import JUDGED, asks, judge
from infinite_memory.models import Match, MemoryId, MemoryRecord, ScopeId

NOW = dt.datetime(2026, 11, 28, 12, 0, tzinfo=dt.UTC)
PROMPT = "Which port does the staging server listen on?"
RIGHT = "The staging server listens on port 8443."
NEAR = "The production database was moved on Friday."


def sure(
    *hits: tuple[str, float, float], prompt: str = PROMPT, confidence: float = 0.6, follows: int | None = None
) -> list[float]:
    """Judge hits, each a text with what it has of the words (0 to .4) and its cosine; one may have been said right after the first."""
    matches, explanations = [], {}
    for number, (text, words, cosine) in enumerate(hits):
        one = MemoryId(f"{number:024x}")
        memory = MemoryRecord(one, ScopeId("0" * 24), text, "claude-code", NOW, NOW, NOW, speaker="user", type="turn")
        matches.append(Match(memory, confidence))
        explanations[one] = Explanation(ScoreParts(0.5, words, 0.0, 0.0), number + 1, {}, cosine)
    followers = {} if follows is None else {matches[0].memory.memory_id: matches[follows].memory.memory_id}
    return [probability for _, probability in judge(prompt, matches, explanations, followers)]


def test_a_hit_that_is_ahead_and_has_the_words_is_sure_and_what_is_merely_near_is_not() -> None:
    first, second = sure((RIGHT, 0.4, 0.8), (NEAR, 0.2, 0.4))
    assert first > 0.8
    assert second < 0.2


def test_hits_that_are_level_are_less_sure_than_one_that_is_alone_ahead() -> None:
    level = sure((NEAR, 0.4, 0.5), (NEAR + " Twice.", 0.38, 0.49))
    ahead = sure((NEAR, 0.4, 0.5), (NEAR + " Twice.", 0.3, 0.3))
    assert level[0] < 0.5 < ahead[0]


def test_a_hit_is_surer_where_meaning_and_words_agree() -> None:
    rivals = ((NEAR, 0.2, 0.4), (NEAR + " Twice.", 0.2, 0.4))
    both, meaning, words = (sure((RIGHT, *own), *rivals)[0] for own in ((0.4, 0.7), (0.1, 0.7), (0.4, 0.3)))
    assert both > max(meaning, words)


def test_what_was_said_right_after_a_hit_is_no_rival_of_it() -> None:
    hits = ((RIGHT, 0.3, 0.6), ("It listens on 8443 since Monday.", 0.29, 0.59))
    alone, together = sure(*hits)[0], sure(*hits, follows=1)[0]
    assert alone < 0.7 < together


def test_where_little_is_stored_what_is_not_near_is_not_sure() -> None:
    assert sure((NEAR, 0.1, 0.2))[0] < 0.3
    assert sure((NEAR, 0.2, 0.2), (NEAR + " Twice.", 0.0, 0.0))[0] < 0.5
    assert sure((RIGHT, 0.4, 0.8))[0] > 0.8


def test_only_the_first_few_are_judged_and_none_for_none() -> None:
    assert len(sure(*[(f"{NEAR} {number}", 0.4 - number / 50, 0.4) for number in range(12)])) == JUDGED
    assert sure() == []
    assert sure((RIGHT, 0.4, 0.8), confidence=0.4) == []


def test_a_prompt_without_words_and_a_hit_without_a_cosine_are_judged_all_the_same() -> None:
    [probability] = sure((RIGHT, 0.0, 0.0), prompt="...")
    assert 0 <= probability < 0.75


@pytest.mark.parametrize(
    ("text", "is_question"),
    [
        ("Shall I?", True), ("要吗？", True), ("\u201cWhy?\u201d", True), ("What is it? [shares a photo]", True), ("Why? So.", False),
        ("", False),
    ],
)  # fmt: skip
def test_a_question_is_told_by_its_end(text: str, is_question: bool) -> None:
    memory = MemoryRecord(MemoryId("0" * 24), ScopeId("0" * 24), text, "x", NOW, NOW, NOW)
    assert asks(memory) is is_question
