"""What is the same fact, and what only looks like it."""

from __future__ import annotations

import pytest

from infinite_memory.text.equivalence import exact_key, say_the_same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The router address is 192.0.2.7", "The router address is 192.0.2.9"),
        ("Meeting moved to 3 May", "Meeting moved to 8 May"),
        ("meet at 5", "meet at 6"),
        ("Do NOT restart the pump", "Do restart the pump"),
        ("Don't call Ada", "Do call Ada"),
        ("Ada owes Ben ten euros", "Ben owes Ada ten euros"),
        ("Ada likes tea", "Eva likes tea"),
        ("turn the pump on", "turn the pump off"),
        ("it costs -5", "it costs 5"),
        ("it costs $5", "it costs €5"),
        ("written in C++", "written in C"),
        ("we meet on Monday?", "we meet on Monday"),
        ("three cats", "two cats"),
        ("er hat ein Kind", "er hat kein Kind"),
        ("elle mange", "elle ne mange pas"),
        ("ver 3.5", "ver 35"),
        ("会議は月曜日", "会議は火曜日"),
        ("1 item", "1 items of 10"),
        ("!!!", "???"),
    ],
)
def test_these_are_two_facts(one: str, other: str) -> None:
    assert not say_the_same(one, other)
    assert not say_the_same(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The meeting is at 5", "meeting at 5"),
        ("Please water the roses.", "water the rose"),
        ("the  cellar key: hangs in the hall", "The cellar key hangs in the hall!"),
        ("caf\u00e9 on Main Street", "cafe\u0301 on Main Street"),
        ("", " "),
    ],
)
def test_these_are_one_fact(one: str, other: str) -> None:
    assert say_the_same(one, other)
    assert say_the_same(other, one)


def test_exact_texts_differ_in_white_space_only() -> None:
    assert exact_key(" a\n b") == exact_key("a b")
    assert exact_key("A b") != exact_key("a b")
