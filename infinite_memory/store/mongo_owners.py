"""`Owners` on MongoDB: one aggregation over a scope's collection."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from infinite_memory.models import ScopeId
from infinite_memory.store import schema
from infinite_memory.store.connection import Connection
from infinite_memory.store.documents import escape_key, object_id
from infinite_memory.store.drivers import aggregate
from infinite_memory.store.owners import OwnerCount, Owners


class MongoOwners(Owners):
    """See `Owners`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def tally(
        self, scope_id: ScopeId, kind: str, *, owner: str | None = None, leave_out_status: Collection[str] = ()
    ) -> list[OwnerCount]:
        field = f"owners.{escape_key(kind)}"
        counts = {"$and": ["$live", {"$not": [{"$in": ["$status", list(leave_out_status)]}]}]}
        pipeline: list[dict[str, Any]] = [
            {"$match": {field: {"$exists": True} if owner is None else {"$eq": owner}}},
            {
                "$group": {
                    "_id": f"${field}",
                    "count": {"$sum": {"$cond": [counts, 1, 0]}},
                    "first_at": {"$min": "$created_at"},
                    "last_at": {"$max": "$updated_at"},
                }
            },
            {"$sort": {"_id": 1}},
        ]
        async with self._connection.operation(factor=4) as database:
            found = await aggregate(database[schema.collection_name(object_id(scope_id))], pipeline)
        return [OwnerCount(one["_id"], one["count"], one["first_at"], one["last_at"]) for one in found]
