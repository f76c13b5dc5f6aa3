"""What is taken out of a summary: the lines of the turns that were forgotten, and no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infinite_memory.engine.summary_quotes import without_turns

LINE = st.sampled_from(["", "a", "b", "ab"])


@pytest.mark.parametrize(
    ("summary", "turns", "left"),
    [
        ("one\ntwo\nthree", ["two"], "one\nthree"),
        ("one\ntwo\nthree", ["one\ntwo"], "three"),
        ("one\none\ntwo", ["one"], "two"),
        ("one\ntwo", ["one\ntwo"], ""),
        ("one two\ntwo", ["two"], "one two"),
        ("one\n\ntwo\nthree", ["one\n\ntwo"], "three"),
        ("one\n\n\ntwo", ["three"], "one\n\n\ntwo"),
        ("a\nb\na\nb", ["a\nb\na"], "b"),
    ],
)
def test_the_lines_of_turns_go_and_nothing_else(summary: str, turns: list[str], left: str) -> None:
    assert without_turns(summary, turns) == left


@given(st.lists(LINE, min_size=1, max_size=12), st.lists(LINE, min_size=1, max_size=4).filter(any))
def test_one_turn_goes_wherever_it_stands_line_by_line(lines: list[str], turn: list[str]) -> None:
    left, at = [], 0
    while at < len(lines):
        if lines[at : at + len(turn)] == turn:
            at += len(turn)
        else:
            left.append(lines[at])
            at += 1
    assert without_turns("\n".join(lines), ["\n".join(turn)]) == "\n".join(left)
