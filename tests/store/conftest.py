"""What the store's tests share: a real server, a fresh database, both drivers, and a builder of memories."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import numpy as np
import pytest
from bson import ObjectId

from infinite_memory.models import Embedding, MemoryId, MemoryRecord, ScopeId, Window
from tests.mongo_server import database, mongo_uri, standalone_uri

__all__ = ["database", "driver", "mongo_uri", "standalone_uri"]

NOW = dt.datetime(2026, 3, 14, 15, 9, 26, 535000, tzinfo=dt.UTC)


@pytest.fixture(params=["pymongo", "motor"])
def driver(request: pytest.FixtureRequest) -> str:
    """Each driver the store takes."""
    return str(request.param)


def make_memory(scope_id: ScopeId, text: str = "tea", **fields: Any) -> MemoryRecord:
    """Build a memory that shows only what a test is about."""
    memory = MemoryRecord(MemoryId(str(ObjectId())), scope_id, text, "conversation", NOW, NOW, NOW)
    return dataclasses.replace(memory, **fields)


def make_embedding(*rows: list[float], space: str = "model/3/fp32") -> Embedding:
    """Build an embedding with one window of ten characters for each row."""
    windows = tuple(Window(10 * number, 10 * number + 10) for number in range(len(rows)))
    return Embedding(space, windows, np.array(rows, dtype=np.float32))
