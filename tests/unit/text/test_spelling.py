"""A misspelt word is taken for the nearest one that occurs."""

from __future__ import annotations

import pytest

from infinite_memory.text.spelling import Vocabulary

WORDS = ("group", "research", "identity", "caroline", "v5.57.59-rc7", "used", "tea")


@pytest.mark.parametrize(
    ("slip", "meant"),
    [
        ("grroup", "group"),
        ("reserach", "research"),
        ("idetity", "identity"),
        ("carolnie", "caroline"),
        ("v5.57.95-rc7", "v5.57.59-rc7"),
        ("rasearsh", "research"),
    ],
)
def test_slips_are_taken_for_the_nearest_word(slip: str, meant: str) -> None:
    assert [word for word, _ in Vocabulary(WORDS).nearest(slip)] == [meant]


def test_short_words_and_far_words_are_taken_for_nothing() -> None:
    vocabulary = Vocabulary(WORDS)
    assert vocabulary.nearest("tee") == []
    assert vocabulary.nearest("gruuup") == []
    assert vocabulary.nearest("zebra") == []


def test_words_added_later_are_known() -> None:
    vocabulary = Vocabulary(WORDS)
    vocabulary.nearest("warm up")
    vocabulary.add(["pottery"])
    assert vocabulary.nearest("potery") == [("pottery", 1)]
