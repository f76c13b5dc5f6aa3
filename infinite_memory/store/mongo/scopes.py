"""Scopes in MongoDB: one document each in ``scopes``, and one collection each for their memories."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
from typing import Any

from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError, OperationFailure

from infinite_memory.errors import ScopeArchivedError, ScopeExistsError, ScopeNotFoundError
from infinite_memory.models import Scope, ScopeId, floor_to_millisecond, fold
from infinite_memory.store.document_fields import DocumentKind, is_object_id
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.client import Connection, Database
from infinite_memory.store.mongo.mapping import NOW, Document, find_object_id, scope_from_document
from infinite_memory.store.mongo.merge_journal import find_merging
from infinite_memory.store.mongo.restore_steps import is_restoring
from infinite_memory.store.mongo.scope_documents import GLOBAL_NAME, readable_scopes
from infinite_memory.store.mongo.snapshot import MEMORIES

log = logging.getLogger(__name__)

GLOBAL_DESCRIPTION = "Global scope for general memories"


class Scopes:
    """The scope part of a store. ``polled`` is set once the server's kind is known."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._hidden: frozenset[ScopeId] = frozenset()
        self.polled = False

    async def prepare(self) -> None:
        """Complete what a crash interrupted, create missing indexes and the scope Global."""
        async with self._connection.operation(factor=10) as database:
            query = {"dropping": True, "_id": {"$type": "objectId"}}
            merging = await find_merging(database)  # by another process, which drops the scope itself
            scope_ids = [scope["_id"] async for scope in database[schema.SCOPES].find(query, {"_id": 1})]
            unfinished = [scope_id for scope_id in scope_ids if schema.collection_name(scope_id) not in merging]
        for scope_id in unfinished:
            await self.drop(ScopeId(str(scope_id)))
        with contextlib.suppress(ScopeExistsError):
            await self.create(GLOBAL_NAME, GLOBAL_DESCRIPTION, dt.datetime.now(dt.UTC))
        if all(fold(scope.name) != fold(GLOBAL_NAME) for scope in await self.all()):
            await self._replace_global()
        async with self._connection.operation(factor=10) as database:
            await _drop_leftovers(database)
            outdated = {"indexes": {"$ne": self._index_version}, "_id": {"$type": "objectId"}}
            for scope in await database[schema.SCOPES].find(outdated, {"_id": 1}).to_list(None):
                try:
                    await self._index(database, scope["_id"])
                except OperationFailure as exc:  # a problem with one scope must not stop the others
                    log.warning("scope %s has no indexes: %s", scope["_id"], exc.code, extra={"event": "not_indexed"})

    async def all(self) -> list[Scope]:
        """List every scope, oldest first."""
        async with self._connection.operation() as database:
            documents = (
                await database[schema.SCOPES].find(schema.PRESENT).sort([("created_at", 1), ("_id", 1)]).to_list(None)
            )
        return [scope_from_document(scope) for scope in self._sound(documents)]

    def _sound(self, scopes: list[Document]) -> list[Document]:
        """Leave out what is set aside: unreadable documents, and the newer of two with one name."""
        set_aside = self._connection.set_aside
        sound, unsound = readable_scopes(scopes)
        bad = {repr(scope["_id"]) for scope, _ in unsound}
        for scope, faults in unsound:
            set_aside.record(schema.SCOPES, scope["_id"], faults)
        for scope in scopes:
            if repr(scope["_id"]) not in bad:
                set_aside.discard(schema.SCOPES, scope["_id"])
        present = {scope["_id"] for scope in scopes if is_object_id(scope["_id"])}
        self._hidden = frozenset(ScopeId(str(key)) for key in present - {scope["_id"] for scope in sound})
        return sound

    async def ids(self) -> list[ScopeId]:
        """List the ids of every scope."""
        async with self._connection.operation() as database:
            documents = await database[schema.SCOPES].find(schema.PRESENT, {"_id": 1}).to_list(None)
        keys = (document["_id"] for document in documents)
        hidden = self.hidden
        return [scope_id for key in keys if is_object_id(key) and (scope_id := ScopeId(str(key))) not in hidden]

    @property
    def hidden(self) -> frozenset[ScopeId]:
        """The ids of scopes that are set aside, as of the last full read."""
        return self._hidden

    async def check(self, scope_ids: set[ScopeId], *, include_archived: bool = True) -> None:
        """Raise `ScopeNotFoundError` for a scope that does not exist, `ScopeArchivedError` for one that is archived but must not be."""
        async with self._connection.operation() as database:
            query = {"_id": {"$in": [find_object_id(scope_id) for scope_id in scope_ids]}, **schema.PRESENT}
            projection = {"name": 1, "archived_at": 1}
            existing = {str(scope["_id"]): scope async for scope in database[schema.SCOPES].find(query, projection)}
        for missing in scope_ids - existing.keys():
            raise ScopeNotFoundError(missing)
        for scope in existing.values() if not include_archived else ():
            if scope.get("archived_at") is not None:
                raise ScopeArchivedError(str(scope.get("name")))

    async def is_there(self, scope_id: ScopeId) -> bool:
        """True if a scope exists."""
        async with self._connection.operation() as database:
            query = {"_id": find_object_id(scope_id), **schema.PRESENT}
            return await database[schema.SCOPES].find_one(query, {"_id": 1}) is not None

    async def create(self, name: str, description: str, created_at: dt.datetime) -> Scope:
        """Create a scope; its unique name is claimed first, so only one of several concurrent calls succeeds."""
        key = ObjectId()
        document = {
            "_id": key,
            "name": name,
            "name_key": fold(name),
            "description": description,
            "created_at": floor_to_millisecond(created_at),
            "archived_at": None,
        }
        async with self._connection.operation(factor=2) as database:
            self._connection.check_room(1 + await database[schema.SCOPES].estimated_document_count())
            # The unique index decides; but it cannot be created while another program's scopes share a name.
            other = await database[schema.SCOPES].find_one({"name_key": document["name_key"]}, {"archived_at": 1})
            if other is not None:
                raise ScopeExistsError(name, archived=other.get("archived_at") is not None)
            try:
                await database[schema.SCOPES].insert_one(document)
            except DuplicateKeyError as exc:
                raise ScopeExistsError(name) from exc
            await self._index(database, key)
        return scope_from_document(document)

    async def change(self, scope_id: ScopeId, fields: dict[str, Any]) -> Scope:
        """Set fields of a scope; an empty dict only reads it.

        The time of the change is set as well: pollers would miss a change that was reverted.
        """
        async with self._connection.operation() as database:
            query = {"_id": find_object_id(scope_id), **schema.PRESENT}
            try:
                document = (
                    await database[schema.SCOPES].find_one_and_update(
                        query, {"$set": fields, **schema.CHANGED_NOW}, return_document=ReturnDocument.AFTER
                    )
                    if fields
                    else await database[schema.SCOPES].find_one(query)
                )
            except DuplicateKeyError as exc:
                raise ScopeExistsError(str(fields.get("name"))) from exc
        if document is None or not self._connection.set_aside.accepts(DocumentKind.SCOPE, schema.SCOPES, document):
            raise ScopeNotFoundError(scope_id)
        return scope_from_document(document)

    async def drop(self, scope_id: ScopeId) -> None:
        """Remove a scope with everything attached to it.

        The mark is written first: from then on the scope is gone for everybody, its name is free, and the next connect completes an
        interrupted removal.
        """
        key = find_object_id(scope_id)
        async with self._connection.operation(factor=10) as database:
            # A folded name never starts with a space, so this one is unused.
            mark = {"$set": {"dropping": True, "name_key": f" {scope_id}"}}
            if (await database[schema.SCOPES].update_one({"_id": key}, mark)).matched_count == 0:
                return
            if self.polled:
                stone = {"scope_id": key, "changed": NOW, "removed_at": dt.datetime.now(dt.UTC)}
                await database[schema.TOMBSTONES].insert_one(stone)
            memories = schema.collection_name(scope_id)
            await database[memories].drop()
            for shared in schema.BELONGING:
                await database[shared].delete_many({"scope_id": key})
            await database[schema.SCOPES].delete_one({"_id": key})
            self._connection.set_aside.discard(schema.SCOPES, key)
            self._connection.set_aside.discard_collection(memories)
            # A running insert may have recreated the collection.
            if await database.list_collection_names(filter={"name": memories}):
                await database[memories].drop()

    async def _replace_global(self) -> None:
        """Create Global if its name is taken by a document that cannot be a scope; that one keeps everything but its name key."""
        async with self._connection.operation() as database:
            query = {"name_key": fold(GLOBAL_NAME), **schema.PRESENT}
            await database[schema.SCOPES].update_one(query, {"$set": {"name_key": f" {ObjectId()}"}})
        with contextlib.suppress(ScopeExistsError):
            await self.create(GLOBAL_NAME, GLOBAL_DESCRIPTION, dt.datetime.now(dt.UTC))

    @property
    def _index_version(self) -> str:
        return f"{schema.INDEX_VERSION}{'p' if self.polled else ''}"

    async def _index(self, database: Database, key: ObjectId) -> None:
        await schema.create_memory_collection(database[schema.collection_name(key)], is_polled=self.polled)
        await database[schema.SCOPES].update_one({"_id": key}, {"$set": {"indexes": self._index_version}})


async def _drop_leftovers(database: Database) -> None:
    """Remove a collection that a running insert recreated while its scope was being removed.

    Such a collection has no scope and none of our indexes: one that has them was created on purpose and is never dropped here. The order
    matters: a scope's document is written before its collection, and a restore's mark before both.
    """
    names = await database.list_collection_names(filter={"name": {"$regex": f"^{MEMORIES.pattern}$"}})
    if await is_restoring(database):
        return
    existing = {schema.collection_name(scope["_id"]) async for scope in database[schema.SCOPES].find({}, {"_id": 1})}
    for name in set(names) - existing:
        if len(await database[name].index_information()) <= 1:
            log.info("removing what was left of a removed scope", extra={"event": "leftover_removed"})
            await database[name].drop()
