"""Listings page by page."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infinite_memory.errors import InvalidRequestError
from infinite_memory.models import Filter, MemoryId
from infinite_memory.sidecar.faiss_sidecar import FaissSidecar
from tests.unit.sidecar.builders import make_row, make_sidecar, memory_id, scope_id


def all_pages(sidecar: FaissSidecar, limit: int, newest_first: bool) -> list[MemoryId]:
    found: list[MemoryId] = []
    cursor: str | None = None
    while True:
        page = sidecar.list_page(Filter(), limit, cursor, newest_first)
        assert page.total == sidecar.count(Filter())
        found += page.memory_ids
        if page.next_cursor is None:
            return found
        assert len(page.memory_ids) == limit
        cursor = page.next_cursor


@settings(max_examples=60, deadline=None)
@given(seconds=st.lists(st.integers(-3, 3), max_size=40), limit=st.integers(1, 12), newest_first=st.booleans())
def test_pages_together_are_the_whole_listing_in_order(seconds: list[int], limit: int, newest_first: bool) -> None:
    sidecar = make_sidecar(make_row(number, second=second) for number, second in enumerate(seconds))
    in_order = sorted((second, memory_id(number)) for number, second in enumerate(seconds))
    expected = [one for _, one in in_order]
    assert all_pages(sidecar, limit, newest_first) == (expected[::-1] if newest_first else expected)


@pytest.mark.parametrize("newest_first", [True, False])
def test_inserts_and_removals_between_pages_neither_repeat_nor_hide_others(newest_first: bool) -> None:
    sidecar = make_sidecar(make_row(number) for number in range(100, 160))
    expected = [memory_id(number) for number in range(100, 160)]
    found: list[MemoryId] = []
    cursor: str | None = None
    for step in range(6):
        page = sidecar.list_page(Filter(), 10, cursor, newest_first)
        found += page.memory_ids
        cursor = page.next_cursor
        earlier = 200 + step if newest_first else 50 - step
        sidecar.upsert([make_row(earlier)])
        sidecar.remove([found[-1], memory_id(earlier - 1)])
    assert cursor is None
    assert found == (expected[::-1] if newest_first else expected)


def test_a_cursor_serves_in_a_url_and_does_not_depend_on_the_filter() -> None:
    sidecar = make_sidecar(make_row(number, scope=number % 2) for number in range(20))
    cursor = sidecar.list_page(Filter(), 5, None, newest_first=False).next_cursor
    assert cursor is not None
    assert re.fullmatch(r"[A-Za-z0-9_-]+", cursor)
    page = sidecar.list_page(Filter(scope_ids=frozenset({scope_id(1)})), 3, cursor, newest_first=False)
    assert page.memory_ids == (memory_id(5), memory_id(7), memory_id(9))


@pytest.mark.parametrize("cursor", ["", "x", "AAAA", "ä" * 34, "A" * 34, "A" * 5000, "\x00"])
def test_a_cursor_made_elsewhere_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidRequestError, match="cursor"):
        make_sidecar([make_row(1)]).list_page(Filter(), 5, cursor, newest_first=False)


def test_an_altered_cursor_is_refused() -> None:
    sidecar = make_sidecar(make_row(number) for number in range(20))
    cursor = sidecar.list_page(Filter(), 5, None, newest_first=False).next_cursor
    assert cursor is not None
    for at, letter in enumerate(cursor[:-1]):
        altered = cursor[:at] + ("B" if letter == "A" else "A") + cursor[at + 1 :]
        with pytest.raises(InvalidRequestError):
            sidecar.list_page(Filter(), 5, altered, newest_first=False)


def test_a_cursor_of_the_other_direction_is_refused() -> None:
    sidecar = make_sidecar(make_row(number) for number in range(20))
    cursor = sidecar.list_page(Filter(), 5, None, newest_first=False).next_cursor
    with pytest.raises(InvalidRequestError, match="direction"):
        sidecar.list_page(Filter(), 5, cursor, newest_first=True)


def test_a_page_without_room_still_tells_the_total() -> None:
    page = make_sidecar(make_row(number) for number in range(3)).list_page(Filter(), 0, None, newest_first=True)
    assert (page.memory_ids, page.total) == ((), 3)


def test_turns_are_a_sequence_whose_ids_are_written_when_asked_for() -> None:
    sidecar = make_sidecar(make_row(number, second=-number, conversation_id="c") for number in range(5))
    turns, expected = sidecar.turns(), [memory_id(number) for number in (4, 3, 2, 1, 0)]
    assert (list(turns), len(turns)) == (expected, 5)
    assert (turns[0], turns[-1], turns[1:3]) == (expected[0], expected[-1], expected[1:3])
    with pytest.raises(IndexError):
        turns[5]
