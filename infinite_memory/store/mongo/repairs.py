"""`Repairs` on MongoDB."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

from bson import ObjectId, json_util
from pymongo.errors import DuplicateKeyError

from infinite_memory.models import MemoryId, ScopeId, fold
from infinite_memory.store.base import Located
from infinite_memory.store.document_checks import SCHEMA, DocumentFault, check_document, kind_of_collection
from infinite_memory.store.document_fields import DocumentKind, is_object_id
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.client import Connection, Database
from infinite_memory.store.mongo.document_mending import is_disposable, mend_document
from infinite_memory.store.mongo.mapping import NOW
from infinite_memory.store.mongo.restore_steps import is_restoring
from infinite_memory.store.mongo.snapshot import MEMORIES
from infinite_memory.store.repairs import Repaired, RepairOutcome, Repairs
from infinite_memory.store.set_aside import SetAsideDocument

Document = dict[str, Any]

SMALL = 20_000
"""Collections of at most this many documents are checked in full each time; larger ones only when everything is."""

_PAGE = 500
_SHARED = (
    schema.SCOPES,
    schema.META,
    schema.AGENTS,
    schema.TOKENS,
    schema.FACTS,
    schema.LINKS,
    schema.REVISIONS,
    schema.USES,
)
_OTHER_TYPES = ("number", "string", "object", "binData", "bool", "date", "timestamp", "null", "minKey", "maxKey", "javascript",
                "symbol")  # fmt: skip
_STRANGE: Mapping[str, Any] = {"$or": [{"live": {"$nin": [True, False]}}, {"_id": {"$type": list(_OTHER_TYPES)}}]}
"""Memories that no query of ours returns; an index finds them."""

_NO_SCOPE = DocumentFault("_id", "a document for the scope of these memories", is_mendable=True)


class MongoRepairs(Repairs):
    """See `Repairs`.

    Args:
        read_scopes: Reads every scope, and sets aside invalid ones.
        remove_memories: `Store.remove`.
        drop_scope: `Store.drop_scope`.
    """

    def __init__(
        self, connection: Connection, read_scopes: Callable[[], Awaitable[Any]],
        remove_memories: Callable[[Located], Awaitable[Any]], drop_scope: Callable[[ScopeId], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._connection, self._set_aside = connection, connection.set_aside
        self._read_scopes, self._remove_memories, self._drop_scope = read_scopes, remove_memories, drop_scope

    async def look(self, *, full: bool = False) -> None:
        await self._look_again()
        await self._read_scopes()
        for name in _SHARED:
            if name != schema.SCOPES:
                await self._look_at(name, {}, SMALL, full=full)
        async with self._connection.operation(factor=4) as database:
            names = await database.list_collection_names(filter={"name": {"$regex": f"^{MEMORIES.pattern}$"}})
        for name in sorted(names):
            await self._look_at(name, _STRANGE, None, full=True)
            await self._look_at(name, {"live": False}, SMALL, full=full)
            if full:
                await self._look_at(name, {"live": True}, None, full=True)
        await self._look_for_lost_scopes(names)

    async def _look_again(self) -> None:
        """Discard records of documents that are valid by now, or removed."""
        by_collection: dict[str, list[Any]] = {}
        for entry in self._set_aside.documents():
            if entry.collection == schema.SCOPES:
                continue  # checked together, because their names must be unique
            by_collection.setdefault(entry.collection, []).append(entry.document_id)
        for name, keys in by_collection.items():
            for start in range(0, len(keys), _PAGE):
                batch = keys[start : start + _PAGE]
                async with self._connection.operation(factor=4) as database:
                    documents = await database[name].find({"_id": {"$in": batch}}).to_list(None)
                self._accept_all(name, documents)
                existing = {repr(document["_id"]) for document in documents}
                for key in batch:
                    if repr(key) not in existing:
                        self._set_aside.discard(name, key)

    async def _look_at(self, name: str, query: Mapping[str, Any], limit: int | None, *, full: bool) -> None:
        if not full and limit is not None:
            async with self._connection.operation(factor=4) as database:
                if await database[name].count_documents(query, limit=limit + 1) > limit:
                    return
        async for page in self._pages(name, query):
            self._accept_all(name, page)

    def _accept_all(self, name: str, documents: Sequence[Document]) -> None:
        kind = kind_of_collection(name)
        assert kind is not None
        for document in documents:
            self._set_aside.accepts(kind, name, document)

    async def _pages(self, name: str, query: Mapping[str, Any]) -> AsyncIterator[list[Document]]:
        """Page through documents in natural order: their ids may be of several types, which do not compare."""
        async with self._connection.operation(factor=60, asks_first=False) as database:
            cursor = database[name].find(query, batch_size=_PAGE)
            page: list[Document] = []
            async for document in cursor:
                page.append(document)
                if len(page) == _PAGE:
                    yield page
                    page = []
        yield page

    async def _look_for_lost_scopes(self, names: Sequence[str]) -> None:
        """Record memory collections that no scope owns."""
        async with self._connection.operation(factor=4) as database:
            if await is_restoring(database):
                return
            existing = {repr(document["_id"]) async for document in database[schema.SCOPES].find({}, {"_id": 1})}
            lost = [key for key in map(_scope_key, sorted(names)) if repr(key) not in existing]
            for key in lost:
                if await database[schema.collection_name(key)].find_one({}, {"_id": 1}) is not None:
                    self._set_aside.record(schema.SCOPES, key, [_NO_SCOPE])
                    existing.add(repr(key))
        for entry in self._set_aside.documents(schema.SCOPES):
            if repr(entry.document_id) not in existing:
                self._set_aside.discard(schema.SCOPES, entry.document_id)

    async def extended_json(self, document: SetAsideDocument) -> str | None:
        async with self._connection.operation() as database:
            raw = await _find(database, document)
        if raw is None:
            return None
        return json_util.dumps(
            {"collection": document.collection, "document": raw}, json_options=json_util.CANONICAL_JSON_OPTIONS
        )

    async def repair(self, document: SetAsideDocument, *, mend: bool, remove: bool, dry_run: bool) -> Repaired:
        if mend and await self._mend(document, dry_run=dry_run):
            return Repaired(document, RepairOutcome.MENDED)
        if not remove:
            return Repaired(document, RepairOutcome.LEFT)
        memories = await self._count_memories(document)
        if not dry_run:
            await self._remove(document)
        return Repaired(document, RepairOutcome.REMOVED, memories)

    async def _mend(self, document: SetAsideDocument, *, dry_run: bool) -> bool:
        kind = kind_of_collection(document.collection)
        assert kind is not None
        async with self._connection.operation(factor=4) as database:
            raw = await _find(database, document)
            if raw is None and kind is DocumentKind.SCOPE and is_object_id(document.document_id):
                raw = {"_id": document.document_id}  # only its memories exist
            if raw is None:
                return False
            mended = await self._mended(database, kind, raw)
            if mended is None:
                return False
            if not dry_run:
                await _write(database, document.collection, raw, mended)
                self._set_aside.discard(document.collection, document.document_id)
        return True

    async def _mended(self, database: Database, kind: DocumentKind, raw: Document) -> Document | None:
        """Return the repaired document; empty if it is to be removed, because it is recreated."""
        faults = check_document(kind, raw)
        if is_disposable(kind, raw) and all(fault.is_mendable for fault in faults):
            return {"_id": SCHEMA, "version": schema.SCHEMA_VERSION} if raw["_id"] == SCHEMA else {}
        mended = mend_document(kind, raw)
        if mended is not None and kind is DocumentKind.SCOPE:
            others = database[schema.SCOPES].find({"_id": {"$ne": raw["_id"]}}, {"name": 1})
            names = {fold(scope["name"]) async for scope in others if isinstance(scope.get("name"), str)}
            if mended["name_key"] in names:
                mended["name"] = f"{mended['name']} {raw['_id']}"
                mended["name_key"] = fold(mended["name"])
        return mended

    async def _count_memories(self, document: SetAsideDocument) -> int:
        if document.collection != schema.SCOPES or not is_object_id(document.document_id):
            return 0
        async with self._connection.operation(factor=4) as database:
            return await database[schema.collection_name(document.document_id)].count_documents({})

    async def _remove(self, document: SetAsideDocument) -> None:
        key, name = document.document_id, document.collection
        match = MEMORIES.fullmatch(name)
        if match is not None and is_object_id(key):
            await self._remove_memories({MemoryId(str(key)): ScopeId(match[1])})
        elif name == schema.SCOPES and is_object_id(key):
            # Upserted, so that a scope without a document can be dropped as well.
            async with self._connection.operation() as database:
                await database[name].update_one({"_id": key}, {"$set": {"dropping": True}}, upsert=True)
            await self._drop_scope(ScopeId(str(key)))
        else:
            async with self._connection.operation() as database:
                await database[name].delete_one({"_id": {"$eq": key}})
        self._set_aside.discard(name, key)


async def _find(database: Database, document: SetAsideDocument) -> Document | None:
    return await database[document.collection].find_one({"_id": {"$eq": document.document_id}})


async def _write(database: Database, collection: str, raw: Document, mended: Document) -> None:
    """Replace a document with its repaired form."""
    documents = database[collection]
    if not mended:
        await documents.delete_one({"_id": {"$eq": raw["_id"]}})
        return
    if MEMORIES.fullmatch(collection):
        mended["changed"] = NOW
    if mended["_id"] == raw["_id"]:
        await documents.replace_one({"_id": raw["_id"]}, mended, upsert=True)
        return
    with contextlib.suppress(DuplicateKeyError):
        await documents.insert_one(mended)
    await documents.delete_one({"_id": {"$eq": raw["_id"]}})


def _scope_key(collection: str) -> ObjectId:
    return ObjectId(collection.removeprefix(schema.PREFIX))
