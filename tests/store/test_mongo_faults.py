"""A MongoDB that dies, freezes, is not there or comes back: bounded waits, clear errors, nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infinite_memory.errors import ConfigError, StoreError, StoreUnavailableError
from infinite_memory.models import MemoryId, MemoryRecord
from infinite_memory.mongod import wire
from infinite_memory.mongod.server import LocalMongo
from infinite_memory.store.base import ChangeKind
from infinite_memory.store.mongo.store import MongoStore
from tests.mongo_server import StandaloneMongo

from .conftest import at, changes_until_quiet, global_scope, make_memory

DRIVERS = pytest.mark.parametrize("driver", ["pymongo", "motor"])

GENEROUS = 8.0
"""How many times the store's own limit a test waits before it calls a wait unbounded."""


@contextlib.asynccontextmanager
async def own_server(home: Path, kind: type[LocalMongo] = LocalMongo) -> AsyncIterator[LocalMongo]:
    mongo = kind(home, log_dir=home / "logs")
    try:
        await mongo.start()
        yield mongo
    finally:
        await mongo.stop()


@contextlib.asynccontextmanager
async def own_store(mongo: LocalMongo, driver: str = "pymongo", timeout_s: float = 5.0) -> AsyncIterator[MongoStore]:
    store = MongoStore(mongo.ensure, driver=driver, timeout_s=timeout_s, process=mongo.own_pid)
    try:
        await store.connect()
        yield store
    finally:
        await store.close()


async def insert_until(store: MongoStore, stop: asyncio.Event) -> tuple[list[MemoryRecord], list[StoreError]]:
    """Store one memory after the other; give those acknowledged, and the failures."""
    scope = await global_scope(store)
    acknowledged: list[MemoryRecord] = []
    failures: list[StoreError] = []
    while not stop.is_set():
        memory = make_memory(scope)
        try:
            await store.insert([memory])
            acknowledged.append(memory)
        except StoreUnavailableError as exc:
            failures.append(exc)
    return acknowledged, failures


async def answering(store: MongoStore) -> None:
    """Wait until the store answers again."""
    while True:
        with contextlib.suppress(StoreUnavailableError):
            await store.ping()
            return


@DRIVERS
async def test_a_server_killed_in_the_middle_of_writes_loses_nothing_acknowledged(tmp_path: Path, driver: str) -> None:
    async with own_server(tmp_path) as mongo, own_store(mongo, driver) as store:
        stop = asyncio.Event()
        writers = [asyncio.create_task(insert_until(store, stop)) for _ in range(4)]
        for _ in range(3):
            await asyncio.sleep(0.3)
            killed = mongo.pid
            assert killed is not None
            os.kill(killed, signal.SIGKILL)
            while mongo.pid in (killed, None):
                await asyncio.sleep(0.02)
            await answering(store)
        stop.set()
        stored = [memory for acknowledged, _ in await asyncio.gather(*writers) for memory in acknowledged]
        assert len(stored) > 10
        found = await store.fetch(at(*stored))
        assert found.keys() == at(*stored).keys()
        ids = [one.memory_id async for one in store.versions()]
        assert len(ids) == len(set(ids))


class StartingMongo(LocalMongo):
    """A member of a replica set that answers and takes no writes yet, as for a moment after every start."""

    async def _is_writable(self) -> bool:
        with contextlib.suppress(OSError, TimeoutError):
            return (await wire.ask(self._socket_file, {"hello": 1})).is_true("isreplicaset")
        return False

    async def take_writes(self) -> None:
        while not await super()._is_writable():
            await asyncio.sleep(0.05)


@DRIVERS
@pytest.mark.parametrize("is_told", [True, False], ids=["told of the start", "not told"])
async def test_a_connection_opened_while_the_server_starts_is_not_kept(
    tmp_path: Path, driver: str, is_told: bool
) -> None:
    """The driver believes for as long as such a connection lives that there are no sessions, and so no transactions."""

    async with own_server(tmp_path, StartingMongo) as mongo:
        assert isinstance(mongo, StartingMongo)
        starts = 1
        store = MongoStore(mongo.uri, driver=driver, process=lambda: starts)
        try:
            await store.ping()
            await mongo.take_writes()
            starts += is_told
            await store.connect()
            memories = [make_memory(await global_scope(store)) for _ in range(2)]
            if not is_told:
                with pytest.raises(StoreUnavailableError, match="Sessions are not supported"):
                    await store.insert(memories)
            await store.insert(memories)
            assert (await store.fetch(at(*memories))).keys() == at(*memories).keys()
        finally:
            await store.close()


