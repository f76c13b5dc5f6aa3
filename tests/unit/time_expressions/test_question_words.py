"""A question without its time words either has a topic or only asks."""

from __future__ import annotations

import pytest

from infinite_memory.time_expressions.question_words import has_topic


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "  ?",
        "what did we discuss",
        "What did we talk about?",
        "tell me everything you remember from",
        "was haben wir besprochen",
        "qu'avons-nous dit",
        "de qué hablamos",
        "o que discutimos",
        "我们讨论了什么",
        "何を話しましたか",
    ],
)
def test_asking_alone_is_no_topic(rest: str) -> None:
    assert not has_topic(rest)


@pytest.mark.parametrize(
    "rest",
    [
        "what did we decide about the budget",
        "harbour",
        "was haben wir über das Budget besprochen",
        "qu'avons-nous dit du budget",
        "de qué hablamos con Marta",
        "o que discutimos sobre o orçamento",
        "我们讨论了预算吗",
        "予算について何を話しましたか",
        "what happened to v2.3",
    ],
)
def test_a_word_beside_the_asking_is_a_topic(rest: str) -> None:
    assert has_topic(rest)


def test_a_hostile_text_is_read_in_one_go() -> None:
    assert has_topic("x'" * 5000 + "話" * 5000)
