"""Tables on a terminal: as wide as it is, whatever the script; colours where they are wanted."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infinite_memory.cli.terminal import printing_safely
from infinite_memory.cli.terminal_table import Column, cells_of, highlighted, write_line, write_table

COLUMNS = Column("n", is_number=True), Column("text", flexible=True), Column("tags", "magenta", max_width=8)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> pytest.CaptureFixture[str]:
    """What is drawn on a terminal of forty cells, without colours."""
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    return capsys


def test_a_text_is_folded_at_words_into_what_the_other_columns_leave(drawn: pytest.CaptureFixture[str]) -> None:
    write_table(COLUMNS, [("12", "the quick brown fox jumps over the lazy dog", "animals"), ("7", "tea", "")])
    assert drawn.readouterr().out.splitlines() == [
        " n  text                         tags",
        "─" * 40,
        "12  the quick brown fox jumps    animals",
        "    over the lazy dog",
        " 7  tea",
    ]


def test_letters_of_two_cells_and_of_none_keep_the_columns_straight(drawn: pytest.CaptureFixture[str]) -> None:
    write_table([Column("a"), Column("b")], [("日本語", "x"), ("e\u0301te\u0301", "y"), ("three", "z")])
    lines = drawn.readouterr().out.splitlines()
    assert [cells_of(line.rpartition(" ")[0]) for line in lines[2:]] == [7, 7, 7]


def test_a_word_that_is_too_long_is_cut_and_line_ends_stay(drawn: pytest.CaptureFixture[str]) -> None:
    write_table([Column("tags", max_width=4)], [([("abcdefg", ""), ("\n", ""), ("hi", "")],)])
    assert drawn.readouterr().out.splitlines()[2:] == ["abcd", "efg", "hi"]


def test_colours_are_written_only_where_they_are_wanted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with printing_safely():
        write_line(("a", "green"), ("b", ""), ("c", "bold yellow"))
    assert capsys.readouterr().out == "\x1b[32ma\x1b[0mb\x1b[1;33mc\x1b[0m\n"
    monkeypatch.setenv("TERM", "dumb")
    write_line(("a", "green"), ("b", ""))
    assert capsys.readouterr().out == "ab\n"


def test_words_stand_out_wherever_they_are() -> None:
    assert highlighted("A Ladder, ladders", ["ladder"]) == [
        ("A ", ""),
        ("Ladder", "bold yellow"),
        (", ", ""),
        ("ladder", "bold yellow"),
        ("s", ""),
    ]
    assert highlighted("İstanbul", ["stan"]) == [("İstanbul", "")]
    assert highlighted("", ["x"]) == []


@given(st.lists(st.tuples(st.text(st.characters(categories=("L", "N", "Zs", "So")), max_size=90), st.text("ab \n"))))
def test_no_line_is_wider_than_the_terminal_and_no_letter_is_lost(rows: list[tuple[str, str]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "40")
        patch.setenv("NO_COLOR", "1")
        written: list[str] = []
        patch.setattr(sys.stdout, "write", written.append)
        write_table([Column("text", flexible=True), Column("tags", max_width=8)], rows)
    drawn = "".join(written)
    assert all(cells_of(line) <= 40 for line in drawn.split("\n"))
    expected = "texttags" + "".join(text + tags for text, tags in rows)
    assert sorted("".join(drawn.replace("─", "").split())) == sorted("".join(expected.split()))
