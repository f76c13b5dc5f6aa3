"""Move one memory into another scope: it keeps its id, and its versions, links and usage counts move along.

With transactions, a single one does it all. A standalone server has none: there it is a journalled step (`restore_steps`) that is safe to
repeat, so that the next connect completes it if the process dies.

The version before the move is kept as before a change, with ``moved_from`` and ``moved_at``: they say where the memory came from and when
(unknown for moves by earlier programs), and that its id is taken although its former scope no longer has it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bson import ObjectId

from infinite_memory.errors import (
    MemoryChangedError,
    MemoryNotFoundError,
    ScopeArchivedError,
    ScopeNotFoundError,
    StoreError,
)
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId
from infinite_memory.store.mongo import mapping, schema
from infinite_memory.store.mongo.change_feed import write_tombstones
from infinite_memory.store.mongo.client import Connection, Database
from infinite_memory.store.mongo.drivers import Document, in_transaction
from infinite_memory.store.mongo.merge_journal import LOOK_AGAIN_S, is_merging

if TYPE_CHECKING:
    from pymongo.asynchronous.client_session import AsyncClientSession

Step = dict[str, Any]

_FEW = 10  # memories with the same text


class MergingError(MemoryChangedError):
    """A memory's scope, or the target, is being merged: the memory may be in a different scope afterwards."""


def make_step(memory: MemoryRecord, target: ScopeId) -> Step:
    """Return the step, as journalled."""
    return {
        "do": "move",
        "memory": mapping.object_id(memory.memory_id),
        "from": mapping.object_id(memory.scope_id),
        "to": mapping.object_id(target),
    }


def make_steps(memory: MemoryRecord, target: ScopeId, move_id: ObjectId) -> list[Step]:
    """Return all steps without transactions: the last removes what was hard-deleted since."""
    step = make_step(memory, target)
    return [step, {"do": "take_out_removed", "to": step["to"], "mark": move_id}]


async def check_movable(
    database: Database, memory: MemoryRecord, target: ScopeId, session: AsyncClientSession | None = None
) -> Document:
    """Return the document of *memory*, which must be live and unchanged.

    Raises:
        MemoryNotFoundError: it no longer exists.
        MemoryChangedError: it changed.
        ScopeNotFoundError: *target* no longer exists.
        ScopeArchivedError: *target* is archived.
    """
    await touch_open_scope(database, target, session)
    key = {"_id": mapping.object_id(memory.memory_id)}
    source = database[schema.collection_name(mapping.object_id(memory.scope_id))]
    document = await source.find_one(key, session=session)
    if document is None or not document.get("live"):
        raise MemoryNotFoundError(memory.memory_id)
    if document.get("revision") != memory.revision:
        raise MemoryChangedError(memory.memory_id)
    return document


async def touch_open_scope(database: Database, target: ScopeId, session: AsyncClientSession | None = None) -> None:
    """Raise `ScopeNotFoundError` or `ScopeArchivedError` unless a scope accepts memories.

    Its document is written, not only read: a concurrent removal of the scope waits, or makes this fail, and removes nothing unseen.
    """
    touched = {"_id": mapping.object_id(target), **schema.PRESENT}
    scope = await database[schema.SCOPES].find_one_and_update(
        touched, {"$set": {"moved": ObjectId()}}, {"name": 1, "archived_at": 1}, session=session
    )
    _check_open(scope, target)


async def touch_scopes(
    database: Database, scope_keys: Sequence[ObjectId], session: AsyncClientSession | None = None
) -> bool:
    """Write to scope documents, so that a merge and a move, which both do so, are serialised; False if none of them exists."""
    touched = {"_id": {"$in": scope_keys}, **schema.PRESENT}
    mark = {"$set": {"moved": ObjectId()}}
    return (await database[schema.SCOPES].update_many(touched, mark, session=session)).matched_count > 0


async def wait_for_merge(connection: Connection, scope_keys: Sequence[ObjectId]) -> None:
    """Wait while another process merges any of some scopes.

    Raises:
        StoreError: it takes longer than the operation timeout.
    """
    give_up_at = time.monotonic() + connection.timeout_s
    while True:
        async with connection.operation() as database:
            if not await is_merging(database, scope_keys):
                return
        if time.monotonic() > give_up_at:
            raise StoreError("the scope is merged with another at this moment, which takes long; look again in a while")
        await asyncio.sleep(LOOK_AGAIN_S)


def _check_open(scope: Document | None, target: ScopeId) -> None:
    if scope is None:
        raise ScopeNotFoundError(target)
    if scope.get("archived_at") is not None:
        raise ScopeArchivedError(str(scope.get("name")))


async def check_moved(database: Database, memory: MemoryRecord, target: ScopeId) -> None:
    """Raise `ScopeArchivedError`, `ScopeNotFoundError` or `MergingError` if `apply_step` did not move a memory."""
    step = make_step(memory, target)
    source, into = (database[schema.collection_name(step[end])] for end in ("from", "to"))
    key, scopes = {"_id": step["memory"]}, database[schema.SCOPES]
    if await source.find_one(key, {"_id": 1}) is None:
        if await into.find_one(key, {"_id": 1}) is not None:
            return
        if await scopes.find_one({"_id": step["from"], **schema.PRESENT}, {"_id": 1}) is not None:
            return  # it was moved, and removed since; else it was removed with its scope
    _check_open(await scopes.find_one({"_id": step["to"], **schema.PRESENT}, {"name": 1, "archived_at": 1}), target)
    raise MergingError(memory.memory_id)


