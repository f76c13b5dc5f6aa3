"""Changes to a database by any process: from its change stream, or by polling if the server has none.

Delivery is at least once: an entry may be repeated after a reader resumes, but none is ever skipped.

A token is a small BSON document: the database's identity and a position: a resume token, an oplog timestamp, or, for polling, the server's
timestamp of the last write seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Protocol

import bson
from bson import ObjectId, Timestamp
from pymongo import ReturnDocument
from pymongo.errors import PyMongoError

from infinite_memory.errors import FeedLostError, StoreError, StoreUnavailableError
from infinite_memory.models import MemoryId, ScopeId
from infinite_memory.store.base import UNKNOWN_REVISION, Change, ChangeKind
from infinite_memory.store.document_fields import DocumentKind, is_int, is_object_id
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.client import Connection, Database
from infinite_memory.store.mongo.driver_errors import translated
from infinite_memory.store.mongo.drivers import caught_up_session, watch
from infinite_memory.store.mongo.mapping import NOW
from infinite_memory.store.set_aside import SetAside

_AWAIT_MS = 250
"""How long the server waits for changes; an empty batch then means that the feed has caught up."""

_QUIET_S = 1.0
_POLL_S = 1.0

_OVERLAP_S = 10
"""Each poll looks this far back: a write gets its timestamp slightly before it becomes visible."""

_TOO_OLD_S = int(schema.TOMBSTONE_KEEP.total_seconds()) - 3600

_PIPELINE: list[Mapping[str, Any]] = [
    {
        "$match": {
            "$or": [
                {
                    "ns.coll": {"$regex": f"^({schema.PREFIX}[0-9a-f]{{24}}|{schema.SCOPES})$"},
                    "operationType": {"$in": ["insert", "update", "replace", "delete", "drop"]},
                },
                {"operationType": {"$in": ["dropDatabase", "invalidate"]}},
                {"operationType": "rename", "to.coll": {"$regex": f"^{schema.PREFIX}[0-9a-f]{{24}}$"}},
            ]
        }
    },
    {
        "$project": {
            "operationType": 1,
            "ns.coll": 1,
            "documentKey._id": 1,
            "clusterTime": 1,
            "fullDocument.revision": 1,
            "updateDescription.updatedFields.revision": 1,
        }
    },
]
"""Only what a `Change` needs; texts and vectors stay on the server."""


class Feed(Protocol):
    """A source of changes."""

    async def token_of_now(self, database: Database) -> bytes:
        """Return a token for the current position."""

    def follow(self, after: bytes) -> AsyncIterator[Change | None]:
        """Yield the changes after a token, as specified by `Store.changes`."""


def feed(connection: Connection, identity: str, deployment: str) -> Feed:
    """Return the feed that the server supports."""
    if deployment == "standalone":
        return PolledFeed(connection, identity)
    return StreamedFeed(connection, identity, deployment)


def place_of(token: bytes) -> Timestamp:
    """Return a token's position in time; later is greater."""
    document = bson.decode(token)
    position: Timestamp = document["polled"] if "polled" in document else document["at"]
    return position


def _read_token(token: bytes, identity: str) -> dict[str, Any]:
    """Parse a token.

    Raises:
        StoreError: it is not a token, or one of another database.
    """
    try:
        document: dict[str, Any] = bson.decode(token)
    except bson.errors.BSONError as exc:
        raise FeedLostError("this is no change token") from exc
    if document.get("store") != identity:
        raise FeedLostError("the change token belongs to another database")
    return document


