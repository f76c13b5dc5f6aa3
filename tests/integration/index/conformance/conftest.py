"""The implementations that the suite runs over. A new one is one line in `VECTOR_INDEXES` or `TEXT_INDEXES`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infinite_memory.index.base import TextFiles, VectorIndexFiles
from infinite_memory.index.milvus import connection, silence
from infinite_memory.index.milvus.files import MilvusIndexFiles
from infinite_memory.index.text.files import TantivyTextFiles
from infinite_memory.index.vector.files import FaissIndexFiles
from tests.milvus_server import MilvusServer
from tests.sampling import sample

LONG = bool(os.environ.get("INFINITE_MEMORY_TEST_LONG"))
MILVUS_URI = os.environ.get("INFINITE_MEMORY_TEST_MILVUS_URI")

VECTOR_INDEXES = ("faiss", "milvus-lite", *(("milvus",) if LONG or MILVUS_URI else ()))
"""The standalone server takes three seconds for each index that is made, so it is asked in long runs alone, or where one is named."""
TEXT_INDEXES: dict[str, Callable[[Path], TextFiles]] = {"tantivy": TantivyTextFiles}
"""What opens the files of an implementation that has its data in a folder."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take a sample of what a Milvus answers once it is opened again: saving writes nothing there that was not written before."""
    sample(
        config,
        items,
        lambda parameters: parameters.get("open_vector_files") == "milvus-lite" and "loaded" in parameters.values(),
    )


@pytest.fixture(autouse=True)
def _busy_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a server that shares the machine with other tests take its time: what is silent is tested elsewhere."""
    for module in (silence, connection):
        monkeypatch.setattr(module, "ANSWER_S", 30.0)


@pytest.fixture(scope="session")
def milvus_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return where a Milvus server runs: the one that a variable names, or one that is started."""
    if MILVUS_URI:
        yield MILVUS_URI
        return
    server = MilvusServer(tmp_path_factory.mktemp("milvus"))
    server.start()
    yield server.uri
    server.stop()


@pytest.fixture(scope="session")
def milvus_lite_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return where the embedded form of Milvus has its data, which runs in this process."""
    return str(tmp_path_factory.mktemp("milvus") / "lite.db")


@pytest.fixture(scope="module", params=VECTOR_INDEXES)
def open_vector_files(request: pytest.FixtureRequest) -> Callable[[Path], VectorIndexFiles]:
    """Return what opens the files of one implementation of `VectorIndex`; of one on a server, a folder's name tells them apart."""
    if request.param == "faiss":
        return FaissIndexFiles
    uri = request.getfixturevalue("milvus_lite_uri" if request.param == "milvus-lite" else "milvus_uri")
    return lambda folder: MilvusIndexFiles(
        uri, None, timeout_s=30, name=f"t{hashlib.sha256(bytes(folder)).hexdigest()[:16]}"
    )


@pytest.fixture(scope="module", params=TEXT_INDEXES)
def open_text_files(request: pytest.FixtureRequest) -> Callable[[Path], TextFiles]:
    """Return what opens the files of one implementation of `TextIndex`."""
    return TEXT_INDEXES[request.param]
