"""`Copies` on MongoDB: binds snapshots, restores and leases to a store's connection."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from infinite_memory.errors import SchemaTooNewError
from infinite_memory.models import Fact, FactId, Link, MemoryRecord, ScopeId, fold
from infinite_memory.platform_files import compute_reserve
from infinite_memory.store.copies import Chunk, Copies, FactPlace, Restore, RestorePlan, Snapshot
from infinite_memory.store.mongo import bulk_insert, schema
from infinite_memory.store.mongo import facts as mongo_facts
from infinite_memory.store.mongo import links as mongo_links
from infinite_memory.store.mongo import snapshot as snapshots
from infinite_memory.store.mongo.client import Connection
from infinite_memory.store.mongo.mapping import object_id
from infinite_memory.store.mongo.restore import begin_restore
from infinite_memory.store.mongo.restore_steps import merge_scopes
from infinite_memory.store.mongo.scope_documents import GLOBAL_NAME

_LONG_AGO = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


class MongoCopies(Copies):
    """See `Copies`. ``polled`` as in `schema`."""

    def __init__(self, connection: Connection, *, is_polled: bool) -> None:
        self._connection, self._polled = connection, is_polled

    def snapshot(self) -> AbstractAsyncContextManager[Snapshot]:
        return snapshots.open_snapshot(self._connection)

    async def find_shortage(self, size: int = 0) -> str | None:
        async with self._connection.operation() as database:
            figures = await database.command("dbStats")
        total, used = figures.get("fsTotalSize"), figures.get("fsUsedSize")
        if total is None or used is None:
            return None
        free, reserve = int(total - used), compute_reserve(int(total))
        if free >= reserve + size:
            return None
        return f"of the disk of MongoDB {free >> 20:,} MiB are free, and {reserve >> 20:,} MiB stay so, for a full disk ends MongoDB"

    async def is_empty(self) -> bool:
        async with self._connection.operation(factor=4) as database:
            async for scope in database[schema.SCOPES].find(schema.PRESENT, {"_id": 1, "name_key": 1}):
                if scope.get("name_key") != fold(GLOBAL_NAME) or not isinstance(scope["_id"], ObjectId):
                    return False
                if await database[schema.collection_name(scope["_id"])].find_one({}, {"_id": 1}) is not None:
                    return False
        return True

    async def restore(self, plan: RestorePlan) -> Restore:
        if plan.schema_version > schema.SCHEMA_VERSION:
            raise SchemaTooNewError(plan.schema_version, schema.SCHEMA_VERSION)
        return await begin_restore(self._connection, plan, is_polled=self._polled)

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        return self._connection.exclusive()

    def memories_of(self, chunk: Chunk) -> list[MemoryRecord]:
        return snapshots.memories_of(chunk)

    def documents_of(self, chunk: Chunk) -> list[dict[str, Any]]:
        return snapshots.documents_of(chunk)

    def revisions_of(self, chunk: Chunk) -> list[MemoryRecord]:
        return snapshots.revisions_of(chunk)

    def facts_of(self, chunk: Chunk) -> list[Fact]:
        return [mongo_facts.from_document(document) for document in snapshots.sound(chunk)]

    def links_of(self, chunk: Chunk) -> list[tuple[Link, ScopeId]]:
        documents = snapshots.sound(chunk)
        return [(mongo_links.from_document(document), ScopeId(str(document["scope_id"]))) for document in documents]

    async def add_revisions(self, versions: Sequence[MemoryRecord], *, dry_run: bool = False) -> int:
        return await bulk_insert.add_revisions(self._connection, versions, dry_run=dry_run)

    async def add_facts(
        self, facts: Sequence[Fact], holding: set[FactPlace] | None = None, *, dry_run: bool = False
    ) -> list[Fact]:
        return await bulk_insert.add_facts(
            self._connection, facts, holding if holding is not None else set(), dry_run=dry_run
        )

    async def find_facts(self, facts: Sequence[Fact]) -> set[FactId]:
        return await bulk_insert.find_facts(self._connection, facts)

    async def add_links(self, links: Sequence[tuple[Link, ScopeId]], *, dry_run: bool = False) -> int:
        return await bulk_insert.add_links(self._connection, links, dry_run=dry_run)

    async def merge_scopes(
        self, source: ScopeId, target: ScopeId, on_poured: Callable[[], Awaitable[None]] | None = None
    ) -> int:
        ends = object_id(source), object_id(target)
        return await merge_scopes(self._connection, *ends, is_polled=self._polled, on_poured=on_poured)

    async def take_lease(self, name: str, holder: str, duration: dt.timedelta) -> bool:
        duration_ms = int(duration.total_seconds() * 1000)
        free = {"$or": [{"$eq": ["$holder", holder]}, {"$lte": ["$until", "$$NOW"]}]}
        until = {"$add": ["$$NOW", duration_ms]}
        key = {"_id": f"lease.{name}"}
        async with self._connection.operation() as database:
            leases = database[schema.META]
            with contextlib.suppress(DuplicateKeyError):  # another process creates it concurrently
                await leases.update_one(key, {"$setOnInsert": {"holder": "", "until": _LONG_AGO}}, upsert=True)
            update = {"$set": {"holder": holder, "until": until}}
            return (await leases.update_one({**key, "$expr": free}, [update])).matched_count == 1

    async def release_lease(self, name: str, holder: str) -> None:
        async with self._connection.operation() as database:
            await database[schema.META].delete_one({"_id": f"lease.{name}", "holder": holder})
