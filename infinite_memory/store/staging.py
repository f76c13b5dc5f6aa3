"""Restoring into MongoDB: documents are staged in collections of their own and put into place by renaming.

The plan of what is put into place is written down first (``restore.<id>`` in ``meta``), and each of its steps may be done twice.
So a process that dies among them is finished by whoever connects next; one that dies before leaves only collections that
nobody reads, which are removed later.

Why revisions rise: a sidecar, here or in another process, knows a memory by its revision. A memory that a restore sets back gets
a revision above the one it replaces, so that nobody takes the old form for the newer one.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import logging
import os
import re
import socket
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import bson
import psutil
from bson import ObjectId, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import WriteConcern
from pymongo.errors import DuplicateKeyError, OperationFailure

from infinite_memory.errors import BackupError, ScopeExistsError, ScopeNotFoundError
from infinite_memory.models import fold
from infinite_memory.store import schema
from infinite_memory.store.connection import Connection, Database
from infinite_memory.store.copies import Chunk, Restore, Restored, RestoreMode, RestorePlan
from infinite_memory.store.drivers import aggregate
from infinite_memory.store.mongo_links import from_document as link_from_document
from infinite_memory.store.mongo_links import link_key
from infinite_memory.store.snapshots import (
    LOCAL_PREFIXES,
    LOCAL_VALUES,
    MEMORIES,
    PLAIN_NAME,
    STAGED,
    decoded,
    split,
    value_travels,
)

log = logging.getLogger(__name__)

ABANDONED = dt.timedelta(minutes=10)
"""A restore that said nothing for so long has died, wherever it ran; its collections go."""

_TELL_S = 20.0  # a restore under way says so this often

_UNSURE = WriteConcern(w=1, j=False)
"""For what is staged: a later durable write to the same server makes all that was written before it durable."""

_BATCH_BYTES = 8 << 20
_ID_FIRST = b"\x07_id\x00"
_NAMESPACE_NOT_FOUND, _DUPLICATE_KEY = 26, 11000  # MongoDB's error codes
_KEPT_NAMES = frozenset({schema.META, schema.TOMBSTONES, schema.TOKENS})
_JOURNAL = "restore."
_STAGED_NAME = re.compile(rf"{STAGED}([0-9a-f]{{24}})_(.+)")

Document = dict[str, Any]
Step = dict[str, Any]


class MongoRestore(Restore):
    """One restore; made by `begin_restore`."""

    def __init__(self, connection: Connection, plan: RestorePlan, *, polled: bool) -> None:
        self._connection, self._plan, self._polled = connection, plan, polled
        self._id = ObjectId()
        self._existing: dict[ObjectId, tuple[int, Any]] = {}
        self._scopes_there: list[Document] = []
        self._scope_of: dict[str, ObjectId] = {}  # the backup's scope -> the one it goes into
        self._new_scopes: set[ObjectId] = set()
        self._new_names: set[str] = set()
        self._id_of: dict[ObjectId, ObjectId] = {}  # memories that get another id, for theirs is taken
        self._added: set[ObjectId] = set()
        self._staged: Counter[str] = Counter()
        self._skipped = 0
        self._links: list[Chunk] = []
        self._told_at = time.monotonic()

    @property
    def _only(self) -> bool:
        return self._plan.only_scope is not None

    async def begin(self) -> None:
        """Look at what is there, and open the journal."""
        async with self._connection.operation(factor=60) as database:
            self._scopes_there = await database[schema.SCOPES].find({"dropping": {"$ne": True}}).to_list(None)
            for scope in self._scopes_there:
                memories = database[schema.collection_name(scope["_id"])]
                async for one in memories.find({}, {"revision": 1, "changed": 1}):
                    self._existing[one["_id"]] = (int(one.get("revision", 0)), one.get("changed"))
            if self._only:
                name = self._plan.as_scope or self._plan.only_scope or ""
                if any(scope["name_key"] == fold(name) for scope in self._scopes_there):
                    raise ScopeExistsError(name)
            who = {"machine": _machine(), "pid": os.getpid()}
            await database[schema.META].insert_one({"_id": self._journal, "state": "staging", "at": _now()} | who)

    async def take(self, chunk: Chunk) -> None:
        try:
            if chunk.collection == schema.SCOPES:
                await self._take_scopes(decoded(chunk.documents))
            elif (found := MEMORIES.fullmatch(chunk.collection)) is not None:
                await self._take_memories(found[1], chunk.documents)
            elif chunk.collection == schema.LINKS and self._only:
                self._links.append(chunk)  # their ends get other ids, which are known once all memories are
            elif chunk.collection in schema.BELONGING:
                await self._take_belonging(chunk)
            elif not _is_plain(chunk.collection) or chunk.collection in (schema.TOMBSTONES, schema.TOKENS):
                raise BackupError(f"the backup holds a collection {chunk.collection!r}, which no backup of ours does")
            elif chunk.collection == schema.META and not self._only:
                kept = [one for one in decoded(chunk.documents) if value_travels(str(one["_id"]))]
                await self._stage(chunk.collection, [bson.encode(one) for one in kept])
            elif not self._only:
                await self._stage(chunk.collection, split(chunk.documents))
        except (bson.errors.BSONError, KeyError, TypeError, ValueError) as problem:
            raise BackupError(f"the backup's {chunk.collection} hold what no backup of ours does") from problem

    async def _take_scopes(self, scopes: list[Document]) -> None:
        kept = []
        by_name = {scope["name_key"]: scope["_id"] for scope in self._scopes_there}
        there = {scope["_id"] for scope in self._scopes_there}
        for scope in scopes:
            key = str(scope["_id"])
            scope.pop("indexes", None)
            if self._only:
                if scope["name_key"] != fold(self._plan.only_scope or ""):
                    continue
                name = self._plan.as_scope or scope["name"]
                scope |= {"_id": ObjectId(), "name": name, "name_key": fold(name), "archived_at": None}
            elif self._plan.mode is RestoreMode.MERGE:
                if scope["_id"] in there or scope["name_key"] in by_name:
                    self._scope_of[key] = scope["_id"] if scope["_id"] in there else by_name[scope["name_key"]]
                    continue
            self._scope_of[key] = scope["_id"]
            self._new_scopes.add(scope["_id"])
            self._new_names.add(scope["name_key"])
            kept.append(scope)
        await self._stage(schema.SCOPES, [bson.encode(scope) for scope in kept])
        async with self._connection.operation(factor=1 + len(kept)) as database:
            for scope in kept:
                name = self._staged_name(schema.collection_name(scope["_id"]))
                await schema.create_memory_collection(database[name], polled=self._polled)

    async def _take_memories(self, scope_key: str, data: bytes) -> None:
        scope_id = self._scope_of.get(scope_key)
        if scope_id is None:
            if self._only:
                return
            raise BackupError(f"the backup holds memories of a scope {scope_key} that it does not name")
        kept = []
        for raw in split(data):
            memory_id = _id_of(raw)
            known = self._existing.get(memory_id)
            if known is None:
                self._added.add(memory_id)
                kept.append(raw)
            elif self._only:
                document = bson.decode(raw)
                document["_id"] = self._id_of.setdefault(memory_id, ObjectId())
                self._added.add(memory_id)
                kept.append(bson.encode(document))
            elif self._plan.mode is RestoreMode.MERGE:
                self._skipped += 1
            else:
                kept.append(_risen(raw, known))
        await self._stage(schema.collection_name(scope_id), kept)

    async def _take_belonging(self, chunk: Chunk) -> None:
        """Stage revisions, facts and links; beside what is there, only those of what is added."""
        if self._plan.mode is RestoreMode.REPLACE and not self._only:
            await self._stage(chunk.collection, split(chunk.documents))
            return
        kept = []
        for document in decoded(chunk.documents):
            scope_id = self._scope_of.get(str(document.get("scope_id")))
            if scope_id is None:
                if self._only or chunk.collection == schema.REVISIONS:
                    continue
            else:
                document["scope_id"] = scope_id
            if chunk.collection == schema.REVISIONS and document["memory_id"] not in self._added:
                continue
            if self._only:
                is_of_memory = chunk.collection == schema.USES  # named by the memory's own id
                document["_id"] = self._id_of.get(document["_id"], document["_id"]) if is_of_memory else ObjectId()
                for field in ("memory_id", "from_id", "to_id"):
                    if field in document:
                        document[field] = self._id_of.get(document[field], document[field])
                if isinstance(inner := document.get("document"), dict):
                    inner["_id"] = self._id_of.get(inner["_id"], inner["_id"])
                if chunk.collection == schema.LINKS:
                    document["_id"] = link_key(link_from_document(document))
            kept.append(bson.encode(document))
        await self._stage(chunk.collection, kept)

    async def commit(self) -> Restored:
        if self._only and not self._new_scopes:
            raise ScopeNotFoundError(self._plan.only_scope or "")
        if self._plan.mode is RestoreMode.REPLACE and not self._only and not self._new_scopes:
            raise BackupError("the backup holds no scope")
        for chunk in self._links:
            await self._take_belonging(chunk)
        memories = sum(count for name, count in self._staged.items() if MEMORIES.fullmatch(name))
        dropped = self._scopes_gone()
        async with self._connection.operation(factor=60) as database:
            await self._tell(database)
            await self._check_staged(database)
            steps = await self._steps(database)
            journal = {"state": "committing", "at": _now(), "steps": steps}
            await database[schema.META].update_one({"_id": self._journal}, {"$set": journal}, upsert=True)
            await _carry_out(database, steps, polled=self._polled)
            await schema.create_shared_indexes(database, polled=self._polled)  # those renamed into place have none
            await _clear(database, self._id)
        return Restored(len(self._new_scopes), memories, self._skipped, dropped)

    async def abort(self) -> None:
        async with self._connection.operation(factor=10) as database:
            journal = await database[schema.META].find_one({"_id": self._journal})
            if journal is not None and journal["state"] == "staging":
                await _clear(database, self._id)

    @property
    def _journal(self) -> str:
        return f"{_JOURNAL}{self._id}"

    def _staged_name(self, name: str) -> str:
        return f"{STAGED}{self._id}_{name}"

    def _scopes_gone(self) -> int:
        if self._plan.mode is RestoreMode.MERGE or self._only:
            return 0
        return len({scope["name_key"] for scope in self._scopes_there} - self._new_names)

    async def _stage(self, name: str, raws: list[bytes]) -> None:
        for batch in _batches(raws):
            async with self._connection.operation(factor=12) as database:
                found = [RawBSONDocument(raw) for raw in batch]
                staged = database.get_collection(self._staged_name(name), write_concern=_UNSURE)
                await staged.insert_many(found, ordered=False)
            self._staged[name] += len(batch)
        if time.monotonic() - self._told_at > _TELL_S:
            async with self._connection.operation() as database:
                await self._tell(database)

    async def _tell(self, database: Database) -> None:
        """Say that this restore lives; what was staged before is durable once this is."""
        self._told_at = time.monotonic()
        await database[schema.META].update_one({"_id": self._journal}, {"$set": {"at": _now()}})

    async def _check_staged(self, database: Database) -> None:
        for name, wanted in self._staged.items():
            if (found := await database[self._staged_name(name)].count_documents({})) != wanted:
                raise BackupError(f"{found:,} of {wanted:,} documents of {name} were staged; nothing was changed")

    async def _steps(self, database: Database) -> list[Step]:
        """List what is to be done, each step such that doing it again changes nothing."""
        prefix = self._staged_name("")
        staged = [
            name.removeprefix(prefix) for name in await database.list_collection_names() if name.startswith(prefix)
        ]
        steps: list[Step] = []
        replaces = self._plan.mode is RestoreMode.REPLACE and not self._only
        new = {schema.collection_name(scope_id) for scope_id in self._new_scopes}
        for name in sorted(staged):
            if name == schema.META:
                steps.append({"do": "values", "from": prefix + name, "replace": replaces})
            elif replaces or name in new:
                steps.append({"do": "rename", "from": prefix + name, "to": name})
            else:
                steps.append({"do": "merge", "from": prefix + name, "to": name})
        if replaces:
            for name in sorted(await database.list_collection_names()):
                ours = MEMORIES.fullmatch(name) or _is_plain(name)
                if ours and name not in _KEPT_NAMES and name not in staged:
                    steps.append({"do": "drop", "name": name})
        if self._plan.schema_version < schema.SCHEMA_VERSION:
            steps.append({"do": "schema", "version": self._plan.schema_version})
        return steps


async def begin_restore(connection: Connection, plan: RestorePlan, *, polled: bool) -> MongoRestore:
    """Begin a restore; see `Copies.restore`."""
    restore = MongoRestore(connection, plan, polled=polled)
    await restore.begin()
    return restore


async def finish_interrupted(database: Database, *, polled: bool) -> None:
    """Finish restores that died while being put into place, and clear away those that died before."""
    async for journal in database[schema.META].find({"_id": {"$regex": r"^restore\."}}):
        restore_id = ObjectId(journal["_id"].removeprefix(_JOURNAL))
        if journal["state"] == "committing":
            log.warning("finishing an interrupted restore", extra={"event": "restore_finished"})
            await _carry_out(database, journal["steps"], polled=polled)
            await _clear(database, restore_id)
        elif _is_abandoned(journal):
            log.info("removing what an abandoned restore had staged", extra={"event": "restore_abandoned"})
            await _clear(database, restore_id)
    await _drop_orphans(database)


def _is_abandoned(journal: Document) -> bool:
    """Tell whether the process that staged is known to be dead, or has said nothing for long.

    A journal that names no machine, as those of earlier versions, goes by time alone.
    """
    if journal.get("machine") == _machine() and not psutil.pid_exists(journal["pid"]):
        return True
    return bool(_now() - journal["at"] > ABANDONED)


@functools.cache
def _machine() -> str:
    """Name what process ids belong to: two machines may have one name, and containers of one machine count for themselves."""
    name = f"{socket.gethostname()}:{uuid.getnode():012x}"
    with contextlib.suppress(OSError):  # elsewhere than on Linux, name and network card tell machines apart
        boot_id = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        name += f":{boot_id}:{Path('/proc/self/ns/pid').readlink()}"
    return name


async def _drop_orphans(database: Database) -> None:
    """Remove what was staged by a restore that is not known any more: its last write met its clearing away."""
    names = await database.list_collection_names(filter={"name": {"$regex": f"^{STAGED}"}})
    if not names:
        return
    known = {one["_id"] async for one in database[schema.META].find({"_id": {"$regex": r"^restore\."}}, {"_id": 1})}
    for name in names:
        if (found := _STAGED_NAME.fullmatch(name)) and f"{_JOURNAL}{found[1]}" not in known:
            await database[name].drop()


async def is_restoring(database: Database) -> bool:
    """Tell whether somebody restores, so that collections may stand without their scopes for a while."""
    return await database[schema.META].find_one({"_id": {"$regex": r"^restore\."}}, {"_id": 1}) is not None


async def _carry_out(database: Database, steps: list[Step], *, polled: bool) -> None:
    for step in steps:
        if step["do"] == "rename":
            await _rename(database, step["from"], step["to"], polled=polled)
        elif step["do"] == "merge":
            await _merge(database, step["from"], step["to"])
        elif step["do"] == "values":
            if step["replace"]:
                await database[schema.META].delete_many(_travelling_values())
            await _merge(database, step["from"], schema.META)
        elif step["do"] == "pour":
            await _pour(database, step["from"], step["to"], step["mark"])
        elif step["do"] == "rescope":
            for shared in schema.BELONGING:
                await database[shared].update_many({"scope_id": step["from"]}, {"$set": {"scope_id": step["to"]}})
        elif step["do"] == "drop_scope":  # marked; whoever connects next removes what is left of it
            mark = {"$set": {"dropping": True, "name_key": f" {step['scope']}"}}
            await database[schema.SCOPES].update_one({"_id": step["scope"]}, mark)
        elif step["do"] == "drop":
            await database[step["name"]].drop()
        else:
            await database[schema.META].update_one({"_id": "schema"}, {"$set": {"version": step["version"]}})


async def _rename(database: Database, source: str, target: str, *, polled: bool) -> None:
    if polled and MEMORIES.fullmatch(target):
        await database[source].update_many({}, schema.CHANGED_NOW)
    try:
        await database[source].rename(target, dropTarget=True)
    except OperationFailure as problem:
        if problem.code != _NAMESPACE_NOT_FOUND:  # it was renamed before an interruption
            raise


async def merge_scopes(database: Database, source: ObjectId, target: ObjectId, *, polled: bool) -> int:
    """Move all memories of one scope into another and mark the first for removal, all or nothing; gives their number."""
    count = await database[schema.collection_name(source)].count_documents({})
    merge_id = ObjectId()
    steps: list[Step] = [
        {"do": "pour", "from": schema.collection_name(source), "to": schema.collection_name(target), "mark": merge_id},
        {"do": "rescope", "from": source, "to": target},
        {"do": "drop_scope", "scope": source},
    ]
    journal = {"_id": f"{_JOURNAL}{merge_id}", "state": "committing", "at": _now(), "steps": steps}
    await database[schema.META].insert_one(journal)
    await _carry_out(database, steps, polled=polled)
    await _clear(database, merge_id)
    return count


async def _pour(database: Database, source: str, target: str, mark: ObjectId) -> None:
    """Copy memories over; their revisions rise, so that every sidecar takes the new place over."""
    moved = {"$set": {"revision": {"$add": ["$revision", 1]}, "moved": mark}}
    into = {"$merge": {"into": target, "on": "_id", "whenMatched": "keepExisting", "whenNotMatched": "insert"}}
    await aggregate(database[source], [moved, into])
    settled = {"$unset": {"moved": ""}, **schema.CHANGED_NOW}
    await database[target].update_many({"moved": mark}, settled)


async def _merge(database: Database, source: str, target: str) -> None:
    into = {"$merge": {"into": target, "on": "_id", "whenMatched": "keepExisting", "whenNotMatched": "insert"}}
    try:
        await aggregate(database[source], [into])
    except OperationFailure as problem:
        if problem.code != _DUPLICATE_KEY:
            raise
        await _merge_one_by_one(database, source, target)


async def _merge_one_by_one(database: Database, source: str, target: str) -> None:
    """Insert what another unique index lets in; what it refuses is there already."""
    async for document in database[source].find():
        try:
            await database[target].insert_one(document)
        except DuplicateKeyError:
            continue


async def _clear(database: Database, restore_id: ObjectId) -> None:
    """Remove a restore's collections, then its journal."""
    for name in await database.list_collection_names():
        if (found := _STAGED_NAME.fullmatch(name)) and found[1] == str(restore_id):
            await database[name].drop()
    await database[schema.META].delete_one({"_id": f"{_JOURNAL}{restore_id}"})


