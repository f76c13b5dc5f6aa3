"""Reads of memories: by id, or all of them, a page at a time.

Methods that take many ids process them in batches, so that no single operation is long. Unreadable documents are set aside and skipped as
if they were absent.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import itertools
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import bson
from bson import ObjectId
from pymongo import DESCENDING

from infinite_memory.models import IndexBatch, MemoryId, MemoryRecord, ScopeId
from infinite_memory.store.base import UNKNOWN_REVISION, Deletion, Located, Version
from infinite_memory.store.document_checks import CHECKED_CODEC, DocumentKind
from infinite_memory.store.document_fields import is_int
from infinite_memory.store.id_keys import SOURCES
from infinite_memory.store.mongo import mapping, row_documents, schema
from infinite_memory.store.mongo.client import Connection, Database
from infinite_memory.store.mongo.drivers import Document, aggregate, caught_up_session
from infinite_memory.store.mongo.scopes import Scopes

if TYPE_CHECKING:
    from bson.codec_options import CodecOptions
    from pymongo.asynchronous.collection import AsyncCollection

WITHOUT_VECTORS = {"embedding": 0}

_BATCH = 1000  # ids per operation, so that none is long
_STREAM_PAGE = 500  # whole memories with their vectors: some megabytes
_VERSION_PAGE = 20_000  # ids and revisions alone
_FIRST_ID = ObjectId(b"\0" * 12)
"""All ids from here on are of our type: others sort elsewhere, and a page that ends among them would end the scan."""

_ROW_PAGE = 1000  # rows with their vectors, which a sidecar ingests in one lock acquisition
_FEW = 20  # documents read before yielding to other tasks
_PAGE = 200  # documents per server batch, which is decoded in one go
_TOGETHER = 100
"""Scopes per query for things that few of them have: one by one, a thousand take ten times as long."""

_PARALLEL = 8
"""Concurrent operations when all scopes are queried; more would only queue up in the server."""

T = TypeVar("T")


class MemoryReader:
    """Reads the collections of all scopes over one connection."""

    def __init__(self, connection: Connection, scopes: Scopes) -> None:
        self._connection, self._scopes = connection, scopes

    async def fetch(
        self, located: Located, *, deleted: bool | None = False, vectors: bool = False, latest: bool = False
    ) -> dict[MemoryId, MemoryRecord]:
        query: Document = {} if deleted is None else {"live": not deleted}
        projection = None if vectors else WITHOUT_VECTORS
        accepts = self._connection.set_aside.accepts

        async def read(scope_id: ScopeId, ids: list[ObjectId]) -> list[MemoryRecord]:
            criteria = {"_id": {"$in": ids}, **query}
            async with (
                self._connection.operation() as database,
                caught_up_session(database) if latest else contextlib.nullcontext() as session,
            ):
                cursor = get_collection(database, scope_id).find(criteria, projection, session=session)
                memories: list[MemoryRecord] = []
                for count, document in enumerate(await cursor.batch_size(_PAGE).to_list(None), 1):
                    if accepts(DocumentKind.MEMORY, schema.collection_name(scope_id), document):
                        memories.append(mapping.from_document(document, scope_id))
                    if count % _FEW == 0:
                        await asyncio.sleep(0)  # a batch that has arrived already does not suspend
                return memories

        pages = await _gather(lambda batch: read(*batch), batches(located))
        return {memory.memory_id: memory for page in pages for memory in page}

    async def locate(self, memory_ids: Collection[MemoryId]) -> dict[MemoryId, ScopeId]:
        scope_ids = await self._scopes.ids()
        every = ((scope_id, ids) for scope_id in scope_ids for _, ids in batches(dict.fromkeys(memory_ids, scope_id)))

        async def look(scope_id: ScopeId, ids: list[ObjectId]) -> dict[MemoryId, ScopeId]:
            async with self._connection.operation() as database:
                cursor = get_collection(database, scope_id).find({"_id": {"$in": ids}}, {"_id": 1})
                return {MemoryId(str(document["_id"])): scope_id async for document in cursor}

        located: dict[MemoryId, ScopeId] = {}
        for result in await _gather(lambda batch: look(*batch), every):
            located |= result
        return located

    async def deleted_ids(
        self, scope_ids: Collection[ScopeId] | None, before: dt.datetime | None, *, pruned: bool | None = None
    ) -> dict[MemoryId, ScopeId]:
        query: Document = {"live": False}
        if pruned is not None:
            query["pruned"] = True if pruned else {"$ne": True}
        if before is not None:
            query["deleted_at"] = {"$lt": before}
        return await self._list_ids(query, scope_ids)

    async def find_quoting(self, memory_ids: Collection[MemoryId] | None) -> dict[MemoryId, ScopeId]:
        named: Document = {"$exists": True} if memory_ids is None else {"$in": list(memory_ids)}
        scope_ids = await self._scopes.ids()
        together = [scope_ids[start : start + _TOGETHER] for start in range(0, len(scope_ids), _TOGETHER)]

        async def look(batch: Sequence[ScopeId]) -> dict[MemoryId, ScopeId]:
            first, *others = (
                (schema.collection_name(scope_id), [{"$match": {f"metadata.{SOURCES}": named}},
                                               {"$project": {"scope": {"$literal": str(scope_id)}}}])
                for scope_id in batch
            )  # fmt: skip
            united = [{"$unionWith": {"coll": name, "pipeline": steps}} for name, steps in others]
            async with self._connection.operation(factor=4) as database:
                documents = await aggregate(database[first[0]], [*first[1], *united])
            return {MemoryId(str(document["_id"])): ScopeId(document["scope"]) for document in documents}

        quoting: dict[MemoryId, ScopeId] = {}
        for result in await _gather(look, together):
            quoting |= result
        return quoting

    async def list_ids(self, scope_id: ScopeId) -> frozenset[MemoryId]:
        """List every memory of a scope, live or soft-deleted, including unreadable ones."""
        return frozenset(await self._list_ids({}, [scope_id]))

    async def _list_ids(self, query: Document, scope_ids: Collection[ScopeId] | None) -> dict[MemoryId, ScopeId]:
        async def look(scope_id: ScopeId) -> dict[MemoryId, ScopeId]:
            async with self._connection.operation(factor=4) as database:
                cursor = get_collection(database, scope_id).find(query, {"_id": 1}).batch_size(_BATCH)
                return {MemoryId(str(document["_id"])): scope_id async for document in cursor}

        hidden: dict[MemoryId, ScopeId] = {}
        for result in await _gather(look, await self._scopes.ids() if scope_ids is None else scope_ids):
            hidden |= result
        return hidden

    async def list_deleted(
        self, scope_ids: Collection[ScopeId] | None, limit: int, before: Deletion | None
    ) -> list[Deletion]:
        query: Document = {"live": False, "deleted_at": {"$type": "date"}}
        if before is not None:
            deleted_at, last_id = before.deleted_at, ObjectId(before.memory_id)
            query["$or"] = [{"deleted_at": {"$lt": deleted_at}}, {"deleted_at": deleted_at, "_id": {"$lt": last_id}}]

        async def look(scope_id: ScopeId) -> list[Deletion]:
            async with self._connection.operation(factor=4) as database:
                cursor = get_collection(database, scope_id).find(query, {"_id": 1, "deleted_at": 1})
                latest = cursor.sort([("deleted_at", DESCENDING), ("_id", DESCENDING)]).limit(limit)
                return [
                    Deletion(document["deleted_at"], MemoryId(str(document["_id"])), scope_id)
                    async for document in latest
                ]

        parts = await _gather(look, await self._scopes.ids() if scope_ids is None else scope_ids)
        return sorted(itertools.chain.from_iterable(parts), reverse=True)[:limit]

    # full scans

    async def stream(self, scope_ids: Collection[ScopeId] | None = None) -> AsyncIterator[MemoryRecord]:
        for scope_id in await self._scopes.ids() if scope_ids is None else scope_ids:
            name = schema.collection_name(scope_id)
            async for page in self._pages(scope_id, None, _STREAM_PAGE):
                for document in page:
                    if self._connection.set_aside.accepts(DocumentKind.MEMORY, name, document):
                        yield mapping.from_document(document, scope_id)

    async def rows(self) -> AsyncGenerator[IndexBatch, None]:
        for scope_id in await self._scopes.ids():
            pages = self._pages(
                scope_id, row_documents.ROW_SHAPE, _ROW_PAGE, row_documents.ROW_CODEC, row_documents.ROW_QUERY
            )
            coming = asyncio.ensure_future(anext(pages, None))
            try:
                while page := await coming:
                    coming = asyncio.ensure_future(anext(pages, None))  # prefetched while this page is processed
                    read = row_documents.read_rows(page, scope_id)
                    yield read.rows
                    if read.unsound and (rows := await self._read_rows(scope_id, read.unsound)) is not None:
                        yield rows
            finally:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)

    async def _read_rows(self, scope_id: ScopeId, keys: Sequence[Any]) -> IndexBatch | None:
        """Read whole memories that do not fit the row layout: readable ones become rows, the others are set aside."""
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
        """Page through the live memories of a scope by id, each page a separate query, so that a slow reader loses none."""
        bound: Document = {"$gte": _FIRST_ID}
        while True:
            query = {**where, "_id": bound}
            async with self._connection.operation(factor=4, asks_first="$gte" in bound) as database:
                cursor = get_collection(database, scope_id).with_options(codec_options=codec).find(query, projection)
                page = await cursor.sort("_id", 1).limit(size).batch_size(size).to_list(None)
            if page:
                yield page
            if len(page) < size:
                return
            bound = {"$gt": page[-1]["_id"]}

    async def count_live(self) -> dict[ScopeId, int]:
        scope_ids = await self._scopes.ids()  # an unresponsive server is detected here
        return dict(
            zip(scope_ids, await _gather(lambda scope_id: self._count(scope_id, live=True), scope_ids), strict=True)
        )

    async def count_deleted(self, scope_ids: Collection[ScopeId] | None) -> int:
        counted_ids = await self._scopes.ids() if scope_ids is None else scope_ids
        return sum(await _gather(lambda scope_id: self._count(scope_id, live=False), counted_ids))

    async def _count(self, scope_id: ScopeId, *, live: bool) -> int:
        async with self._connection.operation(factor=4, asks_first=False) as database:
            query = {"live": live} | self._connection.set_aside.but_these(schema.collection_name(scope_id))
            return await get_collection(database, scope_id).count_documents(query)


def get_collection(database: Database, scope_id: ScopeId) -> AsyncCollection[Document]:
    """Return the collection of a scope."""
    return database[schema.collection_name(mapping.object_id(scope_id))]


def batches(located: Located) -> Iterator[tuple[ScopeId, list[ObjectId]]]:
    """Group ids by scope, in batches; invalid ids are skipped."""
    by_scope: dict[ScopeId, list[MemoryId]] = {}
    for memory_id, scope_id in located.items():
        by_scope.setdefault(scope_id, []).append(memory_id)
    for scope_id, ids in by_scope.items():
        if mapping.find_object_id(scope_id) is None:
            continue
        for start in range(0, len(ids), _BATCH):  # ids are parsed per batch: parsing many takes long
            parsed = map(mapping.find_object_id, ids[start : start + _BATCH])
            if keys := [key for key in parsed if key is not None]:
                yield scope_id, keys


async def _gather(ask: Callable[[Any], Coroutine[Any, Any, T]], items: Iterable[Any]) -> list[T]:
    """Query every item, a few concurrently; return results in the order of items; the first failure cancels the rest."""
    listed = list(items)
    if len(listed) == 1:
        return [await ask(listed[0])]
    gate = asyncio.Semaphore(_PARALLEL)

    async def one(item: Any) -> T:
        async with gate:
            return await ask(item)

    # Not in a TaskGroup: when one of its tasks fails, Python 3.11 leaves its caller marked as being cancelled, and up to
    # 3.11.2, which Debian 12 has, every timeout in that task then surfaces as a cancellation.
    tasks = [asyncio.create_task(one(item)) for item in listed]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
