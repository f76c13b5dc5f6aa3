"""What every `VectorIndex` must do; runs over all implementations, each as it was written and as it was saved and loaded."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools
import math
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infinite_memory.errors import InvalidRequestError, SidecarError, SidecarNotReadyError
from infinite_memory.index.base import ImportanceDecay, Neighbours, VectorIndex, VectorIndexFiles
from infinite_memory.index.batches import in_columns
from infinite_memory.models import Filter, IndexRow, MemoryId, TimeRange, fold
from tests.processes import LONG
from tests.unit.index import filter_cases
from tests.unit.index.builders import (
    DATABASE,
    DIM,
    SPACE,
    START,
    make_pending_row,
    make_row,
    make_varied_rows,
    memory_id,
    revisions,
    scope_id,
    unit_vectors,
)
from tests.unit.index.filter_cases import ARCHIVED, FILTERS, HOSTILE, ROWS

EVERYTHING = Filter()
QUERY = unit_vectors(4321, 1)[0]
NOW = START + dt.timedelta(days=30)
DECAY = ImportanceDecay(NOW, full=10.0, unset=0.5, half_life_days=90.0, lasting_share=0.5)

Make = Callable[[Iterable[IndexRow]], VectorIndex]


@pytest.fixture
def files(open_vector_files: Callable[[Path], VectorIndexFiles], tmp_path: Path) -> VectorIndexFiles:
    return open_vector_files(tmp_path / "index")


@pytest.fixture(params=["as written", "loaded"])
def make(request: pytest.FixtureRequest, files: VectorIndexFiles) -> Iterator[Make]:
    """Return what makes an index of rows; in half of the tests it was saved and loaded since."""
    opened: list[VectorIndex] = []

    def filled(rows: Iterable[IndexRow] = ()) -> VectorIndex:
        index = files.create(SPACE, DIM)
        index.upsert(rows)
        if request.param == "loaded":
            files.save(index, DATABASE, b"token")
            index.close()
            index, _ = files.load(DATABASE, SPACE, DIM)
        opened.append(index)
        return index

    yield filled
    for index in opened:
        index.close()


def listed(index: VectorIndex, where: Filter = EVERYTHING) -> list[MemoryId]:
    return list(index.list_page(where, 10_000, None, newest_first=False).memory_ids)


def nearest(index: VectorIndex, where: Filter = EVERYTHING, k: int = 10_000) -> list[MemoryId]:
    return [hit.memory_id for hit in index.search(QUERY, k, where)]


def ids(*numbers: int) -> list[MemoryId]:
    return list(map(memory_id, numbers))


# writing


def test_what_was_written_is_found_by_the_next_call(make: Make) -> None:
    index = make([make_row(1)])
    index.upsert([make_row(2, scope=5, tags=["new"])])
    assert listed(index) == ids(1, 2)
    assert set(nearest(index)) == set(ids(1, 2))
    assert listed(index, Filter(tag_keys=frozenset({"new"}))) == ids(2)
    assert index.locate(ids(1, 2, 3)) == {memory_id(1): scope_id(0), memory_id(2): scope_id(5)}


def test_a_newer_revision_replaces_and_an_older_or_equal_one_changes_nothing(make: Make) -> None:
    index = make([make_row(1, revision=2, tags=["second"])])
    index.upsert([make_row(1, revision=1, tags=["first"]), make_row(1, revision=2, tags=["again"])])
    assert [len(listed(index, Filter(tag_keys=frozenset({tag})))) for tag in ("first", "second", "again")] == [0, 1, 0]
    index.upsert([make_row(1, revision=3, scope=7, tags=["third"], vectors=unit_vectors(500, 1))])
    assert [len(listed(index, Filter(tag_keys=frozenset({tag})))) for tag in ("second", "third")] == [0, 1]
    assert index.count_by_scope() == {scope_id(7): 1}
    assert index.search(unit_vectors(500, 1)[0], 5, EVERYTHING)[0].score == pytest.approx(1, abs=1e-3)
    assert revisions(index) == {memory_id(1): 3}


def test_of_rows_of_one_memory_in_one_call_the_newest_stays(make: Make) -> None:
    index = make(make_row(1, revision=revision, tags=[f"r{revision}"]) for revision in (2, 5, 3, 5))
    assert (index.count(EVERYTHING), listed(index, Filter(tag_keys=frozenset({"r5"})))) == (1, ids(1))


def test_a_removed_memory_is_found_nowhere_and_can_come_back(make: Make) -> None:
    index = make(make_row(number, tags=["t"]) for number in range(5))
    index.remove([*ids(2, 77), MemoryId("nonsense")])
    assert listed(index, Filter(tag_keys=frozenset({"t"}))) == ids(0, 1, 3, 4)
    assert set(nearest(index)) == set(revisions(index)) == set(ids(0, 1, 3, 4))
    assert index.locate(ids(2, 3)) == {memory_id(3): scope_id(0)}
    assert index.get_revisions(ids(1, 2)) == {memory_id(1): 1}
    index.upsert([make_row(2)])
    assert index.count(EVERYTHING) == 5


def test_a_removed_scope_takes_its_memories_along_and_no_others(make: Make) -> None:
    index = make(make_row(number, scope=number % 3) for number in range(30))
    index.remove_scope(scope_id(1))
    index.remove_scope(scope_id(99))
    assert index.count_by_scope() == {scope_id(0): 10, scope_id(2): 10}
    assert len(nearest(index)) == 20
    index.upsert([make_row(100, scope=1)])
    assert index.count_by_scope()[scope_id(1)] == 1


def test_memories_of_a_scope_that_moves_are_never_in_two_scopes_and_are_all_there_in_the_end(make: Make) -> None:
    index = make(make_row(number, scope=number % 3, tags=[f"t{number}"]) for number in range(9))
    index.move_scope(scope_id(1), scope_id(2))
    index.move_scope(scope_id(99), scope_id(2))
    before, after = (listed(index, Filter(scope_ids=frozenset({scope_id(one)}))) for one in (1, 2))
    assert sorted(before + after) == ids(1, 2, 4, 5, 7, 8)  # at once, or with their new revisions
    index.upsert(make_row(number, scope=2, revision=2, tags=[f"t{number}"]) for number in (1, 4, 7))
    assert index.count_by_scope() == {scope_id(0): 3, scope_id(2): 6}
    assert listed(index, Filter(scope_ids=frozenset({scope_id(2)}), tag_keys=frozenset({"t4"}))) == ids(4)
    assert listed(index, Filter(scope_ids=frozenset({scope_id(1)}))) == []
    assert len(nearest(index)) == 9


def test_a_batch_is_taken_in_as_rows_one_by_one_are(make: Make) -> None:
    drawn = np.random.default_rng(5).integers(0, 40, (300, 2)).tolist()
    rows = [
        make_pending_row(number, revision=revision % 4)
        if revision % 5 == 0
        else make_row(number, revision=revision % 4, tags=[f"t{revision}"], conversation_id=f"Talk {revision % 3}")
        for number, revision in drawn
    ]
    one_by_one = make([])
    for row in rows:
        one_by_one.upsert([row])
    expected = everything(one_by_one)
    together = make([])
    for batch in in_columns(rows, 7):
        together.upsert_batch(batch)
    assert everything(together) == expected


def test_an_id_that_is_none_is_refused_and_named(make: Make) -> None:
    with pytest.raises(ValueError, match="'xyz'"):
        make([]).upsert([dataclasses.replace(make_row(1), memory_id=MemoryId("xyz"))])


def test_ids_that_end_in_zeros_are_told_apart(make: Make) -> None:
    names = [MemoryId("aa" * 12), MemoryId("aa" * 11 + "00"), MemoryId("aa" * 10 + "0000"), MemoryId("00" * 12)]
    index = make(dataclasses.replace(make_row(number), memory_id=one) for number, one in enumerate(names))
    assert set(revisions(index)) == set(names)
    index.remove([names[1]])
    assert set(index.locate(names)) == {names[0], names[2], names[3]}


def everything(index: VectorIndex) -> list[object]:
    """Return an answer of every method that reads."""
    known = sorted(revisions(index))
    return [
        index.search(QUERY, 50, EVERYTHING),
        index.search(QUERY, 50, Filter(tag_keys=frozenset({"t1"}))),
        index.list_page(EVERYTHING, 100, None, newest_first=True),
        index.top_by_weight(EVERYTHING, 20, DECAY),
        index.count(EVERYTHING),
        index.count_by_scope(),
        index.count_conversations(EVERYTHING),
        list(index.pending(1000)),
        index.count_pending(),
        dict(index.locate(known)),
        dict(index.neighbours(known)),
        revisions(index),
    ]


# filters


@pytest.fixture(scope="module")
def filled(
    open_vector_files: Callable[[Path], VectorIndexFiles], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VectorIndex]:
    """Return an index of `ROWS` that was filled in three steps, with rows that came twice and rows that went."""
    index = open_vector_files(tmp_path_factory.mktemp("filled") / "index").create(SPACE, DIM)
    index.upsert(make_row(number, tags=["red"], source="old", revision=0) for number in range(0, 140, 2))
    index.upsert(ROWS)
    index.remove(memory_id(number) for number in range(120, 140))
    index.set_archived(ARCHIVED)
    yield index
    index.close()


@settings(max_examples=300 if LONG else 40, deadline=None)
@given(where=FILTERS)
def test_a_filter_lets_through_what_its_parts_say(filled: VectorIndex, where: Filter) -> None:
    expected = {row.memory_id: row for row in ROWS if filter_cases.passes(row, where)}
    conversations = {fold(row.conversation_id) for row in expected.values() if row.conversation_id is not None}
    page = filled.list_page(where, 1000, None, newest_first=False)
    assert list(page.memory_ids) == sorted(expected, key=lambda one: (expected[one].occurred_at, one))
    assert (page.total, page.next_cursor) == (len(expected), None)
    assert filled.count(where) == len(expected)
    assert filled.count_conversations(where) == len(conversations)
    assert set(nearest(filled, where)) == set(expected)
    assert set(filled.top_by_weight(where, 1000, DECAY)) == set(expected)


def test_a_time_range_is_half_open_to_the_millisecond(make: Make) -> None:
    index = make(make_row(number) for number in range(3))
    cases = [(0, 1000, [0]), (0, 1001, [0, 1]), (1, 2000, [1]), (1000, 1000, []), (None, 1, [0]), (2000, None, [2])]
    for start_ms, end_ms, expected in cases:
        start, end = (None if ms is None else START + dt.timedelta(milliseconds=ms) for ms in (start_ms, end_ms))
        assert listed(index, Filter(time=TimeRange(start, end))) == ids(*expected), (start_ms, end_ms)


def test_ends_between_two_milliseconds_and_before_1970_count_exactly(make: Make) -> None:
    long_ago = -dt.timedelta(days=200 * 365).total_seconds()
    index = make([make_row(1, second=long_ago)])
    instant, moment = START + dt.timedelta(seconds=long_ago), dt.timedelta(microseconds=1)
    assert index.count(Filter(time=TimeRange(instant, instant + moment))) == 1
    assert index.count(Filter(time=TimeRange(instant - moment, instant))) == 0
    assert index.count(Filter(time=TimeRange(instant + moment, None))) == 0


def test_archived_scopes_are_left_out_unless_named(make: Make) -> None:
    index = make([make_row(1, scope=1), make_row(2, scope=2)])
    index.set_archived([scope_id(2), scope_id(9)])
    assert (listed(index), nearest(index)) == (ids(1), ids(1))
    assert index.count(Filter(scope_ids=frozenset({scope_id(2)}))) == 1
    assert index.count_by_scope() == {scope_id(1): 1, scope_id(2): 1}
    index.set_archived([])
    assert index.count(EVERYTHING) == 2


def test_a_stored_confidence_equal_to_the_least_wanted_passes(make: Make) -> None:
    index = make([make_row(1, confidence=0.1 + 0.2)])
    assert index.count(Filter(min_stored_confidence=0.1 + 0.2)) == 1
    assert index.count(Filter(min_stored_confidence=0.31)) == 0


def test_a_filter_of_many_ids_loses_none(make: Make) -> None:
    index = make(make_row(number) for number in range(3000))
    wanted = frozenset(map(memory_id, range(0, 3000, 2)))
    assert set(nearest(index, Filter(memory_ids=wanted))) == wanted
    assert index.count(Filter(memory_ids=wanted)) == 1500


def test_any_text_is_matched_as_it_is_and_as_nothing_else(make: Make) -> None:
    hostile = [
        make_row(number, tags=[text], source=text, type=text, speaker=text, conversation_id=text)
        for number, text in enumerate(HOSTILE)
    ]
    index = make([*hostile, make_row(len(HOSTILE))])
    for number, text in enumerate(HOSTILE):
        for where in filter_cases.filters_of_text(text):
            assert listed(index, where) == nearest(index, where) == ids(number), text
        assert text in index.tags(0, 100)
        assert listed(index, Filter(tag_keys=frozenset({text + "x"}))) == []
        assert listed(index, Filter(memory_ids=frozenset({MemoryId(text)}))) == []


# searching


def test_hits_are_ranked_as_brute_force_ranks_them(make: Make) -> None:
    rows = [make_row(number, second=number % 9, vectors=unit_vectors(number, 1 + number % 3)) for number in range(400)]
    index = make(rows)
    for where, inside in ((EVERYTHING, rows), (Filter(memory_ids=frozenset(ids(*range(0, 400, 3)))), rows[::3])):
        for question in unit_vectors(77, 5):
            hits = index.search(question, 25, where)
            ranked = sorted((best(row, question), row.memory_id) for row in inside)[:25]
            assert [hit.memory_id for hit in hits] == [one for _, one in ranked]
            assert [hit.score for hit in hits] == pytest.approx([-score for (score, _, _), _ in ranked], abs=1e-3)
            assert [(hit.window, hit.windows) for hit in hits] == [
                (window, 1 + int(one, 16) % 3) for (_, _, window), one in ranked
            ]


def best(row: IndexRow, question: np.ndarray) -> tuple[float, float, int]:
    """Return what *row* is ranked by: its best score, turned around, how new it is, and the best window."""
    assert row.embedding is not None
    scores = row.embedding.vectors.astype(np.float16).astype(np.float64) @ question.astype(np.float64)
    window = int(np.argmax(scores))
    return -round(float(scores[window]), 6), -row.occurred_at.timestamp(), window


def test_equal_scores_come_newer_first_then_by_id(make: Make) -> None:
    same, seconds = unit_vectors(1, 1), {1: 10, 2: 30, 3: 30, 4: 20}
    index = make(make_row(number, second=second, vectors=same) for number, second in seconds.items())
    for k in (1, 2, 4, 10):
        assert [hit.memory_id for hit in index.search(same[0], k, EVERYTHING)] == ids(2, 3, 4, 1)[:k]


def test_a_search_fills_k_whenever_enough_memories_pass(make: Make) -> None:
    near = unit_vectors(1, 1)
    crowd = [make_row(number, vectors=np.repeat(near, 50, axis=0)) for number in range(3)]
    rare = [make_row(number, tags=["rare"] if number % 50 == 0 else []) for number in range(3, 1000)]
    index = make([*crowd, *rare])
    assert len(index.search(near[0], 19, Filter(tag_keys=frozenset({"rare"})))) == 19
    assert len(index.search(near[0], 900, EVERYTHING)) == 900
    assert [hit.memory_id for hit in index.search(near[0], 3, EVERYTHING)] == ids(2, 1, 0)
    assert index.search(near[0], 0, EVERYTHING) == []


def test_scores_stay_within_one(make: Make) -> None:
    rows = [make_row(number) for number in range(50)]
    index = make(rows)
    for row in rows:
        assert row.embedding is not None
        query = row.embedding.vectors[0]
        assert index.search(query, 1, EVERYTHING)[0].score <= 1.0
        assert index.search(-query, 50, EVERYTHING)[-1].score >= -1.0


def test_a_vector_of_another_length_is_refused(make: Make) -> None:
    with pytest.raises(ValueError, match=str(DIM)):
        make([make_row(1)]).search(unit_vectors(1, 1, DIM + 1)[0], 5, EVERYTHING)


# listing and weighing


def test_pages_together_are_the_whole_listing_in_order(make: Make) -> None:
    seconds = [(number * 7) % 5 - 2 for number in range(23)]
    index = make(make_row(number, second=second) for number, second in enumerate(seconds))
    in_order = [one for _, one in sorted((second, memory_id(number)) for number, second in enumerate(seconds))]
    for limit, newest_first in itertools.product((1, 3, 40), (True, False)):
        found: list[MemoryId] = []
        cursor: str | None = None
        while True:
            page = index.list_page(EVERYTHING, limit, cursor, newest_first)
            assert page.total == 23
            found += page.memory_ids
            if (cursor := page.next_cursor) is None:
                break
            assert re.fullmatch(r"[A-Za-z0-9_-]+", cursor), "it serves in a URL"
            assert len(page.memory_ids) == limit
        assert found == (in_order[::-1] if newest_first else in_order), (limit, newest_first)


@pytest.mark.parametrize("newest_first", [True, False])
def test_inserts_and_removals_between_pages_neither_repeat_nor_hide_others(make: Make, newest_first: bool) -> None:
    index = make(make_row(number) for number in range(100, 160))
    found: list[MemoryId] = []
    cursor: str | None = None
    for step in range(6):
        page = index.list_page(EVERYTHING, 10, cursor, newest_first)
        found += page.memory_ids
        cursor = page.next_cursor
        earlier = 200 + step if newest_first else 50 - step
        index.upsert([make_row(earlier)])
        index.remove([found[-1], memory_id(earlier - 1)])
    assert cursor is None
    assert found == (ids(*range(159, 99, -1)) if newest_first else ids(*range(100, 160)))


def test_a_cursor_does_not_depend_on_the_filter(make: Make) -> None:
    index = make(make_row(number, scope=number % 2) for number in range(20))
    cursor = index.list_page(EVERYTHING, 5, None, newest_first=False).next_cursor
    page = index.list_page(Filter(scope_ids=frozenset({scope_id(1)})), 3, cursor, newest_first=False)
    assert list(page.memory_ids) == ids(5, 7, 9)


def test_a_cursor_made_elsewhere_is_refused(make: Make) -> None:
    index = make([make_row(1)])
    for cursor in ("", "x", "AAAA", "ä" * 34, "A" * 34, "A" * 5000, "\x00", '" or true'):
        with pytest.raises(InvalidRequestError, match="cursor"):
            index.list_page(EVERYTHING, 5, cursor, newest_first=False)


def test_an_altered_cursor_and_one_of_the_other_direction_are_refused(make: Make) -> None:
    index = make(make_row(number) for number in range(20))
    cursor = index.list_page(EVERYTHING, 5, None, newest_first=False).next_cursor
    assert cursor is not None
    with pytest.raises(InvalidRequestError, match="direction"):
        index.list_page(EVERYTHING, 5, cursor, newest_first=True)
    for at, letter in enumerate(cursor[:-1]):
        with pytest.raises(InvalidRequestError):
            index.list_page(EVERYTHING, 5, cursor[:at] + ("B" if letter == "A" else "A") + cursor[at + 1 :], False)


def test_a_page_without_room_still_tells_the_total(make: Make) -> None:
    page = make(make_row(number) for number in range(3)).list_page(EVERYTHING, 0, None, newest_first=True)
    assert (page.memory_ids, page.total) == ((), 3)


def test_the_weightiest_come_first_as_sorting_would_have_it(make: Make) -> None:
    rows = [make_row(number, importance=None if number % 7 == 0 else float(number % 10)) for number in range(50)]
    rows += [dataclasses.replace(make_row(number), importance=10.0) for number in range(50, 60)]
    rows = [
        dataclasses.replace(row, created_at=NOW - dt.timedelta(days=17 * (number % 8) - 10))
        for number, row in enumerate(rows)
    ]
    expected = sorted(
        rows,
        key=lambda row: (round(DECAY.weight(row.importance, row.created_at), 12), row.created_at, row.memory_id),
        reverse=True,
    )
    index = make(rows)
    for limit in (0, 1, 7, 50, 1000):
        assert index.top_by_weight(EVERYTHING, limit, DECAY) == [row.memory_id for row in expected][:limit]


def test_a_weight_is_importance_of_which_age_takes_a_part() -> None:
    season = dt.timedelta(days=90)
    assert DECAY.weight(10.0, NOW) == 1.0
    assert DECAY.weight(20.0, NOW + season) == 1.0
    assert DECAY.weight(10.0, NOW - season) == 0.75
    assert DECAY.weight(None, NOW - season) == 0.375
    assert math.isclose(DECAY.weight(4.0, NOW - 1000 * season), 0.2)


# counts, and memories by id


def test_counts_are_of_what_is_there(make: Make) -> None:
    index = make(make_row(number, scope=number % 3, conversation_id=f"Talk {number % 4}") for number in range(60))
    index.upsert([make_row(100, conversation_id="TALK 1"), make_row(101), make_pending_row(102)])
    index.remove(ids(0, 3))
    index.set_archived([scope_id(2)])
    assert index.count(EVERYTHING) == 41
    assert index.count_by_scope() == {scope_id(0): 21, scope_id(1): 20, scope_id(2): 20}
    assert index.count_conversations(EVERYTHING) == 4
    assert index.count_conversations(Filter(scope_ids=frozenset({scope_id(9)}))) == 0
    assert index.count_pending() == 1


def test_revisions_are_those_of_all_memories_by_rising_id(make: Make) -> None:
    index = make(make_row(number * 7919 % 10_007, revision=number % 5 + 1) for number in range(1, 10_000))
    index.remove([memory_id(7919)])
    second = memory_id(2 * 7919 % 10_007)
    known = revisions(index)  # which checks the order
    assert len(known) == 9_998
    assert known[second] == 3
    assert max(map(len, index.iter_revisions())) < len(known), "some at a time"
    assert index.get_revisions([second, memory_id(7919)]) == {second: 3}


def test_neighbours_are_what_was_said_before_and_after(make: Make) -> None:
    index = make(
        make_row(number, second=-number, scope=scope, conversation_id=name)
        for number, scope, name in [(1, 0, "a"), (2, 0, "A"), (3, 0, "b"), (4, 0, "a"), (5, 1, "a"), (6, 0, None)]
    )
    index.remove(ids(3))
    assert index.neighbours(ids(1, 2, 3, 5, 6, 99)) == {
        memory_id(1): Neighbours(memory_id(2), None),
        memory_id(2): Neighbours(memory_id(4), memory_id(1)),
        memory_id(5): Neighbours(None, None),
    }


def test_neighbours_are_of_the_same_source(make: Make) -> None:
    """Users that share a scope have a source each."""
    rows = [(1, "alice"), (2, "bob"), (3, "alice"), (4, None), (5, None)]
    index = make(make_row(number, second=number, conversation_id="default", source=name) for number, name in rows)
    beside = index.neighbours(ids(1, 2, 3, 4, 5), 2)
    assert beside == {
        memory_id(1): Neighbours(None, memory_id(3)),
        memory_id(2): Neighbours(None, None),
        memory_id(3): Neighbours(memory_id(1), None),
        memory_id(4): Neighbours(None, memory_id(5)),
        memory_id(5): Neighbours(memory_id(4), None),
    }
    assert len({one.conversation for one in beside.values()}) == 3


def test_neighbours_tell_conversations_apart_and_leave_long_ones_out(make: Make) -> None:
    index = make(
        make_row(number, second=number, scope=scope, conversation_id=name)
        for number, scope, name in [(1, 0, "a"), (2, 0, "a"), (3, 0, "a"), (4, 0, "b"), (5, 1, "a")]
    )
    named = {one: beside.conversation for one, beside in index.neighbours(ids(1, 3, 4, 5)).items()}
    assert named[memory_id(1)] == named[memory_id(3)]
    assert len(set(named.values())) == 3
    assert index.neighbours(ids(1, 4, 5), 2) == {
        memory_id(4): Neighbours(None, None),
        memory_id(5): Neighbours(None, None),
    }
    assert len(index.neighbours(ids(1, 2, 3), 3)) == 3


def test_memories_without_usable_vectors_are_pending_oldest_first(make: Make) -> None:
    bad = [np.full((1, DIM), 1e6, np.float32), np.full((1, DIM), np.nan, np.float32), unit_vectors(1, 1, DIM * 2)]
    index = make(
        [make_row(3), make_pending_row(9), make_pending_row(4), dataclasses.replace(make_row(6), embedding=None)]
    )
    index.upsert(make_row(number, vectors=vectors) for number, vectors in zip((7, 8, 10), bad, strict=True))
    assert list(index.pending(1000)) == ids(4, 6, 7, 8, 9, 10)
    assert [list(index.pending(limit)) for limit in (0, 1, 3)] == [[], ids(4), ids(4, 6, 7)]
    assert (nearest(index), index.count(EVERYTHING), index.count_pending()) == (ids(3), 7, 6)
    index.upsert([make_row(4)])  # the same revision, now with a vector
    index.remove(ids(6))
    assert list(index.pending(1000)) == ids(7, 8, 9, 10)
    assert memory_id(4) in nearest(index)


def test_tags_are_listed_once_in_the_order_in_which_they_came_and_stay(make: Make) -> None:
    index = make([make_row(1, tags=["b"]), make_row(2, tags=["a"]), make_row(3, tags=["b"])])
    first = list(index.tags(0, 10))
    assert sorted(first) == ["a", "b"]
    index.upsert([make_row(4, tags=["c"]), make_row(5, tags=["a"])])
    index.remove(ids(2, 5))
    assert list(index.tags(0, 10)) == [*first, "c"]
    assert [list(index.tags(start, 2)) for start in (0, 2, 3)] == [first, ["c"], []]


# an empty index


def test_an_empty_index_answers_everything(make: Make) -> None:
    index = make([])
    index.remove(ids(1))
    index.remove_scope(scope_id(1))
    index.set_archived([scope_id(1)])
    assert everything(index)[:2] == [[], []]
    assert listed(index) == index.top_by_weight(EVERYTHING, 5, DECAY) == list(index.pending(5)) == []
    assert (index.count(EVERYTHING), index.count_pending(), dict(index.count_by_scope())) == (0, 0, {})
    assert (revisions(index), list(index.tags(0, 5)), index.compact(all_rows=True)) == ({}, [], 0)
    assert index.search(QUERY, 5, Filter(scope_ids=frozenset())) == []
    index.upsert([make_row(1)])
    assert nearest(index) == ids(1)


# saving


def varied() -> list[IndexRow]:
    return [*make_varied_rows(), *(make_pending_row(number) for number in range(300, 310))]


def test_a_loaded_index_answers_and_goes_on_like_one_that_was_never_saved(files: VectorIndexFiles) -> None:
    kept = files.create(SPACE, DIM)
    kept.upsert(varied())
    kept.remove(ids(*range(0, 300, 7)))
    files.save(kept, DATABASE, b"\x00resume\xff")
    loaded, token = files.load(DATABASE, SPACE, DIM)
    assert (token, everything(loaded)) == (b"\x00resume\xff", everything(kept))
    for index in (kept, loaded):
        index.upsert(make_row(number, revision=3, tags=["t1"]) for number in range(90, 130))
        index.remove(ids(5, 100))
        index.remove_scope(scope_id(4))
    assert everything(loaded) == everything(kept)
    files.save(loaded, DATABASE, b"later")
    again, token = files.load(DATABASE, SPACE, DIM)
    assert (token, everything(again)) == (b"later", everything(kept))


def test_an_empty_index_is_saved_too(files: VectorIndexFiles) -> None:
    files.save(files.create(SPACE, DIM), DATABASE, b"")
    loaded, token = files.load(DATABASE, SPACE, DIM)
    assert (loaded.count(EVERYTHING), token) == (0, b"")


def test_what_was_not_saved_is_not_there(files: VectorIndexFiles) -> None:
    with pytest.raises(SidecarError):
        files.load(DATABASE, SPACE, DIM)
    index = files.create(SPACE, DIM)
    index.upsert([make_row(1)])
    files.save(index, DATABASE, b"one")
    files.create(SPACE, DIM).upsert([make_row(2)])
    assert listed(files.load(DATABASE, SPACE, DIM)[0]) == ids(1)


def test_which_scopes_are_archived_is_not_saved(files: VectorIndexFiles) -> None:
    index = files.create(SPACE, DIM)
    index.upsert([make_row(1)])
    index.set_archived([scope_id(0)])
    files.save(index, DATABASE, b"one")
    assert listed(files.load(DATABASE, SPACE, DIM)[0]) == ids(1)


@pytest.mark.parametrize(
    ("other", "named"),
    [({"database": "database-two"}, "database-two"), ({"space": "model-b"}, "model-b"), ({"dim": 32}, "32")],
)
def test_another_database_space_or_dimension_is_refused_by_name(
    files: VectorIndexFiles, other: dict[str, object], named: str
) -> None:
    index = files.create(SPACE, DIM)
    index.upsert([make_row(1)])
    files.save(index, DATABASE, b"token")
    wanted: dict[str, object] = {"database": DATABASE, "space": SPACE, "dim": DIM, **other}
    with pytest.raises(SidecarError, match=named):
        files.load(**wanted)  # type: ignore[arg-type]


# upkeep


def test_compaction_changes_no_answer(make: Make) -> None:
    index = make(varied())
    index.remove(ids(*range(0, 300, 2)))
    index.upsert(make_row(number, revision=2, tags=["t1"]) for number in range(1, 30, 2))
    index.set_archived([scope_id(2)])
    before, dead = everything(index), index.dead_count
    assert index.compact(all_rows=True) == dead
    assert index.dead_count == 0
    assert everything(index) == before
    index.upsert([make_row(500, tags=["new"])])
    index.remove(ids(1))
    assert listed(index, Filter(tag_keys=frozenset({"new"}))) == ids(500)
    assert memory_id(1) not in listed(index)


def test_a_closed_index_says_so(files: VectorIndexFiles) -> None:
    index = files.create(SPACE, DIM)
    index.upsert([make_row(1)])
    files.save(index, DATABASE, b"token")
    index.close()
    index.close()
    for call in (
        lambda: index.search(QUERY, 5, EVERYTHING),
        lambda: index.count(EVERYTHING),
        lambda: index.upsert([make_row(2)]),
        lambda: index.locate(ids(1)),
        lambda: next(iter(index.iter_revisions())),
    ):
        with pytest.raises(SidecarNotReadyError, match="closed"):
            call()
    assert listed(files.load(DATABASE, SPACE, DIM)[0]) == ids(1), "what was saved is there"


def test_searches_stay_right_while_others_write_remove_and_compact(make: Make) -> None:
    index = make(make_row(number, scope=1) for number in range(200))
    steady, done = Filter(scope_ids=frozenset({scope_id(1)})), threading.Event()
    expected = index.search(QUERY, 30, steady)
    writes = 300 if LONG else 45

    def write() -> None:
        for number in range(1, writes + 1):
            index.upsert([make_row(1000 + number, scope=2, tags=["passing"])])
            if number % 3:
                index.remove(ids(1000 + number))
            if number % (writes // 3) == 0:
                index.compact(all_rows=True)
        done.set()

    def read() -> int:
        turns = 0
        while not done.is_set() or not turns:
            assert index.search(QUERY, 30, steady) == expected
            assert index.count(steady) == 200
            turns += 1
        return turns

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        try:
            pool.submit(write).result()
        finally:
            done.set()
        assert all(reader.result() for reader in readers)
    assert index.count_by_scope() == {scope_id(1): 200, scope_id(2): writes // 3}


@settings(max_examples=40 if LONG else 8, deadline=None)
@given(steps=st.lists(st.tuples(st.sampled_from("urc"), st.integers(0, 12), st.integers(1, 4)), max_size=60))
def test_any_run_of_upserts_removals_and_compactions_leaves_what_a_dict_would(
    open_vector_files: Callable[[Path], VectorIndexFiles],
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[tuple[str, int, int]],
) -> None:
    known: dict[MemoryId, int] = {}
    index = open_vector_files(tmp_path_factory.mktemp("steps")).create(SPACE, DIM)
    for step, number, revision in steps:
        if step == "u":
            index.upsert([make_row(number, revision=revision, tags=[f"r{revision}"])])
            known[memory_id(number)] = max(revision, known.get(memory_id(number), 0))
        elif step == "r":
            index.remove(ids(number))
            known.pop(memory_id(number), None)
        else:
            index.compact(all_rows=True)
    assert revisions(index) == known
    assert set(nearest(index)) == set(known)
    for revision in range(1, 5):
        bearing = {one for one, held in known.items() if held == revision}
        assert set(listed(index, Filter(tag_keys=frozenset({f"r{revision}"})))) == bearing


@settings(max_examples=60 if LONG else 8, deadline=None)
@given(
    seconds=st.lists(st.integers(-5, 5), max_size=30),
    edges=st.lists(st.integers(-6, 6), min_size=2, max_size=8, unique=True).map(sorted),
)
def test_counts_between_edges_are_those_of_one_filter_each(
    open_vector_files: Callable[[Path], VectorIndexFiles],
    tmp_path_factory: pytest.TempPathFactory,
    seconds: list[int],
    edges: list[int],
) -> None:
    index = open_vector_files(tmp_path_factory.mktemp("counted")).create(SPACE, DIM)
    index.upsert(make_row(number, second=second, scope=number % 2) for number, second in enumerate(seconds))
    instants = [START + dt.timedelta(seconds=edge) for edge in edges]
    where = Filter(scope_ids=frozenset({scope_id(0)}))
    each = [
        index.count(dataclasses.replace(where, time=TimeRange(start, end)))
        for start, end in itertools.pairwise(instants)
    ]
    assert index.count_by_time(where, instants) == each
    index.close()
