"""pymilvus is imported without pandas, and whoever needs pandas gets the real one. Each test has a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.milvus_server import LiteServer
from tests.processes import ROOT

BEGIN = """
import sys, threading
from infinite_memory.index.milvus import pymilvus_loader
from infinite_memory.index.milvus.pymilvus_loader import load_pymilvus
def has_pandas():
    return any(name.partition(".")[0] in ("pandas", "pyarrow") for name in sys.modules)
"""


def run(program: str, *arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + program, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="the server's package is for Linux")
def test_an_index_is_filled_saved_loaded_and_searched_without_pandas(tmp_path: Path) -> None:
    server = LiteServer(tmp_path)
    server.start()
    try:
        run(
            """
from infinite_memory.index.milvus.files import MilvusIndexFiles
from infinite_memory.models import Filter
from tests.unit.index.builders import DIM, SPACE, make_row, unit_vectors

files = MilvusIndexFiles(sys.argv[1], None, timeout_s=30)
index = files.create(SPACE, DIM)
row = make_row(1)
index.upsert([row])
index.remove([row.memory_id])
index.upsert([row])
files.save(index, "database", b"token")
loaded, token = files.load("database", SPACE, DIM)
assert token == b"token"
assert loaded.count(Filter()) == 1
assert [hit.memory_id for hit in loaded.search(unit_vectors(1, 1)[0], 5, Filter())] == [row.memory_id]
assert list(loaded.list_page(Filter(), 5, None, newest_first=True).memory_ids) == [row.memory_id]
assert [found for page in loaded.iter_revisions() for found in page] == [row.memory_id]
assert not has_pandas()

import os, time
child = os.fork()  # as `subprocess` does for a program of another user
if child == 0:
    time.sleep(0.5)
    os._exit(len(os.listdir("/proc/self/task")))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1, "gRPC started its threads in the child"
""",
            server.uri,
        )
    finally:
        server.kill()


def test_no_placeholder_is_left_and_pandas_can_be_used_afterwards() -> None:
    run(
        """
load_pymilvus()
assert not has_pandas()
from pymilvus.orm.schema import is_valid_insert_data
import pandas
assert is_valid_insert_data([]) and not is_valid_insert_data(3)
assert is_valid_insert_data(pandas.DataFrame()) and not is_valid_insert_data(pandas.Series())
"""
    )


def test_its_functions_import_pandas_when_they_are_called() -> None:
    run(
        """
load_pymilvus()
from pymilvus.client.types import DataType
from pymilvus.orm.types import infer_dtype_bydata
assert infer_dtype_bydata([1.0, 2.0]) == DataType.FLOAT_VECTOR
assert has_pandas()
"""
    )


def test_another_thread_gets_the_real_pandas_meanwhile() -> None:
    run(
        """
import importlib, importlib.util
real_import, seen = importlib.import_module, []

def other():
    assert importlib.util.find_spec("pandas") is not None
    import pandas, pandas.api.types
    from pandas.api.types import is_scalar
    assert is_scalar(1) and len(pandas.Series([1, 2])) == 2
    seen.append(pandas.DataFrame({"a": [1]}).shape)

def slow_import(name, package=None):
    if name == "pymilvus":
        assert isinstance(sys.modules["pandas"], pymilvus_loader._Placeholder)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(60)
    return real_import(name, package)

importlib.import_module = slow_import
assert load_pymilvus().MilvusClient
assert seen == [(1, 1)]
import pandas
assert not isinstance(pandas, pymilvus_loader._Placeholder)
"""
    )


def test_pandas_that_is_there_already_is_left_alone() -> None:
    run(
        """
import pandas
load_pymilvus()
import pymilvus.orm.schema
assert sys.modules["pandas"] is pandas is pymilvus.orm.schema.pd
"""
    )
