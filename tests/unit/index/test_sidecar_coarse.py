"""The coarse index: what it finds is what an exact search finds, through filters, removals, saving and loading."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from infinite_memory.errors import SidecarDamagedError
from infinite_memory.index.base import VectorIndex
from infinite_memory.index.vector import pq_index, search, table
from infinite_memory.index.vector.faiss_index import FaissIndex
from infinite_memory.index.vector.faiss_search import Quantiser
from infinite_memory.index.vector.files import FaissIndexFiles
from infinite_memory.models import Filter, MemoryId
from tests.unit.index.builders import DATABASE, SPACE, make_row, memory_id, scope_id, unit_vectors

DIM, COUNT, QUESTIONS, K = 64, 6000, 30, 10
EVERY_THIRD, TOGETHER = "third", "together"


@pytest.fixture(autouse=True)
def small_bounds(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the coarse index begin at a size that a test can fill, with a pool that is small beside it."""
    monkeypatch.setattr(pq_index, "FROM_ROWS", 1000)
    monkeypatch.setattr(pq_index, "REFRESH_ROWS", 500)
    monkeypatch.setattr(pq_index, "MIN_POOL", 100)
    monkeypatch.setattr(pq_index, "POOL_FACTOR", 5)
    monkeypatch.setattr(table, "SEGMENT_ROWS", 2048)
    monkeypatch.setattr(search, "ASKED", 400)
    monkeypatch.setattr(search, "SCORED_AT_ONCE", 64)
    yield


def texts(count: int = COUNT) -> NDArray[np.float32]:
    """Draw vectors that lie in clusters, as those of texts do."""
    centres, noise = unit_vectors(1, 40, DIM), unit_vectors(2, count, DIM)
    drawn = centres[np.arange(count) % 40] + 0.8 * noise
    made: NDArray[np.float32] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return made


def filled(vectors: NDArray[np.float32]) -> FaissIndex:
    """Make a sidecar; every third memory bears a tag, and those of four clusters another."""
    sidecar = FaissIndex(SPACE, DIM)
    sidecar.upsert(
        make_row(
            number,
            scope=number % 2,
            tags=[tag for tag, has in ((EVERY_THIRD, number % 3 == 0), (TOGETHER, number % 40 < 4)) if has],
            vectors=vectors[number : number + 1],
        )
        for number in range(len(vectors))
    )
    return sidecar


def recall_at_k(sidecar: VectorIndex, vectors: NDArray[np.float32], allowed: NDArray[np.bool_], where: Filter) -> float:
    """Give the share of the exact best ten that is found."""
    hits = 0
    for question in unit_vectors(3, QUESTIONS, DIM):
        scores = np.where(allowed, vectors @ question, -2.0)
        best = {memory_id(int(number)) for number in np.argsort(-scores)[:K]}
        hits += len(best & {hit.memory_id for hit in sidecar.search(question, K, where)})
    return hits / (K * QUESTIONS)


NUMBERS = np.arange(COUNT)


@pytest.mark.parametrize(
    ("where", "allowed"),
    [
        (Filter(), NUMBERS >= 0),
        (Filter(scope_ids=frozenset({scope_id(1)})), NUMBERS % 2 == 1),
        (Filter(tag_keys=frozenset({EVERY_THIRD})), NUMBERS % 3 == 0),
        (Filter(tag_keys=frozenset({TOGETHER})), NUMBERS % 40 < 4),
        (Filter(tag_keys=frozenset({TOGETHER, EVERY_THIRD})), (NUMBERS % 40 < 4) & (NUMBERS % 3 == 0)),
    ],
)
def test_a_coarse_search_finds_what_an_exact_one_finds(where: Filter, allowed: NDArray[np.bool_]) -> None:
    vectors = texts()
    sidecar = filled(vectors)
    assert sidecar.refine()
    assert recall_at_k(sidecar, vectors, allowed, where) >= 0.98


def test_questions_far_from_all_that_they_may_find_find_it() -> None:
    vectors = texts()
    sidecar = filled(vectors)
    assert sidecar.refine()
    together = np.flatnonzero(NUMBERS % 40 < 4)
    for number in range(0, 800, 40):
        scores = vectors[together] @ -vectors[number]
        best = {memory_id(int(one)) for one in together[np.argsort(-scores)[:K]]}
        hits = sidecar.search(-vectors[number], K, Filter(tag_keys=frozenset({TOGETHER})))
        assert len(best & {hit.memory_id for hit in hits}) >= K - 1


def test_more_rows_are_needed_the_closer_the_scores_lie() -> None:
    errors = np.random.default_rng(4).normal(0.1, 0.02, 300).astype(np.float32)
    wide, close = np.linspace(1, 0, 3000, dtype=np.float32), np.linspace(0.2, 0, 3000, dtype=np.float32)
    assert K < pq_index.rows_needed(wide, wide[:300] + errors, K) < 300
    assert 300 < pq_index.rows_needed(close, close[:300] + errors, K) < 3000


