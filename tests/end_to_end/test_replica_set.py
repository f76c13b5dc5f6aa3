"""A replica set of three whose primary is killed under load: nothing acknowledged is lost, recalls go on, the daemon stays."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId
from pymongo import MongoClient

from infinite_memory.store.mongo import mapping, schema
from tests.end_to_end.replica_set import ReplicaSet
from tests.end_to_end.test_mongodb_faults import Load, all_found
from tests.mongo_server import fresh_database, open_store
from tests.processes import LONG, Client, Installation, need_parts, until
from tests.store.conftest import global_scope, make_memory

KILLS = 6 if LONG else 1
CLIENTS = 4


@pytest.fixture(scope="module")
def replica_set(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaSet]:
    need_parts()
    three = ReplicaSet(tmp_path_factory.mktemp("replica-set"))
    try:
        three.start()
        yield three
    finally:
        three.stop()


@pytest.fixture(params=["pymongo", "motor"] if LONG else ["pymongo"])
def over_three(request: pytest.FixtureRequest, replica_set: ReplicaSet, tmp_path: Path) -> Iterator[Installation]:
    environ = {
        "INFINITE_MEMORY_MONGODB__URI": replica_set.uri,
        "INFINITE_MEMORY_MONGODB__DATABASE": fresh_database(),
        "INFINITE_MEMORY_MONGODB__DRIVER": request.param,
    }
    with Installation(tmp_path / "home", environ) as installation:
        yield installation


def recalls(client: Client) -> bool:
    """Ask by meaning; while there is no primary an error is allowed, a wrong answer is not."""
    reply = client.ask("retrieve_memory", query="which colour do I like best?", scope="Personal")
    if reply["status"] == "OK":
        assert reply["results"][0]["text"] == "My favorite color is blue", reply
    else:
        assert reply["error_code"] == "CONNECTION_ERROR", reply
    return bool(reply["status"] == "OK")


def test_a_primary_killed_under_load_loses_nothing_acknowledged(
    over_three: Installation, replica_set: ReplicaSet
) -> None:
    client = over_three.serve()
    stored = client.ask("store_memory", content="My favorite color is blue", scope="Personal")
    assert stored["status"] == "OK"
    assert client.ask("get_memory_stats")["stats"]["mongodb"]["deployment"] == "replica set"
    daemon = over_three.daemon_pid()
    load = Load(over_three, CLIENTS)
    try:
        for _ in range(KILLS):
            load.goes_on()
            killed = replica_set.primary()
            assert killed is not None
            replica_set.kill(killed)
            assert client.ask("ping")["pong"]
            recalls(client)
            until(lambda killed=killed: replica_set.primary() not in (killed, None), "another one is the primary")
            until(lambda: recalls(client), "recalls work again")
            load.goes_on()
            replica_set.start_member(killed)
    finally:
        load.end()
    assert over_three.daemon_pid() == daemon, "the daemon stayed"
    all_found(over_three, load.kept, CLIENTS)


def test_a_primary_that_froze_and_comes_back_takes_nothing_with_it(
    over_three: Installation, replica_set: ReplicaSet
) -> None:
    """What it took before and did not pass on is rolled back when it thaws: nobody may have been told that it is stored."""
    until(lambda: over_three.call("store_memory", content="tea")["status"] == "OK", "the set takes writes")
    load = Load(over_three, CLIENTS)
    try:
        load.goes_on()
        primary = replica_set.primary()
        assert primary is not None
        with replica_set.frozen(primary):
            until(lambda: replica_set.primary(beside=primary), "another one is the primary")
            load.goes_on()
        load.goes_on()
    finally:
        load.end()
    all_found(over_three, load.kept, CLIENTS)


def test_what_waits_for_a_silent_primary_is_done_by_the_next(over_three: Installation, replica_set: ReplicaSet) -> None:
    client = over_three.serve()
    until(lambda: client.ask("store_memory", content="tea")["status"] == "OK", "the set takes writes")
    for action, fields in (("store_memory", {"content": "coffee"}), ("retrieve_memory", {"query": "tea"})):
        primary = replica_set.primary()
        assert primary is not None
        with replica_set.frozen(primary):
            reply = client.ask(action, **fields)
            assert reply["status"] == "OK", reply
        until(lambda: client.ask("store_memory", content="tea")["status"] == "OK", "the set takes writes")


@pytest.mark.parametrize("driver", ["pymongo", "motor"])
async def test_who_asks_for_the_latest_waits_until_a_majority_has_it(replica_set: ReplicaSet, driver: str) -> None:
    """As at a primary that was just elected: it has what was acknowledged, and does not know yet that a majority has it too."""

    until(replica_set.primary, "the set takes writes")
    async with asyncio.timeout(60):
        name = fresh_database()
        async with open_store(replica_set.uri, name, driver) as store:
            memory, primary = make_memory(await global_scope(store)), replica_set.primary()
            wanted = {memory.memory_id: memory.scope_id}
            assert primary is not None
            with contextlib.ExitStack() as others:
                for port in set(replica_set.ports) - {primary}:
                    others.enter_context(replica_set.frozen(port))
                uri = f"mongodb://127.0.0.1:{primary}/?directConnection=true&w=1"
                with MongoClient[dict[str, Any]](uri) as client:
                    name_of_scope = schema.collection_name(ObjectId(memory.scope_id))
                    client[name][name_of_scope].insert_one(mapping.to_document(memory))
                assert await store.fetch(wanted) == {}
                latest = asyncio.create_task(store.fetch(wanted, latest=True))
                token = asyncio.create_task(store.change_token())
                await asyncio.sleep(0.3)
                assert not latest.done() and not token.done()
            assert list(await latest) == list(wanted)
            await token
            assert list(await store.fetch(wanted)) == list(wanted)