class StreamedFeed:
    """A change stream over the whole database."""

    def __init__(self, connection: Connection, identity: str, deployment: str) -> None:
        self._connection = connection
        self._identity = identity
        self._deployment = deployment

    async def token_of_now(self, database: Database) -> bytes:
        """Return the newest oplog entry; that entry is reported again, and everything before it is readable."""
        async with caught_up_session(database) as session:
            now = session.operation_time
            await database[schema.META].find_one({"_id": "clock"}, session=session)
        return bson.encode({"store": self._identity, "at": now})

    async def follow(self, after: bytes) -> AsyncIterator[Change | None]:
        """Follow the stream; the token must still be in the oplog."""
        position = _read_token(after, self._identity)
        await self._check_not_future(position)
        where = (
            {"resume_after": position["resume"]}
            if "resume" in position
            else {"start_at_operation_time": position.get("at")}
        )
        database = await self._connection.database()
        stream = None
        told_quiet_at = 0.0
        try:
            while True:
                async with self._limit():
                    if stream is None:
                        stream = await watch(database, _PIPELINE, max_await_time_ms=_AWAIT_MS, **where)
                    entry = await stream.try_next()
                if entry is not None:
                    told_quiet_at = 0.0
                    for change in self._to_changes(entry):
                        yield change
                elif time.monotonic() - told_quiet_at >= _QUIET_S:
                    told_quiet_at = time.monotonic()
                    yield None
        finally:
            if stream is not None:
                with contextlib.suppress(PyMongoError, TimeoutError):
                    async with asyncio.timeout(1):
                        await stream.close()

    @contextlib.asynccontextmanager
    async def _limit(self) -> AsyncIterator[None]:
        try:
            with translated(self._connection.hint):
                async with asyncio.timeout(self._connection.timeout_s + _AWAIT_MS / 1000):
                    yield
        except TimeoutError as exc:
            self._connection.doubt()
            raise StoreUnavailableError(f"MongoDB does not answer; {self._connection.hint}") from exc
        except StoreUnavailableError:
            self._connection.doubt()
            raise

    async def _check_not_future(self, token: Mapping[str, Any]) -> None:
        """Reject a token from the future, left from before the database was rolled back: a stream would wait silently."""
        if self._deployment == "sharded":
            return
        async with self._connection.operation() as database:
            now = (await database.command("ping"))["operationTime"]
        if token.get("at", now) > now:
            raise FeedLostError("the change token is from a later state of the database than its present one")

    def _to_changes(self, entry: Mapping[str, Any]) -> list[Change]:
        kind, collection = entry["operationType"], entry.get("ns", {}).get("coll", "")
        token = bson.encode({"store": self._identity, "resume": entry["_id"], "at": entry["clusterTime"]})
        if kind in ("dropDatabase", "invalidate"):
            raise FeedLostError("the database was dropped")
        if kind == "rename":
            raise FeedLostError("a restore put other memories into place")
        if collection == schema.SCOPES:
            return [Change(ChangeKind.SCOPES_CHANGED, token)]
        scope_id = ScopeId(collection.removeprefix(schema.PREFIX))
        if kind == "drop":
            return [Change(ChangeKind.SCOPE_REMOVED, token, scope_id)]
        key = entry["documentKey"]["_id"]
        memory_id = MemoryId(str(key))
        if not is_object_id(key):
            note_foreign_id(self._connection.set_aside, collection, key, is_there=kind != "delete")
            return []
        if kind == "delete":
            return [Change(ChangeKind.REMOVED, token, scope_id, memory_id)]
        fields = entry.get("fullDocument") or entry.get("updateDescription", {}).get("updatedFields") or {}
        # An update by another program that leaves the revision unchanged reports none: the memory must be read.
        return [Change(ChangeKind.WRITTEN, token, scope_id, memory_id, _revision(fields))]


