"""One real MongoDB for a whole test run, and a fresh database in it for each test.

A test asks for the fixtures ``mongo_uri`` and ``database``, which a folder's conftest imports from here (see
``tests/store/conftest.py``), and opens stores with `open_store`. The server's home is a temporary folder that goes with it.
Without a mongod these tests are skipped on a desk and fail in CI.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import functools
import itertools
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pymongo
import pytest

from infinite_memory.errors import StoreUnavailableError
from infinite_memory.loop_watchdog import Hold, LoopWatchdog, run_watched
from infinite_memory.mongod.binary import find_binary
from infinite_memory.mongod.server import LocalMongo

if TYPE_CHECKING:
    from infinite_memory.store.mongo.store import MongoStore

T = TypeVar("T")

TOLERATED_S = 0.15
"""Of processor time in one turn of the loop, thrice what a quiet machine may take: beside other tests every instruction costs more."""

_numbers = itertools.count(1)
_used: list[str] = []  # databases that nobody has dropped yet
_running: list[SharedMongo] = []


def run(work: Coroutine[Any, Any, T], timeout_s: float = 120) -> T:
    """Run one asynchronous test to its end, or fail when it hangs."""

    async def bounded() -> T:
        async with asyncio.timeout(timeout_s):
            return await work

    watchdog = LoopWatchdog()
    result = run_watched(bounded(), watchdog)
    check_holds([hold for hold in watchdog.holds if hold.commands])
    return result


def check_holds(holds: Sequence[Hold]) -> None:
    """Fail where a command of ours held up the event loop."""
    long = [hold for hold in holds if hold.cpu_s > TOLERATED_S]
    assert not long, f"the event loop was held for {'; '.join(map(str, long))}"


def fresh_database() -> str:
    """Name a database that no other test of any run uses; it is dropped when the last test of the file is over."""
    _used.append(f"test_{os.getpid()}_{next(_numbers)}")
    return _used[-1]


def drop_databases() -> None:
    """Drop what `fresh_database` named so far: a server with thousands of files takes minutes for what takes it a second."""
    for server in _running:
        with pymongo.MongoClient[dict[str, Any]](server.uri) as client:
            for name in _used:
                client.drop_database(name)
    _used.clear()


class StandaloneMongo(LocalMongo):
    """A server that is no replica set: without change streams and transactions, as many people run theirs."""

    def _replication_arguments(self) -> list[str]:
        return []


class SharedMongo:
    """A server that lives as long as the test run, in an event loop of its own."""

    def __init__(self, kind: type[LocalMongo] = LocalMongo) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="im-test-")
        home = Path(self._folder.name)
        self._mongo = kind(home, log_dir=home / "logs")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="test-mongod", daemon=True)
        self._thread.start()
        self.uri = self._wait(self._mongo.start())

    def stop(self) -> None:
        """Stop the server and remove its data."""
        self._wait(self._mongo.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._folder.cleanup()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


@functools.cache
def shared_mongo(kind: type[LocalMongo] = LocalMongo) -> SharedMongo:
    """Give this run's server, started by the first test that needs it and stopped when Python ends."""
    try:
        find_binary()
    except StoreUnavailableError as exc:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(exc))
    server = SharedMongo(kind)
    _running.append(server)
    atexit.register(server.stop)
    return server


@pytest.fixture
def mongo_uri() -> str:
    """Where this run's server listens: a replica set of one."""
    return shared_mongo().uri


@pytest.fixture
def standalone_uri() -> str:
    """Where a server listens that is no replica set."""
    return shared_mongo(StandaloneMongo).uri


@pytest.fixture
def database() -> str:
    """The name of a database that this test alone uses."""
    return fresh_database()


@contextlib.asynccontextmanager
async def open_store(uri: str, database: str, driver: str = "pymongo", **options: Any) -> AsyncIterator[MongoStore]:
    """Give a connected store, and close it afterwards."""
    from infinite_memory.store.mongo.store import MongoStore

    store = MongoStore(uri, database=database, driver=driver, **options)
    try:
        await store.connect()
        yield store
    finally:
        await store.close()
