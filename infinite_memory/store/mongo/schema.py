"""The database schema, its version, and upgrades of older data.

    scopes        a scope: name, name_key (folded, unique), description, created_at, archived_at, changed, indexes, dropping
    mem_<scope>   the memories of one scope, see `mapping`
    revisions     earlier versions of memories: {memory_id, scope_id, revision, document}, with moved_from and moved_at if it was moved
    facts, links  the graph of facts and of links between memories, each with scope_id
    uses          how often a memory was recalled, by its id: {scope_id, count, used_at}
    agents        agents created before their first memory
    tokens        HTTP API tokens, see `api_tokens`; not in backups
    meta          schema version, identity, and small values of the engine
    tombstones    what was removed, kept for a week for pollers (standalone servers only)

Stored data is a promise: a change here needs a step in `UPGRADES` and a test from the older form. A step may be interrupted and repeated,
even by two processes at once, so each step leaves upgraded documents unchanged.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from bson import ObjectId
from pymongo import ASCENDING, IndexModel, UpdateOne
from pymongo.errors import DuplicateKeyError, OperationFailure

from infinite_memory import __version__
from infinite_memory.errors import SchemaTooNewError
from infinite_memory.models import fold, tag_keys
from infinite_memory.store.document_fields import DocumentKind, is_instant
from infinite_memory.store.id_keys import SOURCES
from infinite_memory.store.set_aside import SetAside

if TYPE_CHECKING:
    from pymongo.asynchronous.collection import AsyncCollection
    from pymongo.asynchronous.database import AsyncDatabase

    Database = AsyncDatabase[dict[str, Any]]

log = logging.getLogger(__name__)

SCHEMA_VERSION = 1

INDEX_VERSION = 3
"""Incremented when `memory_indexes` change; existing scopes get the new ones when a store connects."""

PREFIX = "mem_"
SCOPES, REVISIONS, FACTS, LINKS, META, TOMBSTONES = "scopes", "revisions", "facts", "links", "meta", "tombstones"
TOKENS, AGENTS = "tokens", "agents"

USES = "uses"
PRESENT = {"dropping": {"$ne": True}}
"""Query for the scopes that are not being removed."""

BELONGING = (REVISIONS, FACTS, LINKS, USES)
"""Collections of records attached to a scope in addition to its memories: removed, moved and restored with it."""

ALL = frozenset({SCOPES, META, TOMBSTONES, TOKENS, AGENTS, *BELONGING})
"""All our collections except those of memories."""

CHANGED_NOW: dict[str, Any] = {"$currentDate": {"changed": {"$type": "timestamp"}}}
"""As part of an update, makes the server record when a document changed, for pollers."""

TOMBSTONE_KEEP = dt.timedelta(days=7)

_SCHEMA_KEY = "schema"
_PROGRAM_KEY = "program"  # the version of this program that upgraded the data to its schema version
_PROGRAM_VERSION = re.compile(r"[0-9]+(\.[0-9a-z]+)*")
_UNINDEXABLE = {11000, 171}  # MongoDB's error codes: duplicate values, two parallel arrays
_BATCH = 500


def collection_name(scope_id: object) -> str:
    """Return the collection name of a scope; never derived from user input."""
    return f"{PREFIX}{scope_id}"


def memory_indexes(*, is_polled: bool) -> list[IndexModel]:
    """Return the indexes of a scope's collection.

    The first covers counts and versions, and pages through live memories in id order. The second covers the ids of an agent's memories;
    memories without an agent are not in it. The third finds memories by what they quote; others are not in it.
    """
    agents = ("owners.agent_id", "owners.user_id", "live", "status", "_id")
    indexes = [
        IndexModel([("live", ASCENDING), ("_id", ASCENDING), ("revision", ASCENDING)], name="live"),
        IndexModel(
            [(agent, ASCENDING) for agent in agents],
            name="agents",
            partialFilterExpression={"owners.agent_id": {"$exists": True}},
        ),
        IndexModel(
            [(f"metadata.{SOURCES}", ASCENDING)],
            name="sources",
            partialFilterExpression={f"metadata.{SOURCES}": {"$exists": True}},
        ),
    ]
    if is_polled:
        indexes.append(IndexModel([("changed", ASCENDING)], name="changed"))
    return indexes


async def create_shared_indexes(database: Database, *, is_polled: bool) -> None:
    """Create the indexes of the collections that all scopes share; safe to repeat."""
    version = [("memory_id", ASCENDING), ("revision", ASCENDING)]
    scope = IndexModel([("scope_id", ASCENDING)], name="scope")
    triple = [("scope_id", ASCENDING), ("subject_key", ASCENDING), ("predicate_key", ASCENDING)]
    holds = IndexModel(triple, name="holds", unique=True, partialFilterExpression={"active": True})
    history = IndexModel([*triple, ("valid_from", ASCENDING)], name="history")
    ends = [IndexModel([(end, ASCENDING)], name=end) for end in ("from_id", "to_id")]
    await _create_indexes(database, SCOPES, [IndexModel([("name_key", ASCENDING)], name="name_key", unique=True)])
    await _create_indexes(database, REVISIONS, [IndexModel(version, name="version", unique=True), scope])
    await _create_indexes(database, FACTS, [scope, holds, history])
    await _create_indexes(database, LINKS, [scope, *ends])
    await _create_indexes(database, USES, [scope])
    if is_polled:
        expiry = IndexModel(
            [("removed_at", ASCENDING)], name="expiry", expireAfterSeconds=int(TOMBSTONE_KEEP.total_seconds())
        )
        await _create_indexes(database, TOMBSTONES, [IndexModel([("changed", ASCENDING)], name="changed"), expiry])


async def _create_indexes(database: Database, collection: str, indexes: list[IndexModel]) -> None:
    """Create indexes, skipping one that another program's data does not allow, such as two scopes of one name."""
    try:
        await database[collection].create_indexes(indexes)
    except OperationFailure as exc:
        if exc.code not in _UNINDEXABLE:
            raise
        log.warning("%s lack an index: %s", collection, exc.code, extra={"event": "not_indexed"})
        for index in indexes:
            with contextlib.suppress(DuplicateKeyError, OperationFailure):
                await database[collection].create_indexes([index])


