"""Daemons that note in the database that they are there, and its servers as the driver sees them, and what shards it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from infinite_memory.errors import StoreError
from infinite_memory.jobs.cluster import GONE_S, LATE_S, ClusterState
from infinite_memory.store.members import DaemonNote, SeenDaemon, Server
from infinite_memory.store.mongo import schema, sharding
from infinite_memory.store.mongo.store import MongoStore
from tests.mongo_server import open_store
from tests.store.conftest import global_scope, make_memory

NOTE = DaemonNote("a1", "one", 11, "0.2.0", "milvus", "ready", 0.4)
OTHER = dataclasses.replace(NOTE, daemon_id="b2", host="two", index_state="loading", behind_s=None)


async def test_daemons_are_listed_until_they_take_their_notes_away(mongo_uri: str, database: str) -> None:
    async with open_store(mongo_uri, database) as store:
        for note in (NOTE, OTHER, dataclasses.replace(NOTE, index_state="$state", behind_s=3.0)):
            await store.members.note(note)
        one, other = await store.members.daemons()
        assert (one.note.index_state, one.note.behind_s, other.note) == ("$state", 3.0, OTHER)
        assert one.since_s >= one.seen_s >= 0
        await store.members.remove("a1")
        await store.members.remove("a1")
        assert [seen.note for seen in await store.members.daemons()] == [OTHER]


async def test_servers_are_told_with_their_roles(mongo_uri: str, database: str) -> None:
    async with open_store(mongo_uri, database) as store:
        assert [one.role for one in await store.members.servers()] == ["primary"]


async def test_what_would_be_sharded_is_told_and_a_set_without_shards_stays_as_it_is(
    mongo_uri: str, database: str
) -> None:
    async with open_store(mongo_uri, database) as store:
        scope = await global_scope(store)
        await store.insert([make_memory(scope), make_memory(scope)])
        planned = await store.members.plan_sharding(2)
        [collection] = planned.collections
        name = schema.collection_name(scope.scope_id)
        assert (planned.deployment, planned.is_routed) == ("replica set", False)
        assert (collection.name, collection.count, collection.is_sharded) == (name, 2, False)
        index, shard = collection.commands
        assert shard == {"shardCollection": f"{database}.{name}", "key": {"_id": "hashed"}}
        assert (await store.members.plan_sharding(3)).collections == ()
        with pytest.raises(StoreError, match=r"nothing was sharded: the database is a replica set, and mongodb\.uri"):
            await store.members.shard(planned)
        with MongoClient[dict[str, Any]](mongo_uri) as client:
            assert "shard" not in client[database][name].index_information()
            assert client[database].command(dict(index))["numIndexesAfter"] == 5  # a real server takes it
            with pytest.raises(OperationFailure) as refused:
                client.admin.command(dict(shard))
        assert refused.value.code == 59  # no such command: a router alone has it


async def test_earlier_versions_are_sharded_by_what_their_unique_index_begins_with(
    mongo_uri: str, database: str
) -> None:
    async with open_store(mongo_uri, database):
        with MongoClient[dict[str, Any]](mongo_uri) as client:
            indexes = client[database][schema.REVISIONS].index_information()
    [command] = sharding.commands(database, schema.REVISIONS)
    assert command == {"shardCollection": f"{database}.revisions", "key": {"memory_id": 1}}
    [unique] = [one["key"] for one in indexes.values() if one.get("unique")]
    assert dict([unique[0]]) == command["key"]


async def test_a_single_server_is_said_to_have_no_shards(standalone_uri: str, database: str) -> None:
    async with open_store(standalone_uri, database) as store:
        with pytest.raises(StoreError, match=r"a standalone server and has no shards: .* router \(mongos\)"):
            await store.members.plan_sharding(1)


async def test_what_would_be_sharded_can_be_asked_while_the_store_is_about_to_connect(
    mongo_uri: str, database: str
) -> None:
    store = MongoStore(mongo_uri, database=database)
    assert (await store.members.plan_sharding(1)).deployment == "replica set"
    await store.close()


def test_what_is_not_as_it_should_be_is_named() -> None:
    late = dataclasses.replace(NOTE, host="late", behind_s=LATE_S + 1, index_state="Milvus does not answer")
    old = dataclasses.replace(NOTE, host="old", version="0.1.0", engine="faiss")
    gone = SeenDaemon(NOTE, GONE_S + 1, 1e6)
    daemons = [SeenDaemon(late, 1, 9), SeenDaemon(old, 1, 9), gone]
    state = ClusterState(
        "7.0", "replica set", [Server("m1:27017", "primary"), Server("m2:27017", "unknown")], daemons, "a1"
    )
    assert state.find_problems() == [
        "m2:27017 is not reached",
        "the index of late process 11 is not level: Milvus does not answer",
        "one process 11 was last seen 61 s ago",
        "daemons of different versions run: 0.1.0, 0.2.0",
        "daemons with different indexes run: faiss, milvus",
    ]
    well = [SeenDaemon(NOTE, 1, 9), SeenDaemon(OTHER, 1, LATE_S - 1)]
    assert ClusterState("7.0", "replica set", [], well, "a1").find_problems() == []
    starting = SeenDaemon(OTHER, 1, LATE_S + 1)
    assert ClusterState("7.0", "replica set", [], [starting], "a1").find_problems() == [
        "the index of two process 11 is not level: loading"
    ]