class PolledFeed:
    """Polls every second for new writes and new tombstones."""

    def __init__(self, connection: Connection, identity: str) -> None:
        self._connection = connection
        self._identity = identity
        self._reported: dict[tuple[Any, ...], int] = {}
        self._scopes: list[Any] | None = None

    async def token_of_now(self, database: Database) -> bytes:
        """Return the server's time."""
        return self._token(await _server_time(database))

    async def follow(self, after: bytes) -> AsyncIterator[Change | None]:
        """Poll; the token must be younger than the oldest tombstone."""
        position = _read_token(after, self._identity).get("polled")
        if not isinstance(position, Timestamp):
            raise FeedLostError("the change token was made by another kind of server")
        async with self._connection.operation() as database:
            now = await _server_time(database)
        if position > now:
            raise FeedLostError("the change token is from a later state of the database than its present one")
        if now.time - position.time > _TOO_OLD_S:
            raise FeedLostError("the change token is too old")
        while True:
            for change, changed_at in await self._poll(Timestamp(max(position.time - _OVERLAP_S, 0), 0)):
                position = max(position, changed_at)
                yield dataclasses.replace(change, token=self._token(position))
            self._forget(position.time - _OVERLAP_S)
            yield None
            await asyncio.sleep(_POLL_S)

    async def _poll(self, since: Timestamp) -> list[tuple[Change, Timestamp]]:
        """Return changes not reported yet, oldest first."""
        newer = {"changed": {"$gt": since}}
        changes: list[tuple[Change, Timestamp]] = []
        async with self._connection.operation(factor=4) as database:
            scopes = await database[schema.SCOPES].find({}).sort("_id", 1).to_list(None)
            for scope in scopes:
                if not is_object_id(scope["_id"]):
                    continue
                memories = database[schema.collection_name(scope["_id"])]
                async for document in memories.find(newer, {"revision": 1, "changed": 1}):
                    if not is_object_id(document["_id"]):
                        note_foreign_id(self._connection.set_aside, memories.name, document["_id"])
                    elif self._is_new((repr(document["_id"]), _revision(document)), document["changed"]):
                        change = Change(
                            ChangeKind.WRITTEN,
                            b"",
                            ScopeId(str(scope["_id"])),
                            MemoryId(str(document["_id"])),
                            _revision(document),
                        )
                        changes.append((change, document["changed"]))
            async for stone in database[schema.TOMBSTONES].find(newer | {"scope_id": {"$type": "objectId"}}):
                if await _is_gone(database, stone) and self._is_new((repr(stone["_id"]),), stone["changed"]):
                    changes.append((_to_change(stone), stone["changed"]))
        changes.sort(key=lambda pair: pair[1])
        if scopes != self._scopes:
            self._scopes = scopes
            changes.insert(0, (Change(ChangeKind.SCOPES_CHANGED, b""), since))
        return changes

    def _is_new(self, key: tuple[Any, ...], timestamp: Timestamp) -> bool:
        if key in self._reported:
            return False
        self._reported[key] = timestamp.time
        return True

    def _forget(self, before_s: int) -> None:
        self._reported = {key: reported_s for key, reported_s in self._reported.items() if reported_s >= before_s}

    def _token(self, timestamp: Timestamp) -> bytes:
        return bson.encode({"store": self._identity, "polled": timestamp})


def note_foreign_id(set_aside: SetAside, collection: str, key: Any, *, is_there: bool = True) -> None:
    """Record a memory whose id is not of our type, so that nobody can request it."""
    if is_there:
        set_aside.accepts(DocumentKind.MEMORY, collection, {"_id": key})
    else:
        set_aside.discard(collection, key)


def _revision(fields: Mapping[str, Any]) -> int:
    revision: Any = fields.get("revision")
    return int(revision) if is_int(revision) else UNKNOWN_REVISION


def _to_change(tombstone: Mapping[str, Any]) -> Change:
    scope_id = ScopeId(str(tombstone["scope_id"]))
    if "memory_id" not in tombstone:
        return Change(ChangeKind.SCOPE_REMOVED, b"", scope_id)
    return Change(ChangeKind.REMOVED, b"", scope_id, MemoryId(str(tombstone["memory_id"])))


async def _is_gone(database: Database, tombstone: Mapping[str, Any]) -> bool:
    """True if what a tombstone names is really removed: the tombstone is written first, and a crash may have happened in between."""
    if "memory_id" in tombstone:
        memories = database[schema.collection_name(tombstone["scope_id"])]
        return await memories.find_one({"_id": tombstone["memory_id"]}, {"_id": 1}) is None
    return True


async def _server_time(database: Database) -> Timestamp:
    """Return a timestamp from a standalone server's clock, as its writes get."""
    document = await database[schema.META].find_one_and_update(
        {"_id": "clock"},
        {"$currentDate": {"at": {"$type": "timestamp"}}},
        upsert=True,
        return_document=ReturnDocument.AFTER,
    )
    if document is None:
        raise StoreError("MongoDB did not tell its time")
    now: Timestamp = document["at"]
    return now


async def write_tombstones(database: Database, scope_key: ObjectId, keys: Sequence[ObjectId]) -> None:
    """Write tombstones for memories about to be removed, for pollers."""
    removed_at = dt.datetime.now(dt.UTC)
    stones = [{"scope_id": scope_key, "memory_id": key, "changed": NOW, "removed_at": removed_at} for key in keys]
    await database[schema.TOMBSTONES].insert_many(stones)
