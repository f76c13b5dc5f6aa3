"""The store on MongoDB: memories in a collection per scope, read and written as whole documents.

A write is acknowledged by a majority and journalled before a method returns; reads see what a majority has. Methods that take
many ids work through them in batches, so that no single operation is long.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import bson
from bson import ObjectId

from infinite_memory.errors import InfiniteMemoryError
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
    UNKNOWN_REVISION,
    Change,
    ChangeKind,
    Located,
    RevisionPage,
    Store,
    StoreCompaction,
    StoreInfo,
    Version,
)
from infinite_memory.store.copies import Copies
from infinite_memory.store.document_checks import CHECKED_CODEC, DocumentKind
from infinite_memory.store.document_fields import is_int
from infinite_memory.store.facts import Facts
from infinite_memory.store.links import Links
from infinite_memory.store.mongo import change_feed as changes
from infinite_memory.store.mongo import compaction, mapping, revisions, row_documents, schema
from infinite_memory.store.mongo.api_tokens import MongoApiTokens, bind_to_ids
from infinite_memory.store.mongo.client import Connection, UriSource
from infinite_memory.store.mongo.copies import MongoCopies
from infinite_memory.store.mongo.drivers import Document, in_transaction
from infinite_memory.store.mongo.facts import MongoFacts
from infinite_memory.store.mongo.links import MongoLinks
from infinite_memory.store.mongo.memory_writes import (
    WITHOUT_VECTORS,
    batches,
    compare_and_swap,
    get_collection,
    insert_or_undo,
    insert_together,
)
from infinite_memory.store.mongo.owners import MongoOwners
from infinite_memory.store.mongo.repairs import MongoRepairs
from infinite_memory.store.mongo.restore_steps import finish_interrupted
from infinite_memory.store.mongo.scopes import Scopes
from infinite_memory.store.mongo.stale_transactions import end_abandoned
from infinite_memory.store.mongo.usage import MongoUses
from infinite_memory.store.owners import Owners
from infinite_memory.store.repairs import Repairs
from infinite_memory.store.set_aside import SetAside
from infinite_memory.store.usage import Uses

if TYPE_CHECKING:
    from bson.codec_options import CodecOptions
    from pymongo.asynchronous.client_session import AsyncClientSession

_STREAM_PAGE = 500  # whole memories with their vectors: some megabytes
_VERSION_PAGE = 20_000  # ids and revisions alone
_FIRST_ID = ObjectId(b"\0" * 12)
"""From here on all ids are of our type: others sort elsewhere, and a page that ends among them would end the reading."""

_ROW_PAGE = 1000  # rows with their vectors, which a sidecar takes in under one hold of its lock
_FEW = 20  # documents written or read before others get their turn
_PAGE = 200  # documents that the server sends together: they are decoded in one go
_PARALLEL = 8
"""Operations under way at once when all scopes are asked; more only queue up in the server."""

_DEFAULT_TIMEOUT_S = 5.0

T = TypeVar("T")


class MongoStore(Store):
    """A store on one database.

    Args:
        uri: The server, or a function that makes sure that it runs and says where (`LocalMongo.ensure`).
        database: The database's name.
        driver: "pymongo" or "motor".
        timeout_s: How long one operation may take, waiting for the server included.

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
    ) -> None:
        self._connection = Connection(uri, database=database, driver=driver, timeout_s=timeout_s)
        self._scopes = Scopes(self._connection)
        self._facts = MongoFacts(self._connection)
        self._database_name = database
        self._deployment = ""
        self._identity = ""
        self._last_id: ObjectId | None = None

    # connecting

    async def connect(self) -> None:
        await self._connection.database(patient=True)
        async with self._connection.operation(factor=10) as database:
            self._deployment = _deployment(await database.client.admin.command("hello"))
            self._scopes.polled = self._facts.polled = self._is_polled
            if not self._is_polled:
                await end_abandoned(database.client)
            await finish_interrupted(database, self.set_aside, polled=self._is_polled)
            await schema.upgrade(database, self.set_aside)
            await schema.create_shared_indexes(database, polled=self._is_polled)
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
            kind = _deployment(await database.client.admin.command("hello"))
        return StoreInfo(build["version"], kind, size, self._database_name)

    async def compact(self, *, dry_run: bool = False) -> StoreCompaction:
        return await compaction.compact(self._connection, deployment=self._deployment, dry_run=dry_run)

    @property
    def identity(self) -> str:
        return self._identity

    @property
    def copies(self) -> Copies:
        return MongoCopies(self._connection, polled=self._is_polled)

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

    async def insert(self, memories: Sequence[MemoryRecord]) -> None:
        if not memories:
            return
        if len(memories) <= _FEW:
            by_scope = _documents_by_scope(memories)
        else:
            by_scope = await asyncio.to_thread(_documents_by_scope, memories)
        await self._scopes.check(set(by_scope))
        async with self._connection.operation(factor=1 + len(memories) / 100, asks_first=False) as database:
            if len(memories) == 1:
                [(scope_id, [document])] = by_scope.items()
                await get_collection(database, scope_id).insert_one(document)
            elif self._is_polled:
                await insert_or_undo(database, by_scope)
            else:
                await insert_together(database, by_scope)
        # A scope that was removed at this moment took them along, or a collection without a scope holds them.
        await self._scopes.check(set(by_scope))

    async def replace(self, memory: MemoryRecord, *, revise: bool) -> MemoryRecord:
        after = dataclasses.replace(memory, revision=memory.revision + 1)
        async with self._connection.operation() as database:
            await compare_and_swap(database, memory, mapping.to_document(after), revise=revise)
        return after

    async def write_batch(self, new: Sequence[MemoryRecord], changed: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        if self._is_polled:
            return await self._write_or_undo(new, changed)
        await self._scopes.check({memory.scope_id for memory in (*new, *changed)})
        after = [dataclasses.replace(memory, revision=memory.revision + 1) for memory in changed]

        async def work(session: AsyncClientSession) -> None:
            for before, memory in zip(changed, after, strict=True):
                await compare_and_swap(database, before, mapping.to_document(memory), session=session)
            for memory in new:
                await get_collection(database, memory.scope_id).insert_one(mapping.to_document(memory), session=session)

        async with self._connection.operation(factor=1 + (len(new) + len(changed)) / 50) as database:
            await in_transaction(database.client, work)
        await self._scopes.check({memory.scope_id for memory in (*new, *changed)})
        return after

    async def _write_or_undo(self, new: Sequence[MemoryRecord], changed: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        """Write without a transaction; after a failure, put back what was replaced."""
        olds = await self.fetch({one.memory_id: one.scope_id for one in changed}, deleted=None, vectors=True)
        done: list[MemoryRecord] = []
        try:
            for memory in changed:
                done.append(await self.replace(memory, revise=True))
            await self.insert(new)
        except InfiniteMemoryError:
            for memory in reversed(done):
                await self.replace(dataclasses.replace(olds[memory.memory_id], revision=memory.revision), revise=False)
            raise
        return done

    async def set_embedding(self, memory_id: MemoryId, scope_id: ScopeId, revision: int, embedding: Embedding) -> bool:
        change = {
            "$set": {"embedding": mapping.embedding_to_document(embedding)},
            "$inc": {"revision": 1},
            **schema.CHANGED_NOW,
        }
        query = {"_id": mapping.object_id(memory_id), "revision": revision}
        async with self._connection.operation() as database:
            return (await get_collection(database, scope_id).update_one(query, change)).matched_count == 1

    async def soft_delete(self, located: Located, deleted_at: dt.datetime, *, pruned: bool = False) -> list[MemoryId]:
        hidden = {"live": False, "deleted_at": floor_to_millisecond(deleted_at)}
        return await self._mark(located, live=True, change={"$set": hidden | ({"pruned": True} if pruned else {})})

    async def undelete(self, located: Located) -> list[MemoryId]:
        return await self._mark(
            located, live=False, change={"$set": {"live": True}, "$unset": {"deleted_at": "", "pruned": ""}}
        )

    async def _mark(self, located: Located, *, live: bool, change: Mapping[str, Any]) -> list[MemoryId]:
        """Change those memories that are live or not; a mark of this very call tells which they were."""
        mark = ObjectId()
        update = {**change, "$set": {**change["$set"], "mark": mark}, "$inc": {"revision": 1}, **schema.CHANGED_NOW}
        changed: list[MemoryId] = []
        for scope_id, ids in batches(located):
            async with self._connection.operation() as database:
                memories = get_collection(database, scope_id)
                result = await memories.update_many({"_id": {"$in": ids}, "live": live}, update)
                if result.matched_count:
                    found = memories.find({"_id": {"$in": ids}, "mark": mark}, {"_id": 1})
                    changed += [MemoryId(str(one["_id"])) async for one in found]
        return changed

    async def remove(self, located: Located) -> list[MemoryId]:
        removed: list[MemoryId] = []
        for scope_id, ids in batches(located):
            async with self._connection.operation(factor=2) as database:
                memories = get_collection(database, scope_id)
                there = [one["_id"] async for one in memories.find({"_id": {"$in": ids}}, {"_id": 1})]
                if not there:
                    continue
                # The memory goes last: while it is there, a repeated call finishes the work.
                if self._is_polled:
                    await changes.write_tombstones(database, mapping.object_id(scope_id), there)
                await database[schema.REVISIONS].delete_many({"memory_id": {"$in": there}})
                ends = [{"from_id": {"$in": there}}, {"to_id": {"$in": there}}]
                await database[schema.LINKS].delete_many({"$or": ends})
                await database[schema.USES].delete_many({"_id": {"$in": there}})
                await memories.delete_many({"_id": {"$in": there}})
                # Somebody who was changing one of them may have kept a version meanwhile.
                await database[schema.REVISIONS].delete_many({"memory_id": {"$in": there}})
                removed += [MemoryId(str(key)) for key in there]
        return removed

    # reading memories

    async def fetch(
        self, located: Located, *, deleted: bool | None = False, vectors: bool = False
    ) -> dict[MemoryId, MemoryRecord]:
        query: Document = {} if deleted is None else {"live": not deleted}
        projection = None if vectors else WITHOUT_VECTORS

        async def read(scope_id: ScopeId, ids: list[ObjectId]) -> list[MemoryRecord]:
            async with self._connection.operation() as database:
                found = get_collection(database, scope_id).find({"_id": {"$in": ids}, **query}, projection)
                memories: list[MemoryRecord] = []
                for document in await self._sound(scope_id, found.batch_size(_PAGE)):
                    memories.append(mapping.from_document(document, scope_id))
                    if len(memories) % _FEW == 0:
                        await asyncio.sleep(0)  # a batch that is there already suspends nobody
                return memories

        pages = await _gather(lambda batch: read(*batch), batches(located))
        return {memory.memory_id: memory for page in pages for memory in page}

    async def _sound(self, scope_id: ScopeId, found: AsyncIterable[Document]) -> list[Document]:
        """Read those memories that can be read; the others are set aside."""
        name, accepts = schema.collection_name(scope_id), self.set_aside.accepts
        return [document async for document in found if accepts(DocumentKind.MEMORY, name, document)]

    async def locate(self, memory_ids: Collection[MemoryId]) -> dict[MemoryId, ScopeId]:
        scope_ids = await self._scopes.ids()
        every = ((scope_id, ids) for scope_id in scope_ids for _, ids in batches(dict.fromkeys(memory_ids, scope_id)))

        async def look(scope_id: ScopeId, ids: list[ObjectId]) -> dict[MemoryId, ScopeId]:
            async with self._connection.operation() as database:
                found = get_collection(database, scope_id).find({"_id": {"$in": ids}}, {"_id": 1})
                return {MemoryId(str(one["_id"])): scope_id async for one in found}

        located: dict[MemoryId, ScopeId] = {}
        for part in await _gather(lambda batch: look(*batch), every):
            located |= part
        return located

    async def deleted_ids(
        self, scope_ids: Collection[ScopeId] | None, before: dt.datetime | None, *, pruned: bool | None = None
    ) -> dict[MemoryId, ScopeId]:
        query: Document = {"live": False}
        if pruned is not None:
            query["pruned"] = True if pruned else {"$ne": True}
        if before is not None:
            query["deleted_at"] = {"$lt": before}

        async def look(scope_id: ScopeId) -> dict[MemoryId, ScopeId]:
            async with self._connection.operation(factor=4) as database:
                found = get_collection(database, scope_id).find(query, {"_id": 1})
                return {MemoryId(str(one["_id"])): scope_id async for one in found}

        hidden: dict[MemoryId, ScopeId] = {}
        for part in await _gather(look, await self._scopes.ids() if scope_ids is None else scope_ids):
            hidden |= part
        return hidden

    async def get_revisions(self, memory_id: MemoryId, before: int | None = None) -> RevisionPage:
        return await revisions.get_revisions(self._connection, self.set_aside, memory_id, before)

    # reading everything

    async def stream(self, scope_ids: Collection[ScopeId] | None = None) -> AsyncIterator[MemoryRecord]:
        for scope_id in await self._scopes.ids() if scope_ids is None else scope_ids:
            name = schema.collection_name(scope_id)
            async for page in self._pages(scope_id, None, _STREAM_PAGE):
                for document in page:
                    if self.set_aside.accepts(DocumentKind.MEMORY, name, document):
                        yield mapping.from_document(document, scope_id)

    async def rows(self) -> AsyncGenerator[IndexBatch, None]:
        for scope_id in await self._scopes.ids():
            pages = self._pages(
                scope_id, row_documents.ROW_SHAPE, _ROW_PAGE, row_documents.ROW_CODEC, row_documents.ROW_QUERY
            )
            coming = asyncio.ensure_future(anext(pages, None))
            try:
                while page := await coming:
                    coming = asyncio.ensure_future(anext(pages, None))  # read while this page is worked on
                    read = row_documents.read_rows(page, scope_id)
                    yield read.rows
                    if read.unsound and (rows := await self._rows_of(scope_id, read.unsound)) is not None:
                        yield rows
            finally:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)

    async def _rows_of(self, scope_id: ScopeId, keys: Sequence[Any]) -> IndexBatch | None:
        """Look at memories whole that are not as a row expects: those that can be read give rows, the others are set aside."""
        located = {MemoryId(str(key)): scope_id for key in keys if isinstance(key, ObjectId)}
        memories = await self.fetch(located, vectors=True)
        again = [bson.encode(mapping.to_document(memory)) for memory in memories.values()]
        page = [bson.decode(raw, row_documents.ROW_CODEC) for raw in again]
        return row_documents.read_rows(page, scope_id).rows if page else None

    async def versions(self) -> AsyncIterator[Version]:
        for scope_id in await self._scopes.ids():
            async for page in self._pages(scope_id, {"_id": 1, "revision": 1}, _VERSION_PAGE):
                for document in page:
                    revision: Any = document.get("revision")
                    number = int(revision) if is_int(revision) else UNKNOWN_REVISION
                    yield Version(MemoryId(str(document["_id"])), scope_id, number)

    async def _pages(
        self,
        scope_id: ScopeId,
        projection: Mapping[str, int] | None,
        size: int,
        codec: CodecOptions[Document] = CHECKED_CODEC,
        where: Mapping[str, Any] = MappingProxyType({"live": True}),
    ) -> AsyncIterator[list[Document]]:
        """Page through the live memories of a scope by id, each page a query of its own, so that a slow reader loses none."""
        bound: Document = {"$gte": _FIRST_ID}
        while True:
            query = {**where, "_id": bound}
            async with self._connection.operation(factor=4, asks_first="$gte" in bound) as database:
                found = get_collection(database, scope_id).with_options(codec_options=codec).find(query, projection)
                page = await found.sort("_id", 1).limit(size).batch_size(size).to_list(None)
            if page:
                yield page
            if len(page) < size:
                return
            bound = {"$gt": page[-1]["_id"]}

    async def count_live(self) -> dict[ScopeId, int]:
        scope_ids = await self._scopes.ids()  # a server that does not answer is noticed here
        return dict(zip(scope_ids, await _gather(lambda one: self._count(one, live=True), scope_ids), strict=True))

    async def count_deleted(self) -> int:
        return sum(await _gather(lambda one: self._count(one, live=False), await self._scopes.ids()))

    async def _count(self, scope_id: ScopeId, *, live: bool) -> int:
        async with self._connection.operation(factor=4, asks_first=False) as database:
            query = {"live": live} | self.set_aside.but_these(schema.collection_name(scope_id))
            return await get_collection(database, scope_id).count_documents(query)

    # small values

    async def get_meta(self, key: str) -> Mapping[str, Any] | None:
        async with self._connection.operation() as database:
            found = await database[schema.META].find_one({"_id": f"value.{key}"})
        if found is None or not self.set_aside.accepts(DocumentKind.META, schema.META, found):
            return None  # as if it had never been set
        value: Mapping[str, Any] = mapping.decode_value(found["value"])
        return value

    async def set_meta(self, key: str, value: Mapping[str, Any]) -> None:
        kept = mapping.encode_value(dict(value), key)
        async with self._connection.operation() as database:
            await database[schema.META].replace_one({"_id": f"value.{key}"}, {"value": kept}, upsert=True)

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
        return [mapping.decode_value(one["value"]) for one in stored]

    # what others write

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
        """Take from what is set aside what is gone."""
        if change.kind is ChangeKind.SCOPE_REMOVED:
            self.set_aside.discard_collection(collection)
        elif change.kind is ChangeKind.REMOVED and change.memory_id is not None:
            self.set_aside.discard(collection, mapping.find_object_id(change.memory_id))


def _deployment(hello: Mapping[str, Any]) -> str:
    if "setName" in hello:
        return "replica set"
    return "sharded" if hello.get("msg") == "isdbgrid" else "standalone"


def _documents_by_scope(memories: Iterable[MemoryRecord]) -> dict[ScopeId, list[Document]]:
    by_scope: dict[ScopeId, list[Document]] = {}
    for memory in memories:
        by_scope.setdefault(memory.scope_id, []).append(mapping.to_document(memory))
    return by_scope


async def _gather(ask: Callable[[Any], Coroutine[Any, Any, T]], items: Iterable[Any]) -> list[T]:
    """Ask for every item, a few at a time; answers in the order of items, the first failure ends all."""
    gate = asyncio.Semaphore(_PARALLEL)

    async def one(item: Any) -> T:
        async with gate:
            return await ask(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in items]
    except* InfiniteMemoryError as failures:
        raise failures.exceptions[0] from None
    return [task.result() for task in tasks]
