"""Writes of memories: inserts, updates that check the revision, soft and hard deletes.

Methods that take many ids process them in batches, so that no single operation is long.
"""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from bson import ObjectId
from pymongo.errors import BulkWriteError

from infinite_memory.errors import (
    InfiniteMemoryError,
    MemoryChangedError,
    MemoryNotFoundError,
    ScopeArchivedError,
    ScopeNotFoundError,
)
from infinite_memory.models import Embedding, MemoryId, MemoryRecord, ScopeId, floor_to_millisecond
from infinite_memory.store.base import Located
from infinite_memory.store.conditions import ANY, Condition
from infinite_memory.store.mongo import change_feed as changes
from infinite_memory.store.mongo import mapping, schema
from infinite_memory.store.mongo.client import Connection, Database
from infinite_memory.store.mongo.drivers import Document, in_transaction
from infinite_memory.store.mongo.memory_reads import WITHOUT_VECTORS, MemoryReader, batches, get_collection
from infinite_memory.store.mongo.merge_journal import note_removed
from infinite_memory.store.mongo.moves import touch_open_scope, wait_for_merge
from infinite_memory.store.mongo.scopes import Scopes

if TYPE_CHECKING:
    from pymongo.asynchronous.client_session import AsyncClientSession

_FEW = 20  # documents written before yielding to other tasks
_PURGED = 100  # memories removed in one transaction, each with its versions


