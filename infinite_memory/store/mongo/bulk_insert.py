"""Bulk inserts of an import besides memories: earlier versions, facts and links, each with its own id, so repeating is idempotent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from bson import ObjectId
from pymongo.errors import BulkWriteError

from infinite_memory.models import Fact, FactId, Link, MemoryRecord, ScopeId
from infinite_memory.store.copies import FactPlace
from infinite_memory.store.mongo import facts as mongo_facts
from infinite_memory.store.mongo import links as mongo_links
from infinite_memory.store.mongo import mapping, schema
from infinite_memory.store.mongo.client import Connection

_BATCH = 500
_DUPLICATE_KEY = 11000

Document = dict[str, Any]


async def add_revisions(connection: Connection, versions: Sequence[MemoryRecord], *, dry_run: bool) -> int:
    """See `Copies.add_revisions`."""
    added = 0
    for batch in _batches(versions):
        ids = [mapping.object_id(memory.memory_id) for memory in batch]
        async with connection.operation(factor=4) as database:
            cursor = database[schema.REVISIONS].find(
                {"memory_id": {"$in": ids}}, {"memory_id": 1, "revision": 1, "_id": 0}
            )
            existing = {(document["memory_id"], document["revision"]) async for document in cursor}
        fresh = {
            (key, version.revision): version
            for key, version in zip(ids, batch, strict=True)
            if (key, version.revision) not in existing
        }
        added += len(fresh)
        if not dry_run:
            await _insert(connection, schema.REVISIONS, [_version(version) for version in fresh.values()])
    return added


async def find_facts(connection: Connection, facts: Sequence[Fact]) -> set[FactId]:
    """See `Copies.find_facts`."""
    existing: set[FactId] = set()
    for batch in _batches(facts):
        keys = [mapping.object_id(fact.fact_id) for fact in batch]
        async with connection.operation(factor=4) as database:
            cursor = database[schema.FACTS].find({"_id": {"$in": keys}}, {"_id": 1})
            existing |= {FactId(str(document["_id"])) async for document in cursor}
    return existing


async def add_facts(
    connection: Connection, facts: Sequence[Fact], holding: set[FactPlace], *, dry_run: bool
) -> list[Fact]:
    """See `Copies.add_facts`."""
    refused: list[Fact] = []
    existing = await find_facts(connection, facts)
    fresh = list({fact.fact_id: fact for fact in facts if fact.fact_id not in existing}.values())
    for batch in _batches(fresh):
        documents = [mongo_facts.whole_document(fact) for fact in batch]
        keys = [
            {name: document[name] for name in ("scope_id", "subject_key", "predicate_key")}
            for document in documents
            if document["active"]
        ]
        holding |= await _find_held(connection, keys)
        accepted: dict[ObjectId, Document] = {}
        for document in documents:
            if document["active"] and _get_place(document) in holding:
                continue
            accepted[document["_id"]] = document
            if document["active"]:
                holding.add(_get_place(document))
        if not dry_run:
            for key in await _insert(connection, schema.FACTS, list(accepted.values())):
                del accepted[key]
        refused += [fact for fact, document in zip(batch, documents, strict=True) if document["_id"] not in accepted]
    return refused


async def add_links(connection: Connection, links: Sequence[tuple[Link, ScopeId]], *, dry_run: bool) -> int:
    """See `Copies.add_links`."""
    added = 0
    for batch in _batches(links):
        documents = {document["_id"]: document for document in (mongo_links.to_document(*pair) for pair in batch)}
        async with connection.operation(factor=4) as database:
            async for document in database[schema.LINKS].find({"_id": {"$in": list(documents)}}, {"_id": 1}):
                documents.pop(document["_id"])
        added += len(documents)
        if not dry_run:
            await _insert(connection, schema.LINKS, list(documents.values()))
    return added


async def _find_held(connection: Connection, keys: list[Document]) -> set[FactPlace]:
    """Return the subjects and predicates for which a fact holds."""
    if not keys:
        return set()
    async with connection.operation(factor=4) as database:
        return {_get_place(document) async for document in database[schema.FACTS].find({"active": True, "$or": keys})}


def _get_place(fact: Document) -> FactPlace:
    return str(fact["scope_id"]), fact["subject_key"], fact["predicate_key"]


def _version(version: MemoryRecord) -> Document:
    document = mapping.to_document(version)
    document["changed"] = None  # only a top-level field gets the server's timestamp
    return {
        "_id": ObjectId(),
        "memory_id": document["_id"],
        "revision": version.revision,
        "scope_id": mapping.object_id(version.scope_id),
        "document": document,
    }


async def _insert(connection: Connection, name: str, documents: list[Document]) -> list[ObjectId]:
    """Insert documents; ones added concurrently count as existing. Return the ids of those rejected by another unique index."""
    if not documents:
        return []
    async with connection.operation(factor=4) as database:
        try:
            await database[name].insert_many(documents, ordered=False)
        except BulkWriteError as exc:
            errors = exc.details["writeErrors"]
            if exc.details["writeConcernErrors"] or any(error["code"] != _DUPLICATE_KEY for error in errors):
                raise
            return [documents[error["index"]]["_id"] for error in errors if "_id" not in error["keyPattern"]]
    return []


def _batches(items: Sequence[Any]) -> Iterator[Any]:
    for start in range(0, len(items), _BATCH):
        yield items[start : start + _BATCH]
