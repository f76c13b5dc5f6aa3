"""What upserts, removals, revisions and compaction do to a sidecar."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infinite_memory.models import Filter, MemoryId
from infinite_memory.sidecar import faiss_sidecar, keys
from infinite_memory.sidecar.base import Sidecar
from infinite_memory.sidecar.faiss_sidecar import FaissSidecar
from infinite_memory.sidecar.rows import in_columns
from tests.unit.sidecar.builders import (
    DIM,
    make_pending_row,
    make_row,
    make_sidecar,
    memory_id,
    scope_id,
    unit_vectors,
)


def tagged(sidecar: FaissSidecar, tag: str) -> set[MemoryId]:
    return set(sidecar.list_page(Filter(tag_keys=frozenset({tag})), 100, None, newest_first=True).memory_ids)


def test_it_is_a_sidecar() -> None:
    sidecar: Sidecar = make_sidecar([make_row(1)])
    assert sidecar.count(Filter()) == 1


def test_a_newer_revision_replaces_and_an_older_or_equal_one_changes_nothing() -> None:
    sidecar = make_sidecar([make_row(1, revision=2, tags=["second"])])
    sidecar.upsert([make_row(1, revision=1, tags=["first"])])
    sidecar.upsert([make_row(1, revision=2, tags=["again"])])
    assert [len(tagged(sidecar, tag)) for tag in ("first", "second", "again")] == [0, 1, 0]
    sidecar.upsert([make_row(1, revision=3, tags=["third"], scope=7, vectors=unit_vectors(500, 1))])
    assert (tagged(sidecar, "third"), tagged(sidecar, "second")) == ({memory_id(1)}, set())
    assert sidecar.locate([memory_id(1)]) == {memory_id(1): scope_id(7)}
    assert sidecar.count_by_scope() == {scope_id(7): 1}
    assert sidecar.search(unit_vectors(500, 1)[0], 5, Filter())[0].score == pytest.approx(1, abs=1e-3)
    assert sidecar.revisions() == {memory_id(1): 3}


def test_of_rows_of_one_memory_in_one_call_the_newest_stays() -> None:
    rows = [make_row(1, revision=revision, tags=[f"r{revision}"]) for revision in (2, 5, 3, 5)]
    sidecar = make_sidecar(rows)
    assert sidecar.count(Filter()) == 1
    assert tagged(sidecar, "r5") == {memory_id(1)}


def test_is_current_compares_revisions() -> None:
    sidecar = make_sidecar([make_row(1, revision=4)])
    assert [sidecar.is_current(memory_id(1), revision) for revision in (3, 4, 5)] == [True, True, False]
    assert not sidecar.is_current(memory_id(2), 1)


def test_a_removed_memory_is_found_nowhere_and_can_come_back() -> None:
    sidecar = make_sidecar(make_row(number, tags=["t"]) for number in range(5))
    sidecar.remove([memory_id(2), memory_id(77), MemoryId("nonsense")])
    assert tagged(sidecar, "t") == {memory_id(number) for number in (0, 1, 3, 4)}
    assert memory_id(2) not in {hit.memory_id for hit in sidecar.search(unit_vectors(2, 1)[0], 10, Filter())}
    assert memory_id(2) not in sidecar.revisions()
    assert sidecar.locate([memory_id(2), memory_id(3)]) == {memory_id(3): scope_id(0)}
    sidecar.upsert([make_row(2, tags=["back"])])
    assert sidecar.search(unit_vectors(2, 1)[0], 1, Filter())[0].memory_id == memory_id(2)
    assert sidecar.count(Filter()) == 5


def test_a_removed_scope_takes_its_memories_along_and_no_others() -> None:
    sidecar = make_sidecar(make_row(number, scope=number % 3) for number in range(30))
    sidecar.remove_scope(scope_id(1))
    sidecar.remove_scope(scope_id(99))
    assert sidecar.count_by_scope() == {scope_id(0): 10, scope_id(2): 10}
    assert len(sidecar.search(unit_vectors(1, 1)[0], 100, Filter())) == 20
    sidecar.upsert([make_row(100, scope=1)])
    assert sidecar.count_by_scope()[scope_id(1)] == 1


def test_ids_that_end_in_zeros_are_told_apart() -> None:
    ids = [MemoryId("aa" * 12), MemoryId("aa" * 11 + "00"), MemoryId("aa" * 10 + "0000"), MemoryId("00" * 12)]
    sidecar = make_sidecar(dataclasses.replace(make_row(n), memory_id=one) for n, one in enumerate(ids))
    assert set(sidecar.revisions()) == set(ids)
    sidecar.remove([ids[1]])
    assert set(sidecar.locate(ids)) == {ids[0], ids[2], ids[3]}


def test_an_id_that_is_none_is_refused_and_named() -> None:
    with pytest.raises(ValueError, match="'xyz'"):
        make_sidecar([dataclasses.replace(make_row(1), memory_id=MemoryId("xyz"))])


def test_memories_without_usable_vectors_are_pending_oldest_first() -> None:
    sidecar = make_sidecar([make_row(3), make_pending_row(9), make_pending_row(4)])
    sidecar.upsert([dataclasses.replace(make_row(6), embedding=None)])
    huge, not_a_number = np.full((1, DIM), 1e6, np.float32), np.full((1, DIM), np.nan, np.float32)
    sidecar.upsert(
        [
            make_row(7, vectors=unit_vectors(1, 1, DIM * 2)),
            make_row(8, vectors=not_a_number),
            make_row(10, vectors=huge),
        ]
    )
    assert list(sidecar.pending()) == [memory_id(number) for number in (4, 6, 7, 8, 9, 10)]
    assert {hit.memory_id for hit in sidecar.search(unit_vectors(1, 1)[0], 9, Filter())} == {memory_id(3)}
    sidecar.upsert([make_row(4, revision=2)])
    assert memory_id(4) not in sidecar.pending()
    sidecar.remove([memory_id(6)])
    assert list(sidecar.pending()) == [memory_id(number) for number in (7, 8, 9, 10)]


def test_compaction_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_sidecar, "COMPACT_AT_LEAST", 10)
    sidecar = make_sidecar(
        make_row(number, scope=number % 3, tags=[f"t{number % 4}"], vectors=unit_vectors(number, number % 3))
        for number in range(90)
    )
    assert not sidecar.compact()
    sidecar.remove(memory_id(number) for number in range(0, 90, 2))
    sidecar.upsert(make_row(number, revision=2, tags=["new"]) for number in range(1, 30, 2))
    sidecar.set_archived([scope_id(2)])
    before = answers(sidecar)
    assert sidecar.compact()
    assert answers(sidecar) == before
    assert sidecar.frozen().alive.all()
    sidecar.upsert([make_row(500, tags=["new"])])
    sidecar.remove([memory_id(1)])
    assert memory_id(500) in tagged(sidecar, "new")
    assert memory_id(1) not in tagged(sidecar, "new")


def answers(sidecar: FaissSidecar) -> list[object]:
    query = unit_vectors(4321, 1)[0]
    return [
        sidecar.search(query, 50, Filter()),
        sidecar.search(query, 50, Filter(tag_keys=frozenset({"t1"}))),
        sidecar.list_page(Filter(), 100, None, newest_first=True),
        tagged(sidecar, "new"),
        sidecar.count_by_scope(),
        dict(sidecar.revisions()),
        list(sidecar.pending()),
    ]


@settings(max_examples=60, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from("urc"), st.integers(0, 12), st.integers(1, 4)), max_size=60),
    merge_at=st.integers(0, 4),
)
def test_any_run_of_upserts_removals_and_compactions_leaves_what_a_dict_would(
    steps: list[tuple[str, int, int]], merge_at: int
) -> None:
    known: dict[MemoryId, int] = {}
    sidecar = make_sidecar()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "MERGE_AT_LEAST", merge_at)
        patch.setattr(faiss_sidecar, "COMPACT_AT_LEAST", 1)
        for step, number, revision in steps:
            one = memory_id(number)
            if step == "u":
                sidecar.upsert([make_row(number, revision=revision, tags=[f"r{revision}"])])
                known[one] = max(revision, known.get(one, 0))
            elif step == "r":
                sidecar.remove([one])
                known.pop(one, None)
            else:
                sidecar.compact()
    assert dict(sidecar.revisions()) == known
    assert {hit.memory_id for hit in sidecar.search(unit_vectors(1, 1)[0], 50, Filter())} == set(known)
    for revision in range(1, 5):
        assert tagged(sidecar, f"r{revision}") == {one for one, held in known.items() if held == revision}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), min_size=1, unique=True), max_size=12))
def test_keys_lead_to_where_they_were_put_last_in_whatever_order_they_come(batches: list[list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "MERGE_AT_LEAST", 5)
        table, expected, first = keys.KeyMap(), dict[int, int](), 0
        for batch in batches:
            table.put_all([number.to_bytes(12) for number in batch], first)
            expected |= {number: slot for slot, number in enumerate(batch, first)}
            first += len(batch)
            found = table.find_all([number.to_bytes(12) for number in range(61)])
            assert found.tolist() == [expected.get(number, -1) for number in range(61)]


def test_rows_in_columns_are_taken_in_as_rows_one_by_one_are() -> None:
    drawn = np.random.default_rng(5).integers(0, 40, (300, 2)).tolist()
    rows = [
        make_pending_row(number, revision=revision % 4)
        if revision % 5 == 0
        else make_row(number, revision=revision % 4, tags=[f"t{revision}"], conversation_id=f"Talk {revision % 3}")
        for number, revision in drawn
    ]
    one_by_one, together = make_sidecar([]), make_sidecar([])
    for row in rows:
        one_by_one.upsert([row])
    for batch in in_columns(rows, 7):
        together.enter(batch)
    assert dict(together.revisions()) == dict(one_by_one.revisions())
    assert together.pending() == one_by_one.pending()
    assert list(together.turns()) == list(one_by_one.turns())
    for number in range(40):
        assert tagged(together, f"t{number}") == tagged(one_by_one, f"t{number}")
    query = unit_vectors(77, 1)[0]
    assert together.search(query, 40, Filter()) == one_by_one.search(query, 40, Filter())
