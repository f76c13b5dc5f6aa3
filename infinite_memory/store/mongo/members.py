"""`Members` on MongoDB: daemon statuses in ``meta``, servers from the driver's own view of the deployment.

Times are by the server's clock: those of the daemons' machines may differ. The driver monitors every server anyway, so asking it needs no
privileges beyond those of a plain user.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pymongo.errors import OperationFailure

from infinite_memory.store.members import DaemonNote, Members, SeenDaemon, Server, ShardingPlan
from infinite_memory.store.mongo import schema, sharding
from infinite_memory.store.mongo.client import Connection
from infinite_memory.store.mongo.drivers import aggregate

PREFIX = "daemon."
KEEP = dt.timedelta(days=1)  # the status of a dead daemon is no longer useful

ROLES = {
    "RSPrimary": "primary", "RSSecondary": "secondary", "RSArbiter": "arbiter", "Mongos": "router",
    "LoadBalancer": "router", "Standalone": "standalone",
}  # fmt: skip
"""Server types by the driver's name and ours; all others are unknown: not reached, or not in use yet."""


def get_deployment(hello: Mapping[str, Any]) -> str:
    """Return the kind of deployment from a server's reply to `hello`."""
    if "setName" in hello:
        return "replica set"
    return "sharded" if hello.get("msg") == "isdbgrid" else "standalone"


class MongoMembers(Members):
    """See `Members`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def note(self, daemon: DaemonNote) -> None:
        status = asdict(daemon)
        key = {"_id": f"{PREFIX}{status.pop('daemon_id')}"}
        since = {"$ifNull": ["$since", "$$NOW"]}
        written = {"since": since, "seen": "$$NOW", "told": {"$literal": status}}
        async with self._connection.operation() as database:
            await database[schema.META].update_one(key, [{"$set": written}], upsert=True)
            old = {"$lt": ["$seen", {"$subtract": ["$$NOW", int(KEEP.total_seconds() * 1000)]}]}
            await database[schema.META].delete_many({"_id": {"$regex": f"^{PREFIX}"}, "$expr": old})

    async def remove(self, daemon_id: str) -> None:
        async with self._connection.operation() as database:
            await database[schema.META].delete_one({"_id": f"{PREFIX}{daemon_id}"})

    async def daemons(self) -> Sequence[SeenDaemon]:
        ages = {name: {"$divide": [{"$subtract": ["$$NOW", f"${name}"]}, 1000]} for name in ("seen", "since")}
        pipeline: list[dict[str, Any]] = [
            {"$match": {"_id": {"$regex": f"^{PREFIX}"}, "told": {"$type": "object"}}},
            {"$sort": {"since": 1, "_id": 1}},
            {"$project": {"told": 1} | ages},
        ]
        async with self._connection.operation() as database:
            documents = await aggregate(database[schema.META], pipeline)
        return [
            SeenDaemon(
                DaemonNote(daemon_id=str(document["_id"]).removeprefix(PREFIX), **document["told"]),
                document["seen"],
                document["since"],
            )
            for document in documents
        ]

    async def servers(self) -> Sequence[Server]:
        async with self._connection.operation() as database:
            descriptions = database.client.topology_description.server_descriptions()
            servers = [
                Server(f"{host}:{port}" if port else host, ROLES.get(description.server_type_name, "unknown"))
                for (host, port), description in sorted(descriptions.items())
            ]
            if any(server.role == "router" for server in servers):
                try:
                    shards = (await database.client.admin.command("listShards"))["shards"]
                except OperationFailure:  # an administrator privilege
                    return servers
                servers += [Server(str(shard["host"]), "shard") for shard in shards]
            return servers

    async def plan_sharding(self, min_count: int) -> ShardingPlan:
        async with self._connection.operation() as database:  # the store may still be connecting
            deployment = get_deployment(await database.client.admin.command("hello"))
        return await sharding.plan(self._connection, deployment, min_count)

    async def shard(self, planned: ShardingPlan) -> None:
        await sharding.shard(self._connection, planned)
