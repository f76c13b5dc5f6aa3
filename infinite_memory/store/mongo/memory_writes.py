"""Writes to the collections of memories, inside an operation or a transaction that the caller holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NoReturn

from pymongo.errors import BulkWriteError

from infinite_memory.errors import MemoryChangedError, MemoryNotFoundError
from infinite_memory.models import MemoryRecord, ScopeId
from infinite_memory.store.base import Located
from infinite_memory.store.mongo import mapping, schema
from infinite_memory.store.mongo.client import Database
from infinite_memory.store.mongo.drivers import Document, in_transaction

if TYPE_CHECKING:
    from bson import ObjectId
    from pymongo.asynchronous.client_session import AsyncClientSession
    from pymongo.asynchronous.collection import AsyncCollection

WITHOUT_VECTORS = {"embedding": 0}

_BATCH = 1000  # ids in one operation, so that none is long


def get_collection(database: Database, scope_id: ScopeId) -> AsyncCollection[Document]:
    """Give the collection of a scope's memories."""
    return database[schema.collection_name(mapping.object_id(scope_id))]


def batches(located: Located) -> Iterator[tuple[ScopeId, list[ObjectId]]]:
    """Sort ids by scope, in batches; what cannot be an id is left out."""
    by_scope: dict[ScopeId, list[ObjectId]] = {}
    for memory_id, scope_id in located.items():
        key = mapping.find_object_id(memory_id)
        if key is not None and mapping.find_object_id(scope_id) is not None:
            by_scope.setdefault(scope_id, []).append(key)
    for scope_id, keys in by_scope.items():
        for start in range(0, len(keys), _BATCH):
            yield scope_id, keys[start : start + _BATCH]


async def insert_together(database: Database, by_scope: Mapping[ScopeId, list[Document]]) -> None:
    """Insert in one transaction."""

    async def work(session: AsyncClientSession) -> None:
        for scope_id, group in by_scope.items():
            await get_collection(database, scope_id).insert_many(group, session=session)

    await in_transaction(database.client, work)


async def insert_or_undo(database: Database, by_scope: Mapping[ScopeId, list[Document]]) -> None:
    """Insert without a transaction; after a failure, take back what got in."""
    done: list[tuple[ScopeId, list[ObjectId]]] = []
    try:
        for scope_id, group in by_scope.items():
            try:
                await get_collection(database, scope_id).insert_many(group)
            except BulkWriteError as exc:
                done.append((scope_id, [one["_id"] for one in group[: exc.details["nInserted"]]]))
                raise
            done.append((scope_id, [one["_id"] for one in group]))
    except Exception:
        for scope_id, keys in done:
            await get_collection(database, scope_id).delete_many({"_id": {"$in": keys}})
        raise


async def compare_and_swap(
    database: Database,
    memory: MemoryRecord,
    document: Document,
    *,
    revise: bool = True,
    session: AsyncClientSession | None = None,
) -> None:
    """Put *document* in the place of *memory*, whose version before is kept where *revise* says so.

    Raises:
        MemoryNotFoundError: it is gone.
        MemoryChangedError: it changed.
    """
    memories, revisions = get_collection(database, memory.scope_id), database[schema.REVISIONS]
    query = {"_id": document["_id"], "revision": memory.revision}
    if revise:
        before = await memories.find_one(query, WITHOUT_VECTORS, session=session)
        if before is None:
            await _raise_conflict(database, memory, session)
        # Before the change, so that no version can be missing; named by its number, so that doing it twice is once.
        version = {"memory_id": document["_id"], "revision": memory.revision}
        kept = {"$setOnInsert": {"scope_id": mapping.object_id(memory.scope_id), "document": before}}
        await revisions.update_one(version, kept, upsert=True, session=session)
    if (await memories.replace_one(query, document, session=session)).matched_count == 0:
        if revise and await memories.find_one({"_id": document["_id"]}, {"_id": 1}, session=session) is None:
            # Removed at this moment: the version that was just kept goes too.
            await revisions.delete_many({"memory_id": document["_id"]}, session=session)
        await _raise_conflict(database, memory, session)


async def _raise_conflict(database: Database, memory: MemoryRecord, session: AsyncClientSession | None) -> NoReturn:
    key = {"_id": mapping.object_id(memory.memory_id)}
    if await get_collection(database, memory.scope_id).find_one(key, {"_id": 1}, session=session) is None:
        raise MemoryNotFoundError(memory.memory_id)
    raise MemoryChangedError(memory.memory_id)