class MemoryWriter:
    """Writes to the collections of all scopes over one connection. ``polled``: True if the server has no transactions."""

    def __init__(self, connection: Connection, scopes: Scopes, reader: MemoryReader) -> None:
        self._connection, self._scopes, self._reader = connection, scopes, reader
        self.polled = False

    async def insert(self, memories: Sequence[MemoryRecord], *, include_archived: bool = False) -> None:
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
            elif self.polled:
                await insert_or_undo(database, by_scope)
            else:
                await insert_together(database, by_scope)
        # A scope removed concurrently took them along, or they are in a collection without a scope; one archived concurrently may be about
        # to be removed by a process that did not count them.
        try:
            await self._scopes.check(set(by_scope), include_archived=include_archived)
        except ScopeArchivedError:
            await self.remove({memory.memory_id: memory.scope_id for memory in memories})
            raise
        except ScopeNotFoundError:
            located = await self._locate_merged(memories)
            if len(located) < len(memories):
                await self.remove(located)
                raise

    async def replace(self, memory: MemoryRecord, *, keep_revision: bool) -> MemoryRecord:
        after = dataclasses.replace(memory, revision=memory.revision + 1)
        async with self._connection.operation() as database:
            await compare_and_swap(database, memory, mapping.to_document(after), keep_revision=keep_revision)
        try:
            await self._scopes.check({memory.scope_id})
        except ScopeNotFoundError as exc:  # merged into another concurrently, it may have been copied before
            located = await self._locate_merged([memory])
            current = (await self._reader.fetch(located, deleted=None, vectors=True)).get(memory.memory_id)
            if current is None:
                raise MemoryNotFoundError(memory.memory_id) from exc
            if (current.text, current.updated_at) != (memory.text, memory.updated_at):
                raise MemoryChangedError(memory.memory_id) from exc
            return current
        return after

    async def _locate_merged(self, memories: Sequence[MemoryRecord]) -> Located:
        """Return the current scopes of memories whose scope was removed: those in it when it was merged into another."""
        await wait_for_merge(self._connection, [mapping.object_id(memory.scope_id) for memory in memories])
        return await self._reader.locate([memory.memory_id for memory in memories])

    async def remove_versions(self, memory_id: MemoryId, revisions: Collection[int]) -> None:
        async with self._connection.operation() as database:
            named = {"memory_id": mapping.object_id(memory_id), "revision": {"$in": list(revisions)}}
            await database[schema.REVISIONS].delete_many(named)

    async def write_batch(self, new: Sequence[MemoryRecord], changed: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        if self.polled:
            return await self._write_or_undo(new, changed)
        await self._scopes.check({memory.scope_id for memory in (*new, *changed)})
        after = [dataclasses.replace(memory, revision=memory.revision + 1) for memory in changed]

        async def work(session: AsyncClientSession) -> None:
            for scope_id in sorted({memory.scope_id for memory in new}):
                await touch_open_scope(database, scope_id, session)
            for before, memory in zip(changed, after, strict=True):
                await compare_and_swap(database, before, mapping.to_document(memory), session=session)
            for memory in new:
                await get_collection(database, memory.scope_id).insert_one(mapping.to_document(memory), session=session)

        async with self._connection.operation(factor=1 + (len(new) + len(changed)) / 50) as database:
            await in_transaction(database.client, work)
        await self._scopes.check({memory.scope_id for memory in (*new, *changed)})
        return after

    async def _write_or_undo(self, new: Sequence[MemoryRecord], changed: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        """Write without a transaction; after a failure, restore what was replaced."""
        olds = await self._reader.fetch(
            {record.memory_id: record.scope_id for record in changed}, deleted=None, vectors=True
        )
        done: list[MemoryRecord] = []
        try:
            for memory in changed:
                done.append(await self.replace(memory, keep_revision=True))
            await self.insert(new)
        except InfiniteMemoryError:
            for memory in reversed(done):
                await self.replace(
                    dataclasses.replace(olds[memory.memory_id], revision=memory.revision), keep_revision=False
                )
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

    async def soft_delete(
        self, located: Located, deleted_at: dt.datetime, *, pruned: bool = False, merged_into: MemoryId | None = None,
        revisions: Mapping[MemoryId, int] | None = None, condition: Condition = ANY,
    ) -> list[MemoryId]:  # fmt: skip
        hidden: dict[str, Any] = {"live": False, "deleted_at": floor_to_millisecond(deleted_at)}
        hidden |= {"pruned": True} if pruned else {}
        hidden |= {"merged_into": mapping.object_id(merged_into)} if merged_into is not None else {}
        if revisions is None:
            return await self._mark(located, live=True, change={"$set": hidden}, condition=condition)
        by_revision: dict[int, dict[MemoryId, ScopeId]] = {}
        for memory_id, scope_id in located.items():
            by_revision.setdefault(revisions[memory_id], {})[memory_id] = scope_id
        return [
            hidden_id
            for revision, some in by_revision.items()
            for hidden_id in await self._mark(
                some, live=True, change={"$set": hidden}, revision=revision, condition=condition
            )
        ]

    async def undelete(self, located: Located) -> list[MemoryId]:
        update = {"$set": {"live": True}, "$unset": {"deleted_at": "", "pruned": "", "merged_into": ""}}
        return await self._mark(located, live=False, change=update)

    async def _mark(
        self, located: Located, *, live: bool, change: Mapping[str, Any], revision: int | None = None,
        condition: Condition = ANY,
    ) -> list[MemoryId]:  # fmt: skip
        """Update memories that are live, or hidden, and meet a condition; a mark unique to this call identifies them.

        With *revision* only those that still have it, in the scope they were in.
        """
        mark, query = ObjectId(), {"live": live, **condition.to_query()}
        query |= {} if revision is None else {"revision": revision}
        update = {**change, "$set": {**change["$set"], "mark": mark}, "$inc": {"revision": 1}, **schema.CHANGED_NOW}
        changed: list[MemoryId] = []
        for scope_id, ids in batches(located):
            async with self._connection.operation() as database:
                memories = get_collection(database, scope_id)
                result = await memories.update_many({"_id": {"$in": ids}, **query}, update)
                if result.matched_count:
                    cursor = memories.find({"_id": {"$in": ids}, "mark": mark}, {"_id": 1})
                    changed += [MemoryId(str(document["_id"])) async for document in cursor]
                is_left = result.matched_count < len(ids) and (
                    await memories.count_documents({"_id": {"$in": ids}}) < len(ids)
                )
            if revision is None and (elsewhere := await self._find_elsewhere(scope_id, ids, is_left=is_left)):
                changed += await self._mark(elsewhere, live=live, change=change, condition=condition)
        return list(dict.fromkeys(changed))

    async def purge(self, located: Located, hidden_before: dt.datetime) -> list[MemoryId]:
        removed: list[MemoryId] = []
        hidden = {"live": False, "deleted_at": {"$lt": hidden_before}}
        for scope_id, every in batches(located):
            scope_key = mapping.object_id(scope_id)
            for start in range(0, len(every), _PURGED):
                query = {"_id": {"$in": every[start : start + _PURGED]}, **hidden}
                async with self._connection.operation(factor=2) as database:
                    take = self._take_one_by_one if self.polled else self._take_in_transaction
                    if deleted := await take(database, scope_key, query):
                        await note_removed(database, scope_key, deleted)
                        removed += [MemoryId(str(document["_id"])) for document in deleted]
        return removed

    async def _take_in_transaction(
        self, database: Database, scope_key: ObjectId, query: Mapping[str, Any]
    ) -> list[Document]:
        """Remove the memories that match a query; one restored concurrently is kept, with everything attached to it."""
        memories, deleted = database[schema.collection_name(scope_key)], list[Document]()

        async def work(session: AsyncClientSession) -> None:
            cursor = memories.find(query, {"_id": 1, "created_at": 1}, session=session)
            deleted[:] = [document async for document in cursor]
            if keys := [document["_id"] for document in deleted]:
                await memories.delete_many({"_id": {"$in": keys}}, session=session)
                await _remove_belongings(database, keys, session)

        await in_transaction(database.client, work)
        return deleted

    async def _take_one_by_one(
        self, database: Database, scope_key: ObjectId, query: Mapping[str, Any]
    ) -> list[Document]:
        """As `_take_in_transaction`, without transactions: the memory is removed first, because only then is its removal certain."""
        memories, deleted = database[schema.collection_name(scope_key)], list[Document]()
        for candidate in await memories.find(query, {"_id": 1, "created_at": 1}).to_list(None):
            if (await memories.delete_one({**query, "_id": candidate["_id"]})).deleted_count:
                deleted.append(candidate)
        if keys := [document["_id"] for document in deleted]:
            await changes.write_tombstones(database, scope_key, keys)
            await _remove_belongings(database, keys)
        return deleted

    async def remove(self, located: Located) -> list[MemoryId]:
        removed: list[MemoryId] = []
        for scope_id, ids in batches(located):
            scope_key = mapping.object_id(scope_id)
            async with self._connection.operation(factor=2) as database:
                memories = get_collection(database, scope_id)
                existing = [
                    document async for document in memories.find({"_id": {"$in": ids}}, {"_id": 1, "created_at": 1})
                ]
                count = 0
                if existing:
                    await note_removed(database, scope_key, existing)
                    count = await self._remove(database, scope_key, [document["_id"] for document in existing])
                    await note_removed(database, scope_key, existing)
                    removed += [MemoryId(str(document["_id"])) for document in existing]
            # Without transactions a copy may already exist elsewhere.
            if elsewhere := await self._find_elsewhere(scope_id, ids, is_left=self.polled or count < len(ids)):
                removed += await self.remove(elsewhere)
        return list(dict.fromkeys(removed))

    async def _remove(self, database: Database, scope_key: ObjectId, keys: list[ObjectId]) -> int:
        """Remove memories and the records attached to them; return how many of the memories still existed.

        The memory is removed last: while it exists, a repeated call completes the work.
        """
        if self.polled:
            await changes.write_tombstones(database, scope_key, keys)
        await _remove_belongings(database, keys)
        result = await database[schema.collection_name(scope_key)].delete_many({"_id": {"$in": keys}})
        # A concurrent update of one of them may have stored a version.
        await database[schema.REVISIONS].delete_many({"memory_id": {"$in": keys}})
        return result.deleted_count

    async def _find_elsewhere(
        self, scope_id: ScopeId, keys: Sequence[ObjectId], *, is_left: bool
    ) -> dict[MemoryId, ScopeId]:
        """Return the current scopes of memories that are no longer in a scope.

        Some were moved concurrently, if *is_left* says that this is possible, or all of them, if another process merged the scope.
        """
        if not is_left and await self._scopes.is_there(scope_id):
            return {}
        located = await self._reader.locate([MemoryId(str(key)) for key in keys])
        return {memory_id: current_scope for memory_id, current_scope in located.items() if current_scope != scope_id}


async def _remove_belongings(
    database: Database, keys: Sequence[ObjectId], session: AsyncClientSession | None = None
) -> None:
    """Remove versions, links and usage counts of memories."""
    await database[schema.REVISIONS].delete_many({"memory_id": {"$in": keys}}, session=session)
    ends = [{"from_id": {"$in": keys}}, {"to_id": {"$in": keys}}]
    await database[schema.LINKS].delete_many({"$or": ends}, session=session)
    await database[schema.USES].delete_many({"_id": {"$in": keys}}, session=session)


async def insert_together(database: Database, by_scope: Mapping[ScopeId, list[Document]]) -> None:
    """Insert in one transaction."""

    async def work(session: AsyncClientSession) -> None:
        for scope_id, group in by_scope.items():
            await get_collection(database, scope_id).insert_many(group, session=session)

    await in_transaction(database.client, work)


async def insert_or_undo(database: Database, by_scope: Mapping[ScopeId, list[Document]]) -> None:
    """Insert without a transaction; after a failure, remove what was inserted."""
    done: list[tuple[ScopeId, list[ObjectId]]] = []
    try:
        for scope_id, group in by_scope.items():
            try:
                await get_collection(database, scope_id).insert_many(group)
            except BulkWriteError as exc:
                done.append((scope_id, [document["_id"] for document in group[: exc.details["nInserted"]]]))
                raise
            done.append((scope_id, [document["_id"] for document in group]))
    except Exception:
        for scope_id, keys in done:
            await get_collection(database, scope_id).delete_many({"_id": {"$in": keys}})
        raise


async def compare_and_swap(
    database: Database,
    memory: MemoryRecord,
    document: Document,
    *,
    keep_revision: bool = True,
    session: AsyncClientSession | None = None,
) -> None:
    """Replace *memory* with *document*; with *keep_revision* its previous version is kept.

    Raises:
        MemoryNotFoundError: it no longer exists.
        MemoryChangedError: it changed.
    """
    memories = get_collection(database, memory.scope_id)
    query = {"_id": document["_id"], "revision": memory.revision}
    before: Document | None = None
    is_kept = False
    if keep_revision:
        before = await memories.find_one(query, WITHOUT_VECTORS, session=session)
        if before is None:
            await _raise_conflict(database, memory, session)
        is_kept = await _keep_version(database, memory, before, session)
    if (await memories.replace_one(query, document, session=session)).matched_count == 0:
        if is_kept and before is not None:
            now = await memories.find_one({"_id": document["_id"]}, WITHOUT_VECTORS, session=session)
            # It was removed or moved concurrently, or got its vector: the same content is kept under its new revision when this is retried.
            # Other versions are not ours to remove, nor is the one that a move took over.
            if now is None or _get_words(now) == _get_words(before):
                ours = {"memory_id": document["_id"], "revision": memory.revision, "moved_from": {"$exists": False}}
                await database[schema.REVISIONS].delete_one(ours, session=session)
        await _raise_conflict(database, memory, session)


async def _keep_version(
    database: Database, memory: MemoryRecord, before: Mapping[str, Any], session: AsyncClientSession | None
) -> bool:
    """Store the version before a change; False if it is stored already.

    Done before the change, so that no version can be missing; keyed by revision, so that repeating it is idempotent.
    """
    version = {"memory_id": mapping.object_id(memory.memory_id), "revision": memory.revision}
    update = {"$setOnInsert": {"scope_id": mapping.object_id(memory.scope_id), "document": before}}
    done = await database[schema.REVISIONS].update_one(version, update, upsert=True, session=session)
    return done.upserted_id is not None


def _get_words(document: Document) -> Document:
    """Return the content of a document: without its vectors and the marks of its last change."""
    return {name: value for name, value in document.items() if name not in ("revision", "changed")}


async def _raise_conflict(database: Database, memory: MemoryRecord, session: AsyncClientSession | None) -> NoReturn:
    key = {"_id": mapping.object_id(memory.memory_id)}
    if await get_collection(database, memory.scope_id).find_one(key, {"_id": 1}, session=session) is None:
        raise MemoryNotFoundError(memory.memory_id)
    raise MemoryChangedError(memory.memory_id)


def _documents_by_scope(memories: Iterable[MemoryRecord]) -> dict[ScopeId, list[Document]]:
    by_scope: dict[ScopeId, list[Document]] = {}
    for memory in memories:
        by_scope.setdefault(memory.scope_id, []).append(mapping.to_document(memory))
    return by_scope
