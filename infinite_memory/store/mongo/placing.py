"""Put staged data into place: by renaming, by adding what is missing, and scope by scope.

Other processes may have changed scopes since the restore read them: the name of a restored scope may be taken, and a scope that it adds to
may be removed, or merged into another. So a step of `place_scope` checks again, and adds its data to the scope that exists now, or to a
recreated one.

Why a recreated scope gets a new id: the process that removed it may be about to remove its collection once more.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from bson import ObjectId
from pymongo.errors import DuplicateKeyError, OperationFailure

from infinite_memory.errors import ScopeExistsError
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.client import Database
from infinite_memory.store.mongo.drivers import aggregate
from infinite_memory.store.mongo.snapshot import MEMORIES

_NAMESPACE_NOT_FOUND, _NAMESPACE_EXISTS, _DUPLICATE_KEY = 26, 48, 11000  # MongoDB's error codes
_BATCH = 10_000
_PRESENT = {**schema.PRESENT, "_id": {"$type": "objectId"}}

Document = dict[str, Any]
Step = dict[str, Any]


def make_step(prefix: str, scope: ObjectId, *, is_new: bool, alone: bool) -> Step:
    """Return the step for one scope, as journalled.

    Args:
        prefix: Name prefix of the restore's staged collections. The scope's document is among its ``scopes``.
        is_new: Whether the scope's id and name were unused when the restore began.
        alone: Whether it must not go into an existing scope; its id is then unused.
    """
    return {"do": "place", "prefix": prefix, "scope": scope, "is_new": is_new, "alone": alone}


async def find_home(database: Database, scope: Document) -> ObjectId | None:
    """Return the scope with the id of *scope*, else the one with its name; None if there is neither."""
    if await _is_present(database, scope["_id"]):
        return ObjectId(scope["_id"])
    document = await database[schema.SCOPES].find_one({**_PRESENT, "name_key": scope["name_key"]}, {"_id": 1})
    return None if document is None else ObjectId(document["_id"])


async def leave_out_arrived(database: Database, prefix: str, added: Collection[ObjectId]) -> int:
    """Remove staged memories that are in some scope by now; return their number.

    Another restore may have brought one back since this one looked, and it may have been moved: it would be in two scopes.
    """
    arrived: list[ObjectId] = []
    async for scope in database[schema.SCOPES].find(_PRESENT if added else {"_id": None}, {"_id": 1}):
        cursor = database[schema.collection_name(scope["_id"])].find({}, {"_id": 1}).hint("_id_")
        arrived += [document["_id"] async for document in cursor if document["_id"] in added]
    for name in await database.list_collection_names() if arrived else ():
        if name.startswith(prefix):
            key = "_id" if MEMORIES.fullmatch(name.removeprefix(prefix)) else "memory_id"
            for start in range(0, len(arrived), _BATCH):
                await database[name].delete_many({key: {"$in": arrived[start : start + _BATCH]}})
    return len(arrived)


async def _is_present(database: Database, key: ObjectId) -> bool:
    return await database[schema.SCOPES].find_one({"$and": [_PRESENT, {"_id": key}]}, {"_id": 1}) is not None


async def place_scope(database: Database, step: Step, *, is_polled: bool) -> None:
    """Put a scope's staged memories into it, or into the one that has its name by now; existing ones are kept. Safe to repeat.

    Records attached to the memories are still staged, and get the id of the scope that these are in.

    Raises:
        ScopeExistsError: it must not be merged, and its name is taken; nothing was put into place.
    """
    key, documents = step["scope"], database[step["prefix"] + schema.SCOPES]
    document = await documents.find_one({"_id": key})
    if document is None:  # done before an interruption
        return
    own = schema.collection_name(key)
    staged = [step["prefix"] + own]
    # A collection without a scope is ours, from before an interruption, or has lost its scope's document.
    is_free = step["is_new"] and await database[schema.SCOPES].find_one({"_id": key}, {"_id": 1}) is None
    if is_free:
        is_renamed = await find_home(database, document) is None and await rename(
            database, staged[0], own, is_polled=is_polled, replaces=False
        )
        staged = [own] if is_renamed else [*staged, own]
    while True:
        home = await _find_or_make(database, document, is_free=is_free)
        if step["alone"] and home != key:
            await database[own].drop()
            raise ScopeExistsError(document["name"])
        await _fill(database, staged, home, is_polled=is_polled)
        if home != key:
            for shared in schema.BELONGING:
                of_scope = {"scope_id": key}
                await database[step["prefix"] + shared].update_many(of_scope, {"$set": {"scope_id": home}})
        if await _is_present(database, home):
            break  # else it was removed since, with what was put there
    if is_free and home != key:
        await database[own].drop()
    await documents.delete_one({"_id": key})


async def _find_or_make(database: Database, document: Document, *, is_free: bool) -> ObjectId:
    while (home := await find_home(database, document)) is None:
        scope = document if is_free else document | {"_id": ObjectId()}
        is_free = False
        try:
            await database[schema.SCOPES].insert_one(scope)
        except DuplicateKeyError:
            continue  # its name was taken concurrently
        return ObjectId(scope["_id"])
    return home


async def _fill(database: Database, staged: list[str], home: ObjectId, *, is_polled: bool) -> None:
    target = schema.collection_name(home)
    for source in staged:
        if source != target:
            if is_polled:
                await database[source].update_many({}, schema.CHANGED_NOW)
            await add_missing(database, source, target)


async def rename(database: Database, source: str, target: str, *, is_polled: bool, replaces: bool = True) -> bool:
    """Rename a staged collection, if not done before; False if it would replace one and must not."""
    if is_polled and MEMORIES.fullmatch(target):
        await database[source].update_many({}, schema.CHANGED_NOW)
    try:
        await database[source].rename(target, dropTarget=replaces)
    except OperationFailure as exc:
        if exc.code == _NAMESPACE_EXISTS and not replaces:
            return False
        if exc.code != _NAMESPACE_NOT_FOUND:
            raise
    return True


async def add_missing(database: Database, source: str, target: str) -> None:
    """Insert the documents whose ids do not exist yet."""
    into = {"$merge": {"into": target, "on": "_id", "whenMatched": "keepExisting", "whenNotMatched": "insert"}}
    try:
        await aggregate(database[source], [into])
    except OperationFailure as exc:
        if exc.code != _DUPLICATE_KEY:
            raise
        await _add_one_by_one(database, source, target)


async def _add_one_by_one(database: Database, source: str, target: str) -> None:
    """Insert the documents that another unique index accepts; those it rejects exist already."""
    async for document in database[source].find():
        try:
            await database[target].insert_one(document)
        except DuplicateKeyError:
            continue
