"""Every field of a filter, against a plain Python reading of what it means."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infinite_memory.models import Filter, MemoryId, Row, TagsMode, TimeRange, fold
from tests.unit.sidecar.builders import START, make_row, make_sidecar, memory_id, scope_id, unit_vectors

ROWS = [
    make_row(
        number,
        scope=number % 4,
        second=(number * 37) % 50,
        tags=[tag for tag, step in (("red", 2), ("green", 3), ("blue", 5)) if number % step == 0]
        + [tag for tag, only in (("rare", 7), ("seldom", 64)) if number == only],
        source=("cli", "import")[number % 2],
        type=(None, "note", "fact")[number % 3],
        speaker=(None, "Ada", "ADA", "Bob")[number % 4],
        conversation_id=(None, "C1", "c2")[number % 3],
        confidence=(None, 0.2, 0.8)[number % 3],
        importance=(None, 0.0, 0.5, 1.0)[number % 4],
    )
    for number in range(120)
]
ARCHIVED = frozenset({scope_id(3)})


def passes(row: Row, where: Filter) -> bool:
    """Read a filter the plain way."""
    held = where.tag_keys & row.tag_keys
    exact = ((row.source, where.source), (row.type, where.type))
    folded = ((row.speaker, where.speaker), (row.conversation_id, where.conversation_id))
    at_least = ((row.confidence, where.min_stored_confidence), (row.importance, where.min_importance))
    return all(
        (
            row.scope_id not in ARCHIVED if where.scope_ids is None else row.scope_id in where.scope_ids,
            held == where.tag_keys or (where.tags_mode is TagsMode.ANY and len(held) > 0),
            where.time is None or where.time.holds(row.occurred_at),
            all(wanted is None or value == wanted for value, wanted in exact),
            all(wanted is None or (value is not None and fold(value) == fold(wanted)) for value, wanted in folded),
            all(least is None or (number is not None and number >= least) for number, least in at_least),
            where.memory_ids is None or row.memory_id in where.memory_ids,
        )
    )


def maybe(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | values


INSTANTS = st.builds(lambda ms: START + dt.timedelta(milliseconds=ms), st.integers(-1000, 51_000))
FILTERS = st.builds(
    Filter,
    scope_ids=maybe(st.frozensets(st.sampled_from([scope_id(number) for number in range(5)]))),
    tag_keys=st.frozensets(st.sampled_from(["red", "green", "blue", "rare", "seldom", "none"]), max_size=3),
    tags_mode=st.sampled_from(TagsMode),
    time=maybe(st.builds(TimeRange, maybe(INSTANTS), maybe(INSTANTS))),
    source=maybe(st.sampled_from(["cli", "import", "other"])),
    type=maybe(st.sampled_from(["note", "fact", "Note"])),
    speaker=maybe(st.sampled_from(["ada", "Bob", "Eve"])),
    conversation_id=maybe(st.sampled_from(["c1", "C2", "c3"])),
    min_stored_confidence=maybe(st.sampled_from([0.0, 0.2, 0.8, 0.9])),
    min_importance=maybe(st.sampled_from([0.0, 0.5, 1.0])),
    memory_ids=maybe(st.frozensets(st.integers(0, 130).map(memory_id) | st.just(MemoryId("no id")))),
)


@settings(max_examples=300, deadline=None)
@given(where=FILTERS)
def test_a_filter_lets_through_what_its_fields_say(where: Filter) -> None:
    expected = {row.memory_id: row for row in ROWS if passes(row, where)}
    conversations = {fold(row.conversation_id) for row in expected.values() if row.conversation_id is not None}
    page = FILLED.list_page(where, 1000, None, newest_first=False)
    assert list(page.memory_ids) == sorted(expected, key=lambda one: (expected[one].occurred_at, one))
    assert (page.total, page.next_cursor) == (len(expected), None)
    assert FILLED.count(where) == len(expected)
    assert FILLED.count_conversations(where) == len(conversations)
    hits = FILLED.search(unit_vectors(1, 1)[0], 1000, where)
    assert {hit.memory_id for hit in hits} == set(expected)


def filled():
    """Fill a sidecar in three steps, with rows that came twice and rows that went."""
    sidecar = make_sidecar(make_row(number, tags=["red"], source="old", revision=0) for number in range(0, 140, 2))
    sidecar.upsert(ROWS)
    sidecar.remove(memory_id(number) for number in range(120, 140))
    sidecar.set_archived(ARCHIVED)
    return sidecar


FILLED = filled()


@pytest.mark.parametrize(
    ("start_ms", "end_ms", "expected"),
    [(0, 1000, [0]), (0, 1001, [0, 1]), (1, 2000, [1]), (1000, 1000, []), (None, 1, [0]), (2000, None, [2])],
)
def test_a_time_range_is_half_open_to_the_millisecond(
    start_ms: int | None, end_ms: int | None, expected: list[int]
) -> None:
    sidecar = make_sidecar(make_row(number) for number in range(3))
    start, end = (None if ms is None else START + dt.timedelta(milliseconds=ms) for ms in (start_ms, end_ms))
    page = sidecar.list_page(Filter(time=TimeRange(start, end)), 10, None, newest_first=False)
    assert list(page.memory_ids) == [memory_id(number) for number in expected]


def test_ends_between_two_milliseconds_and_before_1970_count_exactly() -> None:
    long_ago = -dt.timedelta(days=200 * 365).total_seconds()
    sidecar = make_sidecar([make_row(1, second=long_ago)])
    instant = START + dt.timedelta(seconds=long_ago)
    moment = dt.timedelta(microseconds=1)
    assert sidecar.count(Filter(time=TimeRange(instant, instant + moment))) == 1
    assert sidecar.count(Filter(time=TimeRange(instant - moment, instant))) == 0
    assert sidecar.count(Filter(time=TimeRange(instant + moment, None))) == 0


def test_archived_scopes_are_left_out_unless_named() -> None:
    sidecar = make_sidecar([make_row(1, scope=1), make_row(2, scope=2)])
    sidecar.set_archived([scope_id(2), scope_id(9)])
    assert sidecar.count(Filter()) == 1
    assert sidecar.count(Filter(scope_ids=frozenset({scope_id(2)}))) == 1
    assert sidecar.count_by_scope() == {scope_id(1): 1, scope_id(2): 1}
    sidecar.set_archived([])
    assert sidecar.count(Filter()) == 2


def test_a_stored_confidence_equal_to_the_least_wanted_passes() -> None:
    sidecar = make_sidecar([make_row(1, confidence=0.1 + 0.2)])
    assert sidecar.count(Filter(min_stored_confidence=0.1 + 0.2)) == 1
    assert sidecar.count(Filter(min_stored_confidence=0.31)) == 0