async def create_memory_collection(collection: AsyncCollection[dict[str, Any]], *, is_polled: bool) -> None:
    """Create a scope's collection and its indexes; safe to repeat."""
    await collection.create_indexes(memory_indexes(is_polled=is_polled))


async def upgrade(database: Database, set_aside: SetAside | None = None) -> None:
    """Upgrade older data to this version, and mark new data with it.

    Raises:
        SchemaTooNewError: the data was written by a newer version.
    """
    version = await _found_version(database, set_aside or SetAside())
    if version > SCHEMA_VERSION:
        raise SchemaTooNewError(version, SCHEMA_VERSION, await _found_program(database))
    for step in range(version, SCHEMA_VERSION):
        log.info("upgrading the schema from version %d", step, extra={"event": "schema_upgrade", "version": step})
        await UPGRADES[step](database)
        await _set_version(database, step + 1)


async def _found_version(database: Database, set_aside: SetAside) -> int:
    document = await database[META].find_one({"_id": _SCHEMA_KEY})
    if document is not None:
        if set_aside.accepts(DocumentKind.META, META, document):
            return int(document["version"])
        log.warning("the schema version is lost and taken for %d", SCHEMA_VERSION, extra={"event": "schema_lost"})
        return SCHEMA_VERSION
    if await database[SCOPES].find_one({}, {"_id": 1}) is not None:
        return 0
    await _set_version(database, SCHEMA_VERSION)
    return SCHEMA_VERSION


async def _found_program(database: Database) -> str | None:
    """Return the version of the program that upgraded the data to its schema version, if it was recorded."""
    document = await database[META].find_one({"_id": _PROGRAM_KEY})
    program = document.get("version") if document is not None else None
    return program if isinstance(program, str) and _PROGRAM_VERSION.fullmatch(program) else None


async def _set_version(database: Database, version: int) -> None:
    with contextlib.suppress(DuplicateKeyError):  # another process marks it concurrently
        await database[META].update_one({"_id": _PROGRAM_KEY}, {"$set": {"version": __version__}}, upsert=True)
    try:
        await database[META].update_one({"_id": _SCHEMA_KEY}, {"$max": {"version": version}}, upsert=True)
    except DuplicateKeyError:  # another process marks it concurrently
        await database[META].update_one({"_id": _SCHEMA_KEY}, {"$max": {"version": version}})


async def identity(database: Database, set_aside: SetAside) -> str:
    """Return the random identifier of this database, created on first use, that its change tokens carry.

    If another program corrupted it, the database's own name is used: indexes are then rebuilt once.
    """
    key = {"_id": "identity"}
    fresh = {"$setOnInsert": {"value": str(ObjectId())}}
    with contextlib.suppress(DuplicateKeyError):
        await database[META].update_one(key, fresh, upsert=True)
    document = await database[META].find_one(key)
    if document is None:
        return ""
    return (
        str(document["value"]) if set_aside.accepts(DocumentKind.META, META, document) else f"database {database.name}"
    )


async def _from_unversioned(database: Database) -> None:
    """Upgrade from version 0, before versions were recorded: scopes without a folded name, memories without revision, live and tag_keys."""
    async for scope in database[SCOPES].find({"name_key": {"$exists": False}}):
        if not isinstance(scope.get("name"), str):
            continue  # set aside when scopes are read
        with contextlib.suppress(DuplicateKeyError):
            await database[SCOPES].update_one({"_id": scope["_id"]}, {"$set": {"name_key": fold(scope["name"])}})
    for name in await database.list_collection_names(filter={"name": {"$regex": f"^{PREFIX}"}}):
        changes = []
        projection = {"text": 0, "embedding": 0, "metadata": 0}
        async for memory in database[name].find({"live": {"$exists": False}}, projection):
            if not is_instant(memory.get("created_at")) or not _are_texts(memory):
                continue  # set aside when it is read
            missing = {
                "live": memory.get("deleted_at") is None,
                "revision": memory.get("revision", 1),
                "content_hash": memory.get("content_hash", ""),
                "updated_at": memory.get("updated_at", memory["created_at"]),
                "occurred_at": memory.get("occurred_at", memory["created_at"]),
                "tag_keys": sorted(
                    tag_keys(memory.get("tags", ()), memory.get("speaker"), memory.get("conversation_id"))
                ),
            }
            changes.append(UpdateOne({"_id": memory["_id"]}, {"$set": missing, **CHANGED_NOW}))
            if len(changes) >= _BATCH:
                await database[name].bulk_write(changes, ordered=False)
                changes = []
        if changes:
            await database[name].bulk_write(changes, ordered=False)


def _are_texts(memory: Mapping[str, Any]) -> bool:
    """True if a memory's keys can be derived."""
    names = (memory.get("speaker"), memory.get("conversation_id"))
    tags = memory.get("tags", ())
    return isinstance(tags, list | tuple) and all(value is None or isinstance(value, str) for value in (*tags, *names))


UPGRADES: dict[int, Callable[[Database], Awaitable[None]]] = {0: _from_unversioned}
"""The step from each version to the next."""