def _travelling_values() -> Mapping[str, Any]:
    local = "|".join(re.escape(prefix) for prefix in LOCAL_PREFIXES)
    return {"_id": {"$regex": r"^value\.", "$not": {"$regex": f"^({local})"}, "$nin": sorted(LOCAL_VALUES)}}


def _is_plain(name: str) -> bool:
    """Tell whether a collection can be one that all scopes share."""
    return PLAIN_NAME.fullmatch(name) is not None and not name.startswith((STAGED, schema.PREFIX))


def _id_of(raw: bytes) -> ObjectId:
    """Read a memory's id, which MongoDB stores as the first field."""
    if raw[4:9] == _ID_FIRST:
        return ObjectId(raw[9:21])
    found = bson.decode(raw)["_id"]
    if not isinstance(found, ObjectId):
        raise TypeError("a memory's id is no ObjectId")
    return found


def _risen(raw: bytes, known: tuple[int, Any]) -> bytes:
    """Give a memory a revision above the one that it replaces, unless it is the same."""
    document = bson.decode(raw)
    revision, changed = known
    if document.get("revision") == revision and document.get("changed") == changed:
        return raw
    if document.get("revision", 0) <= revision:
        document["revision"] = revision + 1
        document["changed"] = Timestamp(0, 0)  # the server puts its own there
        return bson.encode(document)
    return raw


def _batches(raws: list[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for raw in raws:
        batch.append(raw)
        size += len(raw)
        if size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
