"""What of mapped files stays in memory: no more than a bound, and what was given back is read again as it was."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from infinite_memory.index import mmap_memory
from infinite_memory.index.generations import Saved
from infinite_memory.index.mmap_memory import enforce_rss_limit, resident_bytes
from infinite_memory.index.vector import table as vector_table
from infinite_memory.index.vector.faiss_search import Codes, map_codes, to_bytes
from infinite_memory.index.vector.search import RowFilter, find_nearest
from infinite_memory.index.vector.table import VectorSnapshot, VectorTable
from tests.unit.index.builders import unit_vectors

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere the system does not say what is in memory")

DIM, FILE_ROWS, FILES = 384, 8192, 4
FILE_BYTES = 2 * DIM * FILE_ROWS
SLACK = 1 << 20  # the pages at the ends of the files, and what the program itself maps meanwhile


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder on a disk: the system counts what is in a folder in memory as another kind."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def vectors() -> Codes:
    return unit_vectors(1, FILE_ROWS * FILES, DIM).astype(np.float16)


@pytest.fixture
def paths(tmp_path: Path, vectors: Codes) -> list[Path]:
    """Save the vectors in files of equal size."""
    made = [tmp_path / f"vectors-{number}.faiss" for number in range(FILES)]
    for path, some in zip(made, np.split(vectors, FILES), strict=True):
        to_bytes(some).tofile(path)
    return made


def mapped_table(paths: list[Path]) -> VectorTable:
    table = VectorTable(DIM)
    for path in paths:
        table.attach(Saved(path, path.stat().st_size, 0))
    table.set_owners(np.ones(FILE_ROWS * FILES, np.int64))
    return table


def resident_in(folder: Path) -> int:
    """Ask the system how much of the files in *folder* this process has in memory."""
    sizes = re.findall(
        rf"{re.escape(str(folder))}.*?^Rss: +(\d+) kB", Path("/proc/self/smaps").read_text(), re.M | re.S
    )
    return 1024 * sum(map(int, sizes))


def nearest(table: VectorSnapshot, vector: Codes) -> int:
    everything = RowFilter(lambda slots: np.ones(len(slots), np.bool_), lambda: np.ones(len(table.slots), np.bool_))
    return int(find_nearest(table, vector.astype(np.float32), 1, everything).slots[0])


def test_a_search_leaves_no_more_in_memory_than_the_bound_and_finds_all_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, paths: list[Path], vectors: Codes
) -> None:
    table = mapped_table(paths).snapshot()
    bound = resident_bytes() + FILES * FILE_BYTES // 2
    monkeypatch.setattr(vector_table, "MAX_RESIDENT", bound)
    for number in range(0, len(vectors), 1000):
        assert nearest(table, vectors[number]) == number
        assert resident_bytes() <= bound + SLACK
        assert resident_in(tmp_path) > FILE_BYTES
    assert np.array_equal(table.read(np.arange(len(vectors))), vectors)


def test_without_a_need_all_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, paths: list[Path], vectors: Codes
) -> None:
    table = mapped_table(paths).snapshot()
    monkeypatch.setattr(vector_table, "MAX_RESIDENT", resident_bytes() + 2 * FILES * FILE_BYTES)
    assert nearest(table, vectors[5]) == 5
    assert resident_in(tmp_path) >= FILES * FILE_BYTES


def test_what_was_held_longest_is_given_back_first(tmp_path: Path, paths: list[Path]) -> None:
    arrays = [map_codes(path, DIM) for path in paths]
    arrays[0].release_pages()  # the youngest now
    for array in arrays:
        assert array.rows.any()
    before = resident_bytes()
    enforce_rss_limit(before - 2 * FILE_BYTES, arrays)
    assert [resident_in(path) < SLACK for path in paths] == [False, True, True, False]
    enforce_rss_limit(0, arrays)
    assert resident_in(tmp_path) < SLACK


def test_of_what_is_small_beside_the_bound_the_system_is_not_asked(
    monkeypatch: pytest.MonkeyPatch, paths: list[Path]
) -> None:
    arrays = [map_codes(path, DIM) for path in paths]
    asked = []

    def resident() -> int:
        asked.append(True)
        return 1 << 40

    monkeypatch.setattr(mmap_memory, "resident_bytes", resident)
    enforce_rss_limit(FILES * FILE_BYTES * mmap_memory.SMALL_SHARE, arrays)
    assert not asked
    enforce_rss_limit(FILES * FILE_BYTES, arrays)
    assert asked
