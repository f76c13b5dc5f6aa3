"""Sharding of a database's collections in a cluster: planning it, and carrying it out through a router (mongos).

Each scope has its own collection, so whole scopes are distributed first. The collection of a scope with very many memories is sharded by
the hash of ``_id``: ids increase with time, so range sharding would send every new memory to one shard. Earlier versions are sharded by
their memory, whose id is the first key of the collection's unique index. Everything else stays on the database's primary shard, because its
unique indexes start with mutable fields (a scope's name, the scope of a fact), or it is small.

Why a router is used for these commands only: docs/cluster-planning.md lists everything else that it lacks.
"""

from __future__ import annotations

from typing import Any

from pymongo.errors import OperationFailure

from infinite_memory.errors import StoreError
from infinite_memory.store.members import CollectionPlan, ShardingPlan
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.client import Connection, Database
from infinite_memory.store.mongo.snapshot import MEMORIES

ROUTED = "sharded"  # the name in `MongoStore.info` of a cluster reached through a router
INDEX_NAME = "shard"
_NEEDS_ROUTER = "mongodb.uri has to name a router (mongos) of a sharded cluster"
_UNAUTHORIZED = 13  # MongoDB's error code


async def plan(connection: Connection, deployment: str, min_count: int) -> ShardingPlan:
    """Return what each collection with at least *min_count* documents needs; those already sharded are marked as such.

    Raises:
        StoreError: the database is a single server, or the user may not see which collections are sharded.
    """
    if deployment not in (ROUTED, "replica set"):
        raise StoreError(f"the database is a {deployment} server and has no shards: {_NEEDS_ROUTER}")
    async with connection.operation(factor=10) as database:
        sharded = await _sharded(database) if deployment == ROUTED else set[str]()
        names = await database.list_collection_names()
        collections = [
            CollectionPlan(name, count, name in sharded, tuple(commands(database.name, name)))
            for name in sorted(names)
            if name == schema.REVISIONS or MEMORIES.fullmatch(name)
            if (count := await database[name].estimated_document_count()) >= min_count or name in sharded
        ]
    return ShardingPlan(deployment, deployment == ROUTED, min_count, tuple(collections))


async def shard(connection: Connection, planned: ShardingPlan) -> None:
    """Carry out a plan; safe to repeat.

    Raises:
        StoreError: the database is not a sharded cluster, or refuses a command. Completed steps are kept.
    """
    if not planned.is_routed:
        raise StoreError(f"nothing was sharded: the database is a {planned.deployment}, and {_NEEDS_ROUTER}")
    for collection in planned.collections:
        if not collection.is_sharded:
            async with connection.operation(factor=1000) as database:  # indexing very many memories takes minutes
                for command in collection.commands:
                    target = database if "createIndexes" in command else database.client.admin
                    await _run(target, dict(command))


async def _run(database: Database, command: dict[str, Any]) -> None:
    try:
        await database.command(command)
    except OperationFailure as exc:
        if exc.code == _UNAUTHORIZED:
            raise StoreError(
                f"the user of mongodb.uri may not run {next(iter(command))}: it needs clusterManager"
            ) from exc
        raise


async def _sharded(database: Database) -> set[str]:
    """Return the collections that are sharded already, by the cluster's own metadata."""
    prefix = f"{database.name}."
    try:
        notes = database.client["config"]["collections"].find({"dropped": {"$ne": True}}, {"_id": 1})
        return {str(note["_id"]).removeprefix(prefix) async for note in notes if str(note["_id"]).startswith(prefix)}
    except OperationFailure as exc:
        raise StoreError(
            "the user of mongodb.uri may not see which collections are sharded: it needs clusterMonitor"
        ) from exc


def commands(database: str, collection: str) -> list[dict[str, Any]]:
    """Return the commands that shard a collection: the index for its shard key, and the router's own command."""
    namespace = f"{database}.{collection}"
    if collection == schema.REVISIONS:  # its unique index starts with the key
        return [{"shardCollection": namespace, "key": {"memory_id": 1}}]
    key = {"_id": "hashed"}
    return [
        {"createIndexes": collection, "indexes": [{"key": key, "name": INDEX_NAME}]},
        {"shardCollection": namespace, "key": key},
    ]
