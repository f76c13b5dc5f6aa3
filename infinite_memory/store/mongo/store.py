"""The store on MongoDB: one connection, the set-up on connecting, and the parts that read and write collections.

A write is acknowledged by a majority and journalled before a method returns; reads see majority-committed data.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bson import ObjectId

from infinite_memory.models import (
    Embedding,
    IndexBatch,
    MemoryId,
    MemoryRecord,
    Scope,
    ScopeId,
    floor_to_millisecond,
    fold,
)
from infinite_memory.store.api_tokens import ApiTokens
from infinite_memory.store.base import (
    Change,
    ChangeKind,
    Deletion,
    HiddenDoubles,
    Located,
    RevisionPage,
    ScopeContents,
    Store,
    StoreCompaction,
    StoreInfo,
    Version,
)
from infinite_memory.store.belongings import Links, Uses
from infinite_memory.store.conditions import ANY, Condition
from infinite_memory.store.copies import Copies
from infinite_memory.store.document_checks import DocumentKind
from infinite_memory.store.facts import Facts
from infinite_memory.store.members import Members
from infinite_memory.store.mongo import change_feed as changes
from infinite_memory.store.mongo import compaction, mapping, moves, revisions, schema
from infinite_memory.store.mongo.api_tokens import MongoApiTokens, bind_to_ids
from infinite_memory.store.mongo.client import Connection, UriSource
from infinite_memory.store.mongo.copies import MongoCopies
from infinite_memory.store.mongo.doubles import find_hidden_doubles
from infinite_memory.store.mongo.facts import MongoFacts
from infinite_memory.store.mongo.links import MongoLinks
from infinite_memory.store.mongo.members import MongoMembers, get_deployment
from infinite_memory.store.mongo.memory_reads import MemoryReader
from infinite_memory.store.mongo.memory_writes import MemoryWriter
from infinite_memory.store.mongo.merge_journal import LOOK_AGAIN_S, is_receiving_memories
from infinite_memory.store.mongo.owners import MongoOwners
from infinite_memory.store.mongo.repairs import MongoRepairs
from infinite_memory.store.mongo.restore_steps import finish_interrupted, put_into_place
from infinite_memory.store.mongo.scopes import Scopes
from infinite_memory.store.mongo.stale_transactions import end_abandoned
from infinite_memory.store.mongo.usage import MongoUses
from infinite_memory.store.owners import Owners
from infinite_memory.store.repairs import Repairs
from infinite_memory.store.set_aside import SetAside

if TYPE_CHECKING:
    pass

_DEFAULT_TIMEOUT_S = 5.0


class MongoStore(Store):
    """A store on one database.

    Args:
        uri: The server, or a function that makes sure that it runs and returns its URI (`LocalMongo.ensure`).
        database: The database's name.
        driver: "pymongo" or "motor".
        timeout_s: Timeout of one operation, including waiting for the server.
        process: Returns the process id of a managed server, if known.

    Raises:
        ConfigError: *driver* is unknown.
    """

    def __init__(
        self,
        uri: UriSource,
        *,
        database: str = "infinite_memory",
        driver: str = "pymongo",
        timeout_s: float = _DEFAULT_TIMEOUT_S,
        process: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._connection = Connection(uri, database=database, driver=driver, timeout_s=timeout_s, process=process)
        self._scopes = Scopes(self._connection)
        self._facts = MongoFacts(self._connection)
        self._reader = MemoryReader(self._connection, self._scopes)
        self._writer = MemoryWriter(self._connection, self._scopes, self._reader)
        self._database_name = database
        self._deployment = ""
        self._identity = ""
        self._last_id: ObjectId | None = None

    # connecting

    async def connect(self) -> None:
        await self._connection.database(is_patient=True)
        async with self._connection.operation(factor=10) as database:
            self._deployment = get_deployment(await database.client.admin.command("hello"))
            self._scopes.polled = self._facts.polled = self._writer.polled = self._is_polled
            if not self._is_polled:
                await end_abandoned(database.client)
            await finish_interrupted(database, self.set_aside, is_polled=self._is_polled)
            await schema.upgrade(database, self.set_aside)
            await schema.create_shared_indexes(database, is_polled=self._is_polled)
            self._identity = await schema.identity(database, self.set_aside)
            await bind_to_ids(database, self.set_aside)
        await self._scopes.prepare()

    async def close(self) -> None:
        await self._connection.close()

    async def ping(self) -> None:
        async with self._connection.operation() as database:
            await database.command("ping")

    async def info(self) -> StoreInfo:
        async with self._connection.operation() as database:
            build = await database.command("buildInfo")
            figures = await database.command("dbStats")
            size = int(figures.get("totalSize", figures["storageSize"] + figures["indexSize"]))
            kind = get_deployment(await database.client.admin.command("hello"))
        return StoreInfo(build["version"], kind, size, self._database_name)

    async def compact(self, *, dry_run: bool = False) -> StoreCompaction:
        return await compaction.compact(self._connection, deployment=self._deployment, dry_run=dry_run)

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def copies(self) -> Copies:
        return MongoCopies(self._connection, is_polled=self._is_polled)

    @property
    def members(self) -> Members:
        return MongoMembers(self._connection)

    @property
    def facts(self) -> Facts:
        return self._facts

    @property
    def links(self) -> Links:
        return MongoLinks(self._connection)

    @property
    def uses(self) -> Uses:
        return MongoUses(self._connection)

    @property
    def owners(self) -> Owners:
        return MongoOwners(self._connection)

    @property
    def tokens(self) -> ApiTokens:
        return MongoApiTokens(self._connection)

    @property
    def set_aside(self) -> SetAside:
        return self._connection.set_aside

    @property
    def repairs(self) -> Repairs:
        return MongoRepairs(self._connection, self._scopes.all, self.remove, self._scopes.drop)

    @property
    def hidden_scopes(self) -> frozenset[ScopeId]:
        return self._scopes.hidden

    @property
    def _is_polled(self) -> bool:
        """A standalone server has no change streams, and no transactions."""
        return self._deployment == "standalone"

    # scopes

    async def list_scopes(self) -> list[Scope]:
        return await self._scopes.all()

    async def create_scope(self, name: str, description: str, created_at: dt.datetime) -> Scope:
        return await self._scopes.create(name, description, created_at)

    async def change_scope(
        self, scope_id: ScopeId, *, name: str | None = None, description: str | None = None
    ) -> Scope:
        fields: dict[str, Any] = {}
        if name is not None:
            fields |= {"name": name, "name_key": fold(name)}
        if description is not None:
            fields["description"] = description
        return await self._scopes.change(scope_id, fields)

    async def set_scope_archived(self, scope_id: ScopeId, archived_at: dt.datetime | None) -> Scope:
        instant = None if archived_at is None else floor_to_millisecond(archived_at)
        return await self._scopes.change(scope_id, {"archived_at": instant})

    async def drop_scope(self, scope_id: ScopeId) -> None:
        await self._scopes.drop(scope_id)

    # writing memories

    def new_id(self) -> MemoryId:
        fresh = ObjectId()
        if self._last_id is not None and fresh <= self._last_id:  # the clock was set back, or the id's counter wrapped
            fresh = ObjectId((int.from_bytes(self._last_id.binary) + 1).to_bytes(12))
        self._last_id = fresh
        return MemoryId(str(fresh))

    async def insert(self, memories: Sequence[MemoryRecord], *, include_archived: bool = False) -> None:
        await self._writer.insert(memories, include_archived=include_archived)

    async def replace(self, memory: MemoryRecord, *, keep_revision: bool) -> MemoryRecord:
        return await self._writer.replace(memory, keep_revision=keep_revision)

    async def remove_versions(self, memory_id: MemoryId, revisions: Collection[int]) -> None:
        await self._writer.remove_versions(memory_id, revisions)

    async def write_batch(self, new: Sequence[MemoryRecord], changed: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        return await self._writer.write_batch(new, changed)

    async def move(self, memory: MemoryRecord, target: ScopeId) -> None:
        ends = [mapping.object_id(memory.scope_id), mapping.object_id(target)]
        if not self._is_polled:
            try:
                async with self._connection.operation(factor=2) as database:
                    await moves.move_in_transaction(database, memory, target)
            except moves.MergingError:
                await asyncio.sleep(LOOK_AGAIN_S)  # the emptied scope is removed shortly after the merge
                await moves.wait_for_merge(self._connection, ends)
                raise
            return
        await moves.wait_for_merge(self._connection, ends)
        async with self._connection.exclusive():
            async with self._connection.operation() as database:
                await moves.check_movable(database, memory, target)
            move_id = ObjectId()
            await put_into_place(self._connection, move_id, moves.make_steps(memory, target, move_id), is_polled=True)
            async with self._connection.operation() as database:
                await moves.check_moved(database, memory, target)

    async def find_moved(self, memory_ids: Collection[MemoryId]) -> dict[MemoryId, ScopeId]:
        async with self._connection.operation() as database:
            return await moves.find_moved(database, memory_ids)

    async def find_same_text(self, scope_id: ScopeId, content_hash: str) -> list[MemoryId]:
        async with self._connection.operation(factor=4) as database:
            return await moves.find_same_text(database, scope_id, content_hash)

    async def set_embedding(self, memory_id: MemoryId, scope_id: ScopeId, revision: int, embedding: Embedding) -> bool:
        return await self._writer.set_embedding(memory_id, scope_id, revision, embedding)

    async def find_hidden_doubles(self, located: Located) -> HiddenDoubles:
        async with self._connection.operation(factor=4) as database:
            return await find_hidden_doubles(database, located)

    async def soft_delete(
        self, located: Located, deleted_at: dt.datetime, *, pruned: bool = False, merged_into: MemoryId | None = None,
        revisions: Mapping[MemoryId, int] | None = None, condition: Condition = ANY,
    ) -> list[MemoryId]:  # fmt: skip
        return await self._writer.soft_delete(
            located,
            deleted_at,
            pruned=pruned,
            merged_into=merged_into,
            revisions=revisions,
            condition=condition,
        )

    async def undelete(self, located: Located) -> list[MemoryId]:
        return await self._writer.undelete(located)

    async def remove(self, located: Located) -> list[MemoryId]:
        return await self._writer.remove(located)

    async def purge(self, located: Located, hidden_before: dt.datetime) -> list[MemoryId]:
        return await self._writer.purge(located, hidden_before)

    # reading memories

    async def fetch(
        self, located: Located, *, deleted: bool | None = False, vectors: bool = False, latest: bool = False
    ) -> dict[MemoryId, MemoryRecord]:
        return await self._reader.fetch(located, deleted=deleted, vectors=vectors, latest=latest)

    async def locate(self, memory_ids: Collection[MemoryId]) -> dict[MemoryId, ScopeId]:
        return await self._reader.locate(memory_ids)

    async def list_contents(self, scope_id: ScopeId) -> ScopeContents:
        # In this order: a memory that has arrived by now is in the list.
        async with self._connection.operation() as database:
            is_receiving = await is_receiving_memories(database, mapping.object_id(scope_id))
        return ScopeContents(await self._reader.list_ids(scope_id), is_receiving)

    async def deleted_ids(
        self, scope_ids: Collection[ScopeId] | None, before: dt.datetime | None, *, pruned: bool | None = None
    ) -> dict[MemoryId, ScopeId]:
        return await self._reader.deleted_ids(scope_ids, before, pruned=pruned)

    async def find_quoting(self, memory_ids: Collection[MemoryId] | None) -> dict[MemoryId, ScopeId]:
        return await self._reader.find_quoting(memory_ids)

    async def list_deleted(
        self, scope_ids: Collection[ScopeId] | None, limit: int, before: Deletion | None = None
    ) -> list[Deletion]:
        return await self._reader.list_deleted(scope_ids, limit, before)

    async def get_revisions(self, memory_id: MemoryId, before: int | None = None) -> RevisionPage:
        return await revisions.get_revisions(self._connection, self.set_aside, memory_id, before)

    def stream(self, scope_ids: Collection[ScopeId] | None = None) -> AsyncIterator[MemoryRecord]:
        return self._reader.stream(scope_ids)

    def rows(self) -> AsyncGenerator[IndexBatch, None]:
        return self._reader.rows()

    def versions(self) -> AsyncIterator[Version]:
        return self._reader.versions()

    async def count_live(self) -> dict[ScopeId, int]:
        return await self._reader.count_live()

    async def count_deleted(self, scope_ids: Collection[ScopeId] | None = None) -> int:
        return await self._reader.count_deleted(scope_ids)

    # small values

    async def get_meta(self, key: str) -> Mapping[str, Any] | None:
        async with self._connection.operation() as database:
            document = await database[schema.META].find_one({"_id": f"value.{key}"})
        if document is None or not self.set_aside.accepts(DocumentKind.META, schema.META, document):
            return None  # as if it had never been set
        value: Mapping[str, Any] = mapping.decode_value(document["value"])
        return value

    async def set_meta(self, key: str, value: Mapping[str, Any]) -> None:
        encoded = mapping.encode_value(dict(value), key)
        async with self._connection.operation() as database:
            await database[schema.META].replace_one({"_id": f"value.{key}"}, {"value": encoded}, upsert=True)

    async def ensure_meta(self, key: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
        encoded = mapping.encode_value(dict(value), key)
        async with self._connection.operation() as database:
            await database[schema.META].update_one(
                {"_id": f"value.{key}"}, {"$setOnInsert": {"value": encoded}}, upsert=True
            )
            stored = await database[schema.META].find_one({"_id": f"value.{key}"})
        return mapping.decode_value(stored["value"]) if stored else value

    async def list_meta(self, prefix: str) -> list[Mapping[str, Any]]:
        query = {"_id": {"$regex": f"^{re.escape(f'value.{prefix}')}"}}
        async with self._connection.operation() as database:
            stored = await database[schema.META].find(query).sort("_id", 1).to_list(None)
        return [mapping.decode_value(document["value"]) for document in stored]

    # changes by other processes

    async def change_token(self) -> bytes:
        async with self._connection.operation() as database:
            feed = changes.feed(self._connection, self._identity, self._deployment)
            return await feed.token_of_now(database)

    def has_reached(self, token: bytes, mark: bytes) -> bool:
        return changes.place_of(token) >= changes.place_of(mark)

    async def changes(self, after: bytes) -> AsyncGenerator[Change | None, None]:
        async for change in changes.feed(self._connection, self._identity, self._deployment).follow(after):
            if change is not None and change.scope_id is not None and len(self.set_aside):
                self._strike_off(change, schema.collection_name(change.scope_id))
            yield change

    def _strike_off(self, change: Change, collection: str) -> None:
        """Discard set-aside records of removed documents."""
        if change.kind is ChangeKind.SCOPE_REMOVED:
            self.set_aside.discard_collection(collection)
        elif change.kind is ChangeKind.REMOVED and change.memory_id is not None:
            self.set_aside.discard(collection, mapping.find_object_id(change.memory_id))
