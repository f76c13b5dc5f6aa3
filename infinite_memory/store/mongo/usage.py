"""`Uses` on MongoDB: one document per used memory in ``uses``, separate from the memory, whose changes go into the change feed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from pymongo import UpdateOne

from infinite_memory.models import MemoryId, ScopeId, floor_to_millisecond
from infinite_memory.store.belongings import Use, Uses
from infinite_memory.store.document_fields import DocumentKind
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.client import Connection
from infinite_memory.store.mongo.mapping import object_id


class MongoUses(Uses):
    """See `Uses`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def add(self, counts: Mapping[MemoryId, tuple[ScopeId, int]], used_at: dt.datetime) -> None:
        changes = [
            UpdateOne(
                {"_id": object_id(memory_id)},
                {
                    "$inc": {"count": count},
                    "$max": {"used_at": floor_to_millisecond(used_at)},
                    "$set": {"scope_id": object_id(scope_id)},
                },
                upsert=True,
            )
            for memory_id, (scope_id, count) in counts.items()
        ]
        if changes:
            async with self._connection.operation(factor=1 + len(changes) / 1000) as database:
                await database[schema.USES].bulk_write(changes, ordered=False)

    async def of_scope(self, scope_id: ScopeId) -> dict[MemoryId, int]:
        async with self._connection.operation(factor=4) as database:
            documents = await database[schema.USES].find({"scope_id": object_id(scope_id)}).to_list(None)
        accepts = self._connection.set_aside.accepts
        sound = [document for document in documents if accepts(DocumentKind.USE, schema.USES, document)]
        return {MemoryId(str(document["_id"])): int(document["count"]) for document in sound}

    async def find(self, memory_id: MemoryId) -> Use | None:
        async with self._connection.operation() as database:
            document = await database[schema.USES].find_one({"_id": object_id(memory_id)})
        if document is None or not self._connection.set_aside.accepts(DocumentKind.USE, schema.USES, document):
            return None
        return Use(int(document["count"]), document["used_at"]) if document.get("used_at") is not None else None