async def move_in_transaction(database: Database, memory: MemoryRecord, target: ScopeId) -> None:
    """Move in one transaction; raise as `check_movable`, and `MergingError` while one of the scopes is being merged."""
    step = make_step(memory, target)
    source, into = (database[schema.collection_name(step[end])] for end in ("from", "to"))

    async def work(session: AsyncClientSession) -> None:
        # Contended documents first: from here on others wait; otherwise this would be retried again and again.
        as_read = {"_id": step["memory"], "live": True, "revision": memory.revision}
        document = await source.find_one_and_delete(as_read, session=session)
        if document is None:
            await check_movable(database, memory, target, session)
            raise MemoryChangedError(memory.memory_id)
        await touch_open_scope(database, target, session)
        # Because the first is written to, a merge of it that starts now waits for this transaction, or makes it retry.
        is_there = await touch_scopes(database, [step["from"]], session)
        if not is_there or await is_merging(database, [step["from"], step["to"]], session):
            raise MergingError(memory.memory_id)
        await _keep_version(database, step, document, session)
        await _take_along(database, step, session)
        # Last, because the change feed has the same order: an index removes it from the old scope, then adds it to the new one.
        await into.insert_one(_risen(document), session=session)

    await in_transaction(database.client, work)


async def apply_step(database: Database, step: Step) -> None:
    """Carry out the step, or the rest of an interrupted one, on a server without transactions.

    If the target was archived since the step was journalled, what is not in it yet stays where it is: the scope may be about to be removed
    by a process that saw neither the memory in it nor the step. The same holds if the first scope was merged, because what is left in it is
    a copy, and while one of the scopes is being merged: a merge waits for moves journalled before it (`wait_for_moves`), so one of the two
    always sees the other.
    """
    source, into = (database[schema.collection_name(step[end])] for end in ("from", "to"))
    key = {"_id": step["memory"]}
    scopes = database[schema.SCOPES]
    is_open = {"_id": step["to"], "archived_at": None, **schema.PRESENT}
    is_there = {"_id": step["from"], **schema.PRESENT}
    if await into.find_one(key, {"_id": 1}) is None and (
        await scopes.find_one(is_open, {"_id": 1}) is None
        or await scopes.find_one(is_there, {"_id": 1}) is None
        or await is_merging(database, [step["from"], step["to"]])
    ):
        return
    while (document := await source.find_one(key)) is not None:
        await _keep_version(database, step, document)
        await write_tombstones(database, step["from"], [step["memory"]])
        existing = await into.find_one(key, {"revision": 1})
        if existing is None or existing["revision"] <= document["revision"]:  # else it was changed there since then
            await into.replace_one(key, _risen(document), upsert=True)
        if (await source.delete_one({**key, "revision": document["revision"]})).deleted_count:
            break  # else it was changed here concurrently
    await _take_along(database, step)


def _risen(document: Mapping[str, Any]) -> Document:
    return {**document, "revision": document["revision"] + 1, "changed": mapping.NOW}


async def _keep_version(
    database: Database, step: Step, document: Mapping[str, Any], session: AsyncClientSession | None = None
) -> None:
    before = {name: value for name, value in document.items() if name != "embedding"}
    version = {"memory_id": step["memory"], "revision": document["revision"]}
    update = {"$setOnInsert": {"scope_id": step["to"], "document": before}, "$set": {"moved_from": step["from"]}}
    when = {"$currentDate": {"moved_at": True}}
    await database[schema.REVISIONS].update_one(version, update | when, upsert=True, session=session)


async def _take_along(database: Database, step: Step, session: AsyncClientSession | None = None) -> None:
    update = {"$set": {"scope_id": step["to"]}}
    for collection, name in ((schema.REVISIONS, "memory_id"), (schema.LINKS, "from_id"), (schema.USES, "_id")):
        await database[collection].update_many({name: step["memory"]}, update, session=session)


async def find_moved(database: Database, memory_ids: Collection[MemoryId]) -> dict[MemoryId, ScopeId]:
    """Return the scopes of those memories that were ever moved, live or soft-deleted."""
    keys = [key for memory_id in memory_ids if (key := mapping.find_object_id(memory_id)) is not None]
    query = {"memory_id": {"$in": keys}, "moved_from": {"$exists": True}}
    cursor = database[schema.REVISIONS].find(query, {"memory_id": 1, "scope_id": 1})
    return {MemoryId(str(document["memory_id"])): ScopeId(str(document["scope_id"])) async for document in cursor}


async def find_same_text(database: Database, scope_id: ScopeId, content_hash: str) -> list[MemoryId]:
    """See `Store.find_same_text`."""
    query = {"live": True, "content_hash": content_hash}
    cursor = database[schema.collection_name(mapping.object_id(scope_id))].find(query, {"_id": 1}).limit(_FEW)
    return [MemoryId(str(document["_id"])) async for document in cursor]
