"""The implementations that the suite runs over. A new one is one line in `VECTOR_INDEXES` or `TEXT_INDEXES`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from infinite_memory.index.base import TextFiles, VectorIndexFiles
from infinite_memory.index.text.files import TantivyTextFiles
from infinite_memory.index.vector.files import FaissIndexFiles

VECTOR_INDEXES: dict[str, Callable[[Path], VectorIndexFiles]] = {"faiss": FaissIndexFiles}
TEXT_INDEXES: dict[str, Callable[[Path], TextFiles]] = {"tantivy": TantivyTextFiles}
"""What opens the files of an implementation that has its data in a folder, or its address and name from it."""


@pytest.fixture(scope="module", params=VECTOR_INDEXES)
def open_vector_files(request: pytest.FixtureRequest) -> Callable[[Path], VectorIndexFiles]:
    """Return what opens the files of one implementation of `VectorIndex`."""
    return VECTOR_INDEXES[request.param]


@pytest.fixture(scope="module", params=TEXT_INDEXES)
def open_text_files(request: pytest.FixtureRequest) -> Callable[[Path], TextFiles]:
    """Return what opens the files of one implementation of `TextIndex`."""
    return TEXT_INDEXES[request.param]
