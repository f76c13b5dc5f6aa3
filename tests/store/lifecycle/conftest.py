"""What the lifecycle's tests share: whole memories, with the real model, on the test run's MongoDB."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from infinite_memory.bootstrap import Application, new_session
from infinite_memory.clock import Clock, system_clock
from infinite_memory.config import load_config
from infinite_memory.embedding.factory import open_embedder
from infinite_memory.embedding.manifest import SECOND_MODEL
from infinite_memory.engine.engine import Engine, Services
from infinite_memory.paths import Home
from tests.mongo_server import fresh_database, mongo_uri
from tests.processes import need_parts

if TYPE_CHECKING:
    from infinite_memory.contracts.native.contract import NativeContract
    from infinite_memory.embedding.base import Embedder

__all__ = ["mongo_uri"]

Json = dict[str, Any]


@functools.cache
def loaded_embedder() -> Embedder:
    """Load the default model once for the whole run."""
    need_parts()
    embedder = open_embedder("all-MiniLM-L6-v2")
    embedder.load()
    return embedder


@functools.cache
def second_embedder() -> Embedder:
    """Open the second model once for the whole run; it is loaded by the first test that needs it."""
    return open_embedder(SECOND_MODEL)


class OneModelApp(Application):
    """An app that shares the run's models."""

    def _open_parts(self) -> Any:
        _, _, *others = super()._open_parts()
        return loaded_embedder(), second_embedder(), *others


@dataclass
class Memory:
    """A running memory, asked by the native contract."""

    app: Application
    engine: Engine
    contract: NativeContract

    @property
    def services(self) -> Services:
        """What the engine works with, for tests that look behind it."""
        assert self.app.services is not None
        return self.app.services

    async def ask(self, action: str, **fields: Any) -> Json:
        """Send one request."""
        return await self.contract.handle({"action": action, **fields})

    async def ok(self, action: str, **fields: Any) -> Json:
        """Send one request that succeeds."""
        reply = await self.ask(action, **fields)
        assert reply["status"] == "OK", reply
        assert "warnings" not in reply, reply["warnings"]
        return reply

    async def store(self, content: str, scope: str = "Global", **metadata: Any) -> str:
        """Store a memory; gives its id."""
        reply = await self.ok("store_memory", content=content, metadata={"scope": scope, **metadata})
        return str(reply["memory_id"])


Open = Callable[..., contextlib.AbstractAsyncContextManager[Memory]]


@pytest.fixture
def make_open(mongo_uri: str) -> Callable[[Path], Open]:
    """Give what makes an `Open` whose homes lie in a folder."""
    return lambda folder: opening(mongo_uri, folder)


@pytest.fixture
def open_memory(mongo_uri: str, tmp_path: Path) -> Open:
    """Give what opens a memory: a new one for each name, with settings such as ``{"backup.time": "03:00"}``."""
    return opening(mongo_uri, tmp_path)


def opening(uri: str, folder: Path, driver: str = "pymongo") -> Open:
    """Give what opens memories on a server, with homes in a folder."""
    databases: dict[str, str] = {}

    @contextlib.asynccontextmanager
    async def open_one(
        name: str = "home", flags: dict[str, str] | None = None, clock: Clock = system_clock
    ) -> AsyncIterator[Memory]:
        database = databases.setdefault(name, fresh_database())
        given = {"mongodb.uri": uri, "mongodb.database": database, "mongodb.driver": driver, "backup.time": "",
                 "time.zone": "UTC"}  # fmt: skip
        given |= {"import.folders": str(folder)}
        config = load_config(folder / "none.toml", {}, given | (flags or {}))
        home = Home(folder / name, explicit=True)
        async with OneModelApp(config, home, clock) as app:
            yield Memory(app, await app.engine(), app.contract(new_session(config, {})))

    return open_one


async def staged_names(memory: Memory) -> list[str]:
    """List collections that a restore left."""
    store: Any = memory.services.store
    async with store._connection.operation() as database:
        return [name for name in await database.list_collection_names() if name.startswith("staged_")]