@DRIVERS
async def test_a_frozen_server_is_said_to_be_unavailable_and_then_works_again(tmp_path: Path, driver: str) -> None:
    async with own_server(tmp_path) as mongo, own_store(mongo, driver, timeout_s=0.5) as store:
        scope = await global_scope(store)
        memory = make_memory(scope)
        await store.insert([memory])
        token = await store.change_token()
        pid = mongo.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)
        try:
            for attempt in (
                store.ping(),
                store.fetch(at(memory)),
                store.insert([make_memory(scope)]),
                store.insert([make_memory(scope), make_memory(scope)]),
                store.list_scopes(),
                store.count_live(),
                store.change_token(),
                changes_until_quiet(store, token),
            ):
                with pytest.raises(StoreUnavailableError):
                    async with asyncio.timeout(0.5 * GENEROUS):
                        await attempt
        finally:
            os.kill(pid, signal.SIGCONT)
        await answering(store)
        assert mongo.pid == pid
        assert (await store.fetch(at(memory))).keys() == at(memory).keys()
        await changes_until_quiet(store, token)


async def test_a_feed_that_broke_is_followed_on_from_its_last_token(tmp_path: Path) -> None:
    async with own_server(tmp_path) as mongo, own_store(mongo) as store:
        scope = await global_scope(store)
        before, after = make_memory(scope), make_memory(scope)
        token = await store.change_token()
        await store.insert([before])
        token = (await changes_until_quiet(store, token))[-1].token
        pid = mongo.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        await answering(store)
        await store.insert([after])
        told = await changes_until_quiet(store, token)
        assert [one.memory_id for one in told if one.kind is ChangeKind.WRITTEN] == [after.memory_id]


# PyMongo leaves the socket of an attempt that `close` cancels to the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@DRIVERS
async def test_a_server_that_is_not_there_is_named_with_what_to_do(tmp_path: Path, driver: str) -> None:
    store = MongoStore("mongodb://127.0.0.1:1/?directConnection=true", driver=driver, timeout_s=0.3)
    try:
        for _ in range(2):
            with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1:1.*mongodb\.uri"):
                async with asyncio.timeout(0.3 * GENEROUS):
                    await store.connect()
    finally:
        await store.close()
    gc.collect()


@DRIVERS
async def test_a_store_works_as_soon_as_its_server_comes_back(tmp_path: Path, driver: str) -> None:
    mongo = LocalMongo(tmp_path, log_dir=tmp_path / "logs")
    uri = await mongo.start()
    store = MongoStore(uri, driver=driver, timeout_s=1.0)
    try:
        await store.connect()
        memory = make_memory(await global_scope(store))
        await store.insert([memory])
        await mongo.stop()
        with pytest.raises(StoreUnavailableError):
            await store.fetch(at(memory))
        await mongo.start()
        await answering(store)
        assert (await store.fetch(at(memory))).keys() == at(memory).keys()
        await store.insert([make_memory(memory.scope_id)])
    finally:
        await store.close()
        await mongo.stop()


async def test_a_standalone_server_killed_in_the_middle_of_writes_loses_nothing_acknowledged(tmp_path: Path) -> None:
    async with own_server(tmp_path, StandaloneMongo) as mongo, own_store(mongo) as store:
        stop = asyncio.Event()
        writer = asyncio.create_task(insert_until(store, stop))
        await asyncio.sleep(0.3)
        pid = mongo.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        while mongo.pid in (pid, None):
            await asyncio.sleep(0.02)
        await answering(store)
        stop.set()
        stored, _ = await writer
        assert (await store.fetch(at(*stored))).keys() == at(*stored).keys()


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
async def test_a_driver_or_uri_that_cannot_be_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"mongodb\.driver"):
        MongoStore("mongodb://localhost", driver="mysql")
    for uri in ("nonsense", "mongodb://", "mongodb://a:b:c@d", "mongodb://a@b@c"):
        store = MongoStore(uri, timeout_s=0.2)
        try:
            with pytest.raises((ConfigError, StoreUnavailableError)):
                await store.connect()
        finally:
            await store.close()
    gc.collect()


class FailingMongo(LocalMongo):
    """A server that can be told to fail."""

    def _replication_arguments(self) -> list[str]:
        return [*super()._replication_arguments(), "--setParameter", "enableTestCommands=1"]


async def test_a_memory_whose_answer_was_lost_is_stored_once(tmp_path: Path) -> None:
    async with own_server(tmp_path, FailingMongo) as mongo, own_store(mongo) as store:
        memory = make_memory(await global_scope(store))
        fail = {"mode": {"times": 1}, "data": {"failCommands": ["insert"], "closeConnection": True}}
        await store._connection.client.admin.command({"configureFailPoint": "failCommand", **fail})
        await store.insert([memory])
        assert [MemoryId(one.memory_id) async for one in store.versions()] == [memory.memory_id]
