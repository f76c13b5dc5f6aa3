"""`Owners` on MongoDB: one aggregation over a scope's collection, and a document per created agent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pymongo.errors import DuplicateKeyError

from infinite_memory.models import MemoryId, ScopeId
from infinite_memory.store.document_fields import DocumentKind, is_instant
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.client import Connection
from infinite_memory.store.mongo.drivers import aggregate
from infinite_memory.store.mongo.mapping import decode_value, escape_key, find_object_id, object_id
from infinite_memory.store.owners import Agent, OwnerCount, Owners


class MongoOwners(Owners):
    """See `Owners`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def tally(
        self,
        scope_id: ScopeId,
        kind: str,
        *,
        owner: str | None = None,
        owners: Mapping[str, str] | None = None,
        leave_out_status: Collection[str] = (),
    ) -> list[OwnerCount]:
        field = f"owners.{escape_key(kind)}"
        counts = {"$and": ["$live", {"$not": [{"$in": ["$status", list(leave_out_status)]}]}]}
        pipeline: list[dict[str, Any]] = [
            {
                "$match": self._but_set_aside(scope_id)
                | {"created_at": {"$type": "date"}}
                | {field: {"$exists": True} if owner is None else {"$eq": owner}}
                | {f"owners.{escape_key(name)}": {"$eq": value} for name, value in (owners or {}).items()}
            },
            {
                "$group": {
                    "_id": f"${field}",
                    "count": {"$sum": {"$cond": [counts, 1, 0]}},
                    "first_at": {"$min": "$created_at"},
                }
            },
            {"$sort": {"_id": 1}},
        ]
        async with self._connection.operation(factor=4) as database:
            groups = await aggregate(database[schema.collection_name(object_id(scope_id))], pipeline)
        sound = [group for group in groups if isinstance(group["_id"], str) and is_instant(group["first_at"])]
        return [OwnerCount(group["_id"], group["count"], group["first_at"]) for group in sound]

    def _but_set_aside(self, scope_id: ScopeId) -> dict[str, Any]:
        return self._connection.set_aside.but_these(schema.collection_name(scope_id))

    async def live_ids_of(
        self, scope_id: ScopeId, owners: Mapping[str, str], *, leave_out_status: Collection[str] = ()
    ) -> frozenset[MemoryId]:
        query: dict[str, Any] = {f"owners.{escape_key(kind)}": {"$eq": owner} for kind, owner in owners.items()}
        query |= {"live": True, "status": {"$nin": list(leave_out_status)}}
        async with self._connection.operation() as database:
            memories = database[schema.collection_name(object_id(scope_id))]
            documents = await memories.find(query | self._but_set_aside(scope_id), {"_id": 1}).to_list(None)
        return frozenset(MemoryId(str(document["_id"])) for document in documents)

    async def ids_of(self, scope_id: ScopeId, owners: Mapping[str, str]) -> frozenset[MemoryId]:
        query = {f"owners.{escape_key(kind)}": {"$eq": owner} for kind, owner in owners.items()}
        async with self._connection.operation(factor=4) as database:
            memories = database[schema.collection_name(object_id(scope_id))]
            documents = await memories.find(query | self._but_set_aside(scope_id), {"_id": 1}).to_list(None)
        return frozenset(MemoryId(str(document["_id"])) for document in documents)

    async def read(self, scope_id: ScopeId, memory_ids: Sequence[MemoryId]) -> dict[MemoryId, Mapping[str, str]]:
        keys = [key for memory_id in memory_ids if (key := find_object_id(memory_id)) is not None]
        async with self._connection.operation() as database:
            memories = database[schema.collection_name(object_id(scope_id))]
            stored = await memories.find({"_id": {"$in": keys}}, {"owners": 1}).to_list(None)
        return {MemoryId(str(document["_id"])): decode_value(document.get("owners", {})) for document in stored}

    async def add_agent(self, agent: Agent) -> bool:
        key = {"user_id": agent.user_id, "agent_id": agent.agent_id}
        document = {"_id": key, "name": agent.name, "description": agent.description, "created_at": agent.created_at}
        async with self._connection.operation() as database:
            try:
                await database[schema.AGENTS].insert_one(document)
            except DuplicateKeyError:
                return False
        return True

    async def remove_agents(self, user_id: str) -> None:
        async with self._connection.operation() as database:
            await database[schema.AGENTS].delete_many({"_id.user_id": {"$eq": user_id}})

    async def agents(self, user_id: str | None = None) -> list[Agent]:
        query = {} if user_id is None else {"_id.user_id": {"$eq": user_id}}
        async with self._connection.operation() as database:
            documents = await database[schema.AGENTS].find(query).sort("created_at", 1).to_list(None)
        return [
            Agent(
                document["_id"]["agent_id"],
                document["_id"]["user_id"],
                document["name"],
                document["description"],
                document["created_at"],
            )
            for document in documents
            if self._connection.set_aside.accepts(DocumentKind.AGENT, schema.AGENTS, document)
        ]
