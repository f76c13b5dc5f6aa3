"""What the store's tests share: real servers, a fresh database for each test, every driver, and builders of memories."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from bson import ObjectId

from infinite_memory.models import Embedding, MemoryId, MemoryRecord, Scope, ScopeId, Window
from infinite_memory.store.base import Change
from tests.mongo_server import (
    StandaloneMongo,
    database,
    fresh_database,
    mongo_uri,
    open_store,
    shared_mongo,
    standalone_uri,
)
from tests.sampling import sample

if TYPE_CHECKING:
    from infinite_memory.store.mongo.store import MongoStore

__all__ = ["database", "mongo_uri", "standalone_uri"]

NOW = dt.datetime(2026, 3, 14, 15, 9, 26, 535000, tzinfo=dt.UTC)


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a store can be opened, as often as a test likes."""

    uri: str
    database: str
    driver: str

    def open(self, **options: Any) -> contextlib.AbstractAsyncContextManager[MongoStore]:
        """Give a connected store."""
        return open_store(self.uri, self.database, self.driver, **options)


@pytest.fixture(params=["pymongo", "motor", "standalone"])
def place(request: pytest.FixtureRequest) -> Place:
    """A fresh database for each driver on a replica set, and for PyMongo on a server that is none."""
    return make_place(request.param)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take a sample to the second driver, which sends the same commands."""
    sample(config, items, lambda parameters: parameters.get("place") == "motor")


def make_place(kind: str) -> Place:
    """Name a fresh database: for a driver on a replica set, or on a server that is none ("standalone")."""
    if kind == "standalone":
        return Place(shared_mongo(StandaloneMongo).uri, fresh_database(), "pymongo")
    return Place(shared_mongo().uri, fresh_database(), kind)


def make_memory(scope: Scope | ScopeId, text: str = "tea", **fields: Any) -> MemoryRecord:
    """Build a memory that shows only what a test is about."""
    scope_id = scope.scope_id if isinstance(scope, Scope) else scope
    memory = MemoryRecord(MemoryId(str(ObjectId())), scope_id, text, "conversation", NOW, NOW, NOW)
    return dataclasses.replace(memory, **fields)


def make_embedding(*rows: list[float], space: str = "model/3/fp32") -> Embedding:
    """Build an embedding with one window of ten characters for each row."""
    windows = tuple(Window(10 * number, 10 * number + 10) for number in range(len(rows)))
    return Embedding(space, windows, np.array(rows, dtype=np.float32))


def at(*memories: MemoryRecord) -> dict[MemoryId, ScopeId]:
    """Say where memories are."""
    return {memory.memory_id: memory.scope_id for memory in memories}


async def global_scope(store: MongoStore) -> Scope:
    """Find the scope that is always there."""
    [found] = [scope for scope in await store.list_scopes() if scope.name == "Global"]
    return found


async def changes_until_quiet(store: MongoStore, token: bytes) -> list[Change]:
    """Read the change feed until it has caught up."""
    told: list[Change] = []
    async for change in store.changes(token):
        if change is None:
            return told
        told.append(change)
    raise AssertionError("the feed ended")
