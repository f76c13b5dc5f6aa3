"""Several threads at once: writers, searchers, compaction and saving."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import faiss
import pytest

from infinite_memory.index.vector import faiss_index
from infinite_memory.index.vector.files import FaissIndexFiles
from infinite_memory.models import Filter
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

STEADY, BUSY = 400, 600


def test_searches_stay_right_while_others_write_compact_and_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faiss_index, "COMPACT_AT_LEAST", 50)
    sidecar = make_sidecar(make_row(number, scope=1, tags=["steady"]) for number in range(STEADY))
    files = FaissIndexFiles(tmp_path)
    done = threading.Event()
    query = unit_vectors(321, 1)[0]
    steady = Filter(scope_ids=frozenset({scope_id(1)}))
    expected = sidecar.search(query, 30, steady)
    listed = sidecar.list_page(steady, STEADY, None, newest_first=False)

    def write(first: int) -> None:
        for turn in range(3):
            numbers = range(first, first + BUSY)
            for number in numbers:
                sidecar.upsert([make_row(number, scope=2, revision=turn + 1, tags=[f"turn {turn}"])])
                if number % 3 == 0:
                    sidecar.remove([memory_id(number)])

    def read() -> int:
        turns = 0
        while not done.is_set() or turns == 0:
            turns += 1
            assert sidecar.search(query, 30, steady) == expected
            assert sidecar.list_page(steady, STEADY, None, newest_first=False) == listed
            assert len(sidecar.search(query, 50, Filter())) == 50
            assert sidecar.count(Filter(tag_keys=frozenset({"steady"}))) == STEADY
        return turns

    def keep_up() -> None:
        while not done.is_set():
            sidecar.compact()
            files.save(sidecar, DATABASE, b"token")
            loaded, _ = files.load(DATABASE, SPACE, DIM)
            assert loaded.search(query, 30, steady) == expected

    with ThreadPoolExecutor(5) as pool:
        readers = [pool.submit(read) for _ in range(2)]
        keeper = pool.submit(keep_up)
        try:
            for writer in [pool.submit(write, first) for first in (10_000, 20_000)]:
                writer.result()
        finally:
            done.set()
        assert all(reader.result() > 0 for reader in readers)
        keeper.result()
    left = {memory_id(n): 3 for first in (10_000, 20_000) for n in range(first, first + BUSY) if n % 3}
    assert revisions(sidecar) == left | {memory_id(number): 1 for number in range(STEADY)}
    assert len(sidecar.search(query, 5000, Filter())) == STEADY + len(left)


def test_the_interface_loads_neither_numpy_nor_faiss() -> None:
    program = "import sys, infinite_memory.index.base; print({'numpy', 'faiss'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def test_a_search_takes_one_thread_whoever_asks() -> None:
    """OpenMP keeps the number for each thread, and waiting for threads without work took sixty times as long as the search."""
    sidecar = make_sidecar(make_row(number) for number in range(STEADY))

    def search() -> int:
        sidecar.search(unit_vectors(321, 1)[0], 10, Filter())
        return int(faiss.omp_get_max_threads())

    with ThreadPoolExecutor(1) as other:
        assert (other.submit(search).result(), search()) == (1, 1)
