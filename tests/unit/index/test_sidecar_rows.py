"""Compaction, and the map of ids when it merges often; what every index must do with rows is in the conformance suite."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infinite_memory.index import id_map
from infinite_memory.index.vector import faiss_index
from infinite_memory.index.vector.faiss_index import FaissIndex
from infinite_memory.index.vector.files import FaissIndexFiles
from infinite_memory.models import Filter, MemoryId
from tests.unit.index.builders import (
    DATABASE,
    DIM,
    SPACE,
    make_row,
    make_sidecar,
    memory_id,
    revisions,
    scope_id,
    unit_vectors,
)


def tagged(sidecar: FaissIndex, tag: str) -> set[MemoryId]:
    return set(sidecar.list_page(Filter(tag_keys=frozenset({tag})), 100, None, newest_first=True).memory_ids)


def test_compaction_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faiss_index, "COMPACT_AT_LEAST", 10)
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


def answers(sidecar: FaissIndex) -> list[object]:
    query = unit_vectors(4321, 1)[0]
    return [
        sidecar.search(query, 50, Filter()),
        sidecar.search(query, 50, Filter(tag_keys=frozenset({"t1"}))),
        sidecar.list_page(Filter(), 100, None, newest_first=True),
        tagged(sidecar, "new"),
        sidecar.count_by_scope(),
        revisions(sidecar),
        list(sidecar.pending(1000)),
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
        patch.setattr(id_map, "MERGE_AT_LEAST", merge_at)
        patch.setattr(faiss_index, "COMPACT_AT_LEAST", 1)
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
    assert revisions(sidecar) == known
    assert {hit.memory_id for hit in sidecar.search(unit_vectors(1, 1)[0], 50, Filter())} == set(known)
    for revision in range(1, 5):
        assert tagged(sidecar, f"r{revision}") == {one for one, held in known.items() if held == revision}


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 60), min_size=1, unique=True), max_size=12))
def test_keys_lead_to_where_they_were_put_last_in_whatever_order_they_come(batches: list[list[int]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(id_map, "MERGE_AT_LEAST", 5)
        table, expected, first = id_map.IdMap(), dict[int, int](), 0
        for batch in batches:
            table.put_all([number.to_bytes(12) for number in batch], first)
            expected |= {number: slot for slot, number in enumerate(batch, first)}
            first += len(batch)
            found = table.find_all([number.to_bytes(12) for number in range(61)])
            assert found.tolist() == [expected.get(number, -1) for number in range(61)]


def test_neighbours_of_few_turns_of_a_long_conversation_are_those_of_all() -> None:
    """Many happened at the same moment, and another source's conversation of that name goes on beside it."""
    index = FaissIndex(SPACE, DIM)
    index.upsert(
        make_row(
            number, second=number * 7919 % 5003 // 3, conversation_id="long", source="ada" if number % 4 else "bob"
        )
        for number in range(1600)
    )
    every = index.neighbours(map(memory_id, range(1600)))
    for number in range(0, 1600, 53):
        few = index.neighbours([memory_id(number), memory_id(number + 1)])
        assert few == {one: every[one] for one in few}
        assert len({one.conversation for one in few.values()}) == len({every[one].conversation for one in few})


def test_the_memories_of_a_scope_are_those_of_another_at_once(tmp_path: Path) -> None:
    sidecar = make_sidecar([make_row(number, scope=number % 2) for number in range(10)])
    sidecar.remove([memory_id(1)])
    sidecar.move_scope(scope_id(1), scope_id(2))
    sidecar.move_scope(scope_id(7), scope_id(2))  # nothing was ever in it
    assert sidecar.count_by_scope() == {scope_id(0): 5, scope_id(2): 4}
    assert sidecar.locate([memory_id(3)]) == {memory_id(3): scope_id(2)}
    assert sidecar.count(Filter(scope_ids=frozenset({scope_id(1)}))) == 0
    page = sidecar.list_page(Filter(scope_ids=frozenset({scope_id(2)})), 9, None, newest_first=True)
    assert list(page.memory_ids) == [memory_id(number) for number in (9, 7, 5, 3)]
    sidecar.upsert([make_row(3, scope=2, revision=2), make_row(11, scope=1)])
    files = FaissIndexFiles(tmp_path / "saved")
    files.save(sidecar, DATABASE, b"")
    assert files.load(DATABASE, SPACE, DIM)[0].count_by_scope() == {scope_id(0): 5, scope_id(1): 1, scope_id(2): 4}