@pytest.mark.parametrize("every", [1, 2, 7, 50, 3000])
def test_a_filter_over_packed_codes_gives_what_its_rows_alone_give(every: int) -> None:
    vectors = texts().astype(np.float16)
    quantiser = Quantiser.trained(vectors)
    codes = quantiser.encode(vectors)
    rows = NUMBERS[NUMBERS % every == 0]
    alone, filtered = quantiser.pack(codes[rows]), quantiser.pack(codes)
    for question in unit_vectors(3, 5, DIM):
        places, expected = alone.search(question, 60)
        found, scores = filtered.search(question, 60, NUMBERS % every == 0)
        assert np.allclose(scores, expected, atol=1e-4)
        surely = expected > expected[-1]  # of those that score like the last, either may come
        assert set(rows[places[surely]]) <= set(found)
        assert set(found) <= set(rows)


def test_scores_are_exact_and_a_large_k_gives_all() -> None:
    vectors = texts(1500)
    sidecar = filled(vectors)
    question = unit_vectors(5, 1, DIM)[0]
    before = sidecar.search(question, 1500, Filter())
    assert sidecar.refine()
    assert sidecar.search(question, 1500, Filter()) == before
    assert [hit.score for hit in sidecar.search(question, K, Filter())] == [hit.score for hit in before[:K]]


def test_what_comes_after_the_training_is_found_before_and_after_the_index_is_extended() -> None:
    vectors = texts()
    sidecar = filled(vectors[:4000])
    assert sidecar.refine()
    sidecar.upsert(make_row(number, vectors=vectors[number : number + 1]) for number in range(4000, COUNT))
    assert recall_at_k(sidecar, vectors, NUMBERS >= 0, Filter()) >= 0.98
    assert sidecar.refine()
    assert not sidecar.refine()
    assert recall_at_k(sidecar, vectors, NUMBERS >= 0, Filter()) >= 0.98


def test_what_was_removed_is_not_found_and_its_place_is_filled() -> None:
    vectors = texts()
    sidecar = filled(vectors)
    assert sidecar.refine()
    gone = NUMBERS % 4 == 0
    sidecar.remove(memory_id(int(number)) for number in np.flatnonzero(gone))
    assert recall_at_k(sidecar, vectors, ~gone, Filter()) >= 0.98
    assert sidecar.compact()
    assert recall_at_k(sidecar, vectors, ~gone, Filter()) >= 0.98


def test_the_coarse_index_comes_back_from_its_files(tmp_path: Path) -> None:
    vectors = texts()
    sidecar = filled(vectors)
    sidecar.remove([memory_id(7)])
    files = FaissIndexFiles(tmp_path)
    files.save(sidecar, DATABASE, b"token")
    loaded, _ = files.load(DATABASE, SPACE, DIM)
    assert not loaded.refine()
    assert found(loaded) == found(sidecar)


def test_a_generation_links_what_did_not_change(tmp_path: Path) -> None:
    vectors = texts()
    files = FaissIndexFiles(tmp_path)
    files.save(filled(vectors), DATABASE, b"one")
    loaded, _ = files.load(DATABASE, SPACE, DIM)
    before = inodes(tmp_path)
    loaded.remove([memory_id(0)])
    loaded.upsert([make_row(COUNT, vectors=unit_vectors(9, 1, DIM))])
    files.save(loaded, DATABASE, b"two")
    kept = {name for name, number in inodes(tmp_path).items() if before.get(name) == number}
    assert kept == {"vectors-0001.faiss", "coarse-0001.faiss", "vectors-0002.faiss", "coarse-0002.faiss"}
    again, token = files.load(DATABASE, SPACE, DIM)
    assert token == b"two"
    assert found(again) == found(loaded)
    assert found(again, unit_vectors(9, 1, DIM)[0])[0] == memory_id(COUNT)


def test_a_linked_file_that_was_altered_is_not_believed(tmp_path: Path) -> None:
    files = FaissIndexFiles(tmp_path)
    files.save(filled(texts()), DATABASE, b"one")
    loaded, _ = files.load(DATABASE, SPACE, DIM)
    files.save(loaded, DATABASE, b"two")
    [coarse_file] = tmp_path.glob("generation-*/coarse-0001.faiss")
    raw = bytearray(coarse_file.read_bytes())
    raw[-1] ^= 1
    coarse_file.write_bytes(raw)
    with pytest.raises(SidecarDamagedError):
        files.load(DATABASE, SPACE, DIM)


def found(sidecar: VectorIndex, question: NDArray[np.float32] | None = None) -> list[MemoryId]:
    """List what one question finds."""
    return [
        hit.memory_id
        for hit in sidecar.search(unit_vectors(8, 1, DIM)[0] if question is None else question, K, Filter())
    ]


def inodes(folder: Path) -> dict[str, int]:
    """Give the file number of each vector file of the only generation."""
    return {file.name: file.stat().st_ino for file in folder.glob("generation-*/*.faiss")}
