"""Search by vectors, against brute force in NumPy over the same half-precision values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infinite_memory.index.vector import table
from infinite_memory.index.vector.faiss_index import FaissIndex
from infinite_memory.models import Filter, IndexRow, MemoryId
from tests.unit.index.builders import (
    DIM,
    make_pending_row,
    make_row,
    make_sidecar,
    memory_id,
    scope_id,
    unit_vectors,
)

EVERYTHING = Filter()


def brute_force(rows: list[IndexRow], query: np.ndarray, k: int) -> list[tuple[MemoryId, float, int]]:
    """Rank by the best window, then newer first, then id, the slow and plain way."""
    ranked = []
    for row in rows:
        scores = row.embedding.vectors.astype(np.float16).astype(np.float64) @ query.astype(np.float64)
        scores = scores.clip(-1, 1).round(6)
        best = int(np.argmax(scores))
        ranked.append((-float(scores[best]), -row.occurred_at.timestamp(), row.memory_id, best))
    ranked.sort()
    return [(one, -score, window) for score, _, one, window in ranked[:k]]


def assert_same(
    sidecar: FaissIndex, rows: list[IndexRow], query: np.ndarray, k: int, where: Filter = EVERYTHING
) -> None:
    hits = sidecar.search(query, k, where)
    expected = brute_force(rows, query, k)
    assert [(hit.memory_id, hit.window) for hit in hits] == [(one, window) for one, _, window in expected]
    np.testing.assert_allclose([hit.score for hit in hits], [score for _, score, _ in expected], atol=2e-6)


def test_search_ranks_like_brute_force() -> None:
    rows = [make_row(number, vectors=unit_vectors(number, 1, 64)) for number in range(3000)]
    sidecar = make_sidecar(rows, dim=64)
    for query in unit_vectors(9999, 10, 64):
        assert_same(sidecar, rows, query, 25)


@pytest.mark.parametrize("share", [0.002, 0.05, 0.5, 0.97])
def test_a_filtered_search_ranks_like_brute_force_over_what_passes(share: float) -> None:
    drawn = np.random.default_rng(3).random(2000) < share
    rows = [make_row(number, scope=int(drawn[number])) for number in range(2000)]
    sidecar = make_sidecar(rows)
    inside = [row for row, one in zip(rows, drawn, strict=True) if one]
    for query in unit_vectors(77, 5):
        assert_same(sidecar, inside, query, 10, Filter(scope_ids=frozenset({scope_id(1)})))


def test_a_search_goes_over_all_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "SEGMENT_ROWS", 50)
    rows = [make_row(number, vectors=unit_vectors(number, 1 + number % 3)) for number in range(220)]
    sidecar = make_sidecar(rows)
    for query in unit_vectors(77, 10):
        assert_same(sidecar, rows, query, 60)
        assert_same(sidecar, rows[40:45], query, 60, Filter(memory_ids=frozenset(map(memory_id, range(40, 45)))))


def test_search_fills_k_whenever_enough_memories_pass() -> None:
    rows = [make_row(number, tags=["rare"] if number % 50 == 0 else []) for number in range(1000)]
    sidecar = make_sidecar(rows)
    query = unit_vectors(5, 1)[0]
    assert len(sidecar.search(query, 20, Filter(tag_keys=frozenset({"rare"})))) == 20
    assert len(sidecar.search(query, 21, Filter(tag_keys=frozenset({"rare"})))) == 20
    assert len(sidecar.search(query, 5000, EVERYTHING)) == 1000


def test_windows_of_one_memory_are_one_hit_with_the_best_window() -> None:
    long_memory = make_row(1, vectors=unit_vectors(1, 300))
    others = [make_row(number) for number in range(2, 40)]
    sidecar = make_sidecar([long_memory, *others])
    query = long_memory.embedding.vectors[123]
    hits = sidecar.search(query, 10, EVERYTHING)
    assert len(hits) == 10
    assert (hits[0].memory_id, hits[0].window) == (memory_id(1), 123)
    assert len({hit.memory_id for hit in hits}) == 10
    assert_same(sidecar, [long_memory, *others], query, 39)


def test_many_windows_of_few_memories_do_not_crowd_out_the_rest() -> None:
    near = unit_vectors(1, 1)
    crowd = [make_row(number, vectors=np.repeat(near, 200, axis=0)) for number in range(3)]
    rest = [make_row(number) for number in range(3, 30)]
    assert_same(make_sidecar([*crowd, *rest]), [*crowd, *rest], near[0], 20)


def test_equal_scores_come_newer_first_then_by_id() -> None:
    same = unit_vectors(1, 1)
    seconds = {1: 10, 2: 30, 3: 30, 4: 20}
    sidecar = make_sidecar([make_row(number, second=second, vectors=same) for number, second in seconds.items()])
    assert [hit.memory_id for hit in sidecar.search(same[0], 4, EVERYTHING)] == [*map(memory_id, (2, 3, 4, 1))]


def test_the_newest_of_many_equals_is_found_however_small_k_is() -> None:
    same = unit_vectors(1, 1)
    rows = [make_row(number, second=(number * 617) % 1000, vectors=same) for number in range(1000)]
    sidecar = make_sidecar(rows)
    for k in (1, 3, 17):
        assert_same(sidecar, rows, same[0], k)


def test_equal_vectors_score_equally_wherever_they_lie() -> None:
    same = unit_vectors(1, 1, 384)
    rows = [make_row(number, vectors=same) for number in range(515)]
    hits = make_sidecar(rows, dim=384).search(unit_vectors(2, 1, 384)[0], 515, EVERYTHING)
    assert len({hit.score for hit in hits}) == 1


def test_scores_stay_within_one() -> None:
    rows = [make_row(number) for number in range(200)]
    sidecar = make_sidecar(rows)
    for row in rows:
        query = row.embedding.vectors[0]
        assert sidecar.search(query, 1, EVERYTHING)[0].score <= 1.0
        assert sidecar.search(-query, 200, EVERYTHING)[-1].score >= -1.0


def test_an_empty_sidecar_finds_nothing() -> None:
    assert make_sidecar().search(unit_vectors(1, 1)[0], 5, EVERYTHING) == []
    assert make_sidecar([make_row(1)]).search(unit_vectors(1, 1)[0], 0, EVERYTHING) == []
    assert make_sidecar([make_pending_row(1)]).search(unit_vectors(1, 1)[0], 5, EVERYTHING) == []
    assert make_sidecar([make_row(1)]).search(unit_vectors(1, 1)[0], 5, Filter(scope_ids=frozenset())) == []


def test_a_vector_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="16"):
        make_sidecar([make_row(1)]).search(unit_vectors(1, 1, DIM + 1)[0], 5, EVERYTHING)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    window_counts=st.lists(st.integers(0, 5), min_size=1, max_size=40),
    distinct=st.integers(1, 8),
    k=st.integers(1, 50),
    seed=st.integers(0, 1000),
)
def test_any_mix_of_windows_equals_and_pending_ranks_like_brute_force(
    window_counts: list[int], distinct: int, k: int, seed: int
) -> None:
    pool = unit_vectors(seed, distinct)
    draw = np.random.default_rng(seed)
    rows = [
        make_row(number, second=number % 4, vectors=pool[draw.integers(0, distinct, count)])
        for number, count in enumerate(window_counts)
    ]
    sidecar = make_sidecar(rows)
    with_vectors = [row for row in rows if len(row.embedding.vectors)]
    assert_same(sidecar, with_vectors, unit_vectors(seed + 1, 1)[0], k)
    assert len(sidecar.pending(1000)) == len(rows) - len(with_vectors)
