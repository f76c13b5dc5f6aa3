"""Restore into MongoDB: documents are staged in separate collections and put into place by renaming.

Why revisions are raised: a sidecar, here or in another process, compares memories by revision. A memory that a restore reverts gets a
revision above the one it replaces, so that its old form is not mistaken for the newer one.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections import Counter
from typing import Any

import bson
from bson import ObjectId, Timestamp
from bson.raw_bson import RawBSONDocument
from pymongo import WriteConcern
from pymongo.errors import BulkWriteError, DocumentTooLarge, WriteError

from infinite_memory.errors import BackupError, ScopeExistsError, ScopeNotFoundError, StoreUnavailableError
from infinite_memory.models import fold
from infinite_memory.store.copies import Chunk, Restore, Restored, RestoreMode, RestorePlan
from infinite_memory.store.id_keys import DIGEST, KEY, SOURCES, SUMMARY_OF, is_summary_of, make_summary_id
from infinite_memory.store.mongo import mapping, schema
from infinite_memory.store.mongo.client import Connection, Database
from infinite_memory.store.mongo.driver_errors import translate
from infinite_memory.store.mongo.links import from_document as link_from_document
from infinite_memory.store.mongo.links import link_key
from infinite_memory.store.mongo.merge_journal import JOURNAL
from infinite_memory.store.mongo.placing import find_home, leave_out_arrived, make_step
from infinite_memory.store.mongo.restore_steps import Step, clear, put_into_place, this_machine, utc_now
from infinite_memory.store.mongo.snapshot import (
    MEMORIES,
    PLAIN_NAME,
    STAGED,
    batches,
    decoded,
    encoded,
    id_of,
    split,
    value_travels,
)

log = logging.getLogger(__name__)

_TELL_S = 20.0  # heartbeat interval of a running restore

_UNSURE = WriteConcern(w=1, j=False)
"""For staged data: a later durable write to the same server makes everything written before it durable."""

_KEPT_NAMES = frozenset({schema.META, schema.TOMBSTONES, schema.TOKENS})

Document = dict[str, Any]


class RestoreJob(Restore):
    """A running restore; created by `begin_restore`."""

    def __init__(self, connection: Connection, plan: RestorePlan, *, is_polled: bool) -> None:
        self._connection, self._plan, self._polled = connection, plan, is_polled
        self._id = ObjectId()
        self._existing: dict[ObjectId, tuple[int, Any]] = {}
        self._scopes_there: list[Document] = []
        self._targets: dict[ObjectId, Document] = {}  # id, name and folded name of each target scope
        self._scope_of: dict[str, ObjectId] = {}  # the backup's scope -> the one it goes into
        self._new_scopes: set[ObjectId] = set()
        self._new_names: set[str] = set()
        self._id_of: dict[ObjectId, ObjectId] = {}  # memories that get a new id, because theirs is taken
        self._added: set[ObjectId] = set()
        self._staged: Counter[str] = Counter()
        self._skipped = self._replaced = 0
        self._links: list[Chunk] = []
        self._reported_at = time.monotonic()

    @property
    def _only(self) -> bool:
        return self._plan.only_scope is not None

    @property
    def _replaces(self) -> bool:
        return self._plan.mode is RestoreMode.REPLACE and not self._only

    async def begin(self) -> None:
        """Read what exists, and open the journal."""
        async with self._connection.operation(factor=60) as database:
            await self._look(database)
            if self._only:
                name = self._plan.as_scope or self._plan.only_scope or ""
                if any(scope["name_key"] == fold(name) for scope in self._scopes_there):
                    raise ScopeExistsError(name)
            if self._plan.dry_run:
                return
            who = {"machine": this_machine(), "pid": os.getpid()}
            await database[schema.META].insert_one({"_id": self._journal, "state": "staging", "at": utc_now()} | who)

    async def _look(self, database: Database) -> None:
        """Record existing scopes and memories; invalid documents do not stop what replaces them."""
        fields = {"_id": 1, "name": 1, "name_key": 1}
        async for scope in database[schema.SCOPES].find(schema.PRESENT, fields):
            if not isinstance(scope["_id"], ObjectId):
                continue
            scope["name_key"] = str(scope.get("name_key"))
            self._scopes_there.append(scope)
            memories = database[schema.collection_name(scope["_id"])]
            async for memory in memories.find({}, {"revision": 1, "changed": 1}):
                revision = memory.get("revision")
                self._existing[memory["_id"]] = (revision if isinstance(revision, int) else 0, memory.get("changed"))

    async def take(self, chunk: Chunk) -> None:
        try:
            if chunk.collection == schema.SCOPES:
                await self._take_scopes(decoded(chunk.documents))
            elif (match := MEMORIES.fullmatch(chunk.collection)) is not None:
                await self._take_memories(match[1], chunk.documents)
            elif chunk.collection == schema.LINKS and self._only:
                self._links.append(chunk)  # their ends get new ids, which are known once all memories are staged
            elif chunk.collection in schema.BELONGING:
                await self._take_belonging(chunk)
            elif not _is_plain(chunk.collection) or chunk.collection in (schema.TOMBSTONES, schema.TOKENS):
                raise BackupError(f"the backup holds a collection {chunk.collection!r}, which no backup of ours does")
            elif chunk.collection == schema.META and not self._only:
                portable = [document for document in decoded(chunk.documents) if value_travels(str(document["_id"]))]
                await self._stage(chunk.collection, [encoded(document) for document in portable])
            elif not self._only:
                await self._stage(chunk.collection, split(chunk.documents))
        except (bson.errors.BSONError, KeyError, TypeError, ValueError) as exc:
            raise BackupError(f"the backup's {chunk.collection} hold what no backup of ours does") from exc

    async def _take_scopes(self, scopes: list[Document]) -> None:
        staged = []
        by_name = {scope["name_key"]: scope["_id"] for scope in self._scopes_there}
        existing = {scope["_id"] for scope in self._scopes_there}
        for scope in scopes:
            key = str(scope["_id"])
            scope.pop("indexes", None)
            if self._only:
                if scope["name_key"] != fold(self._plan.only_scope or ""):
                    continue
                name = self._plan.as_scope or scope["name"]
                scope |= {"_id": ObjectId(), "name": name, "name_key": fold(name), "archived_at": None}
            elif self._plan.mode is RestoreMode.MERGE:
                if scope["_id"] in existing or scope["name_key"] in by_name:
                    target = scope["_id"] if scope["_id"] in existing else by_name[scope["name_key"]]
                    self._scope_of[key] = target
                    if target not in self._targets:  # staged anyway: the target may be removed concurrently
                        self._targets[target] = {**scope, "_id": target}
                        staged.append(self._targets[target])
                    continue
            self._scope_of[key] = scope["_id"]
            self._new_scopes.add(scope["_id"])
            self._new_names.add(scope["name_key"])
            self._targets[scope["_id"]] = scope
            staged.append(scope)
        self._connection.check_room(len(self._scopes_there) + len(self._new_scopes))
        await self._stage(schema.SCOPES, [encoded(scope) for scope in staged])
        if self._plan.dry_run:
            return
        new = [scope for scope in staged if scope["_id"] in self._new_scopes]
        async with self._connection.operation(factor=1 + len(new)) as database:
            for scope in new:
                name = self._staged_name(schema.collection_name(scope["_id"]))
                await schema.create_memory_collection(database[name], is_polled=self._polled)

    async def _take_memories(self, scope_key: str, data: bytes) -> None:
        scope_id = self._scope_of.get(scope_key)
        if scope_id is None:
            if self._only:
                return
            raise BackupError(f"the backup holds memories of a scope {scope_key} that it does not name")
        staged = []
        for raw in split(data):
            memory_id = id_of(raw)
            existing = self._existing.get(memory_id)
            if self._only:
                [document] = decoded(raw)
                if existing is not None and _is_digest(document):
                    # Its id marks it as one, so that it is removed with what it quotes; a copy would stay.
                    self._skipped += 1
                    continue
                self._added.add(memory_id)
                staged.append(encoded(self._renamed(document)))
            elif existing is None:
                self._added.add(memory_id)
                staged.append(raw)
            elif self._plan.mode is RestoreMode.MERGE:
                self._skipped += 1
            else:
                self._replaced += 1
                staged.append(_risen(raw, existing))
        await self._stage(schema.collection_name(scope_id), staged)

    def _renamed(self, memory: Document) -> Document:
        """Replace the ids in a memory with those of the new scope: its own and those of the memories that it quotes."""

        def find(key: ObjectId) -> ObjectId:
            return self._id_of.setdefault(key, ObjectId()) if key in self._existing else key

        about = memory.get("metadata")
        if memory["_id"] in self._existing and isinstance(about, dict):
            former = str(memory["_id"])
            if is_summary_of(former, about.get(SUMMARY_OF)):  # and its copy too
                about[SUMMARY_OF] = f"{about[SUMMARY_OF]} {ObjectId()}"
                self._id_of[memory["_id"]] = ObjectId(make_summary_id(former[:8], about[SUMMARY_OF]))
            elif memory.get("source") == "summary":  # one of an older version is recognised by its id prefix
                self._id_of[memory["_id"]] = ObjectId(memory["_id"].binary[:4] + ObjectId().binary[4:])
        memory["_id"] = find(memory["_id"])
        if isinstance(about, dict) and isinstance(quoted := about.get(SOURCES), list):
            ids = (mapping.find_object_id(source) if isinstance(source, str) else None for source in quoted)
            about[SOURCES] = [
                source if key is None else str(find(key)) for source, key in zip(quoted, ids, strict=True)
            ]
        return memory

    async def _take_belonging(self, chunk: Chunk) -> None:
        """Stage revisions, facts and links; in a merge, only those of added memories and scopes."""
        if self._plan.mode is RestoreMode.REPLACE and not self._only:
            await self._stage(chunk.collection, split(chunk.documents))
            return
        staged = []
        for document in decoded(chunk.documents):
            scope_id = self._scope_of.get(str(document.get("scope_id")))
            if scope_id is None:
                if self._only or chunk.collection == schema.REVISIONS:
                    continue
            else:
                document["scope_id"] = scope_id
            if "moved_from" in document:
                document["moved_from"] = self._scope_of.get(str(document["moved_from"]), document["moved_from"])
            if chunk.collection == schema.REVISIONS and document["memory_id"] not in self._added:
                continue
            if self._only:
                is_of_memory = chunk.collection == schema.USES  # keyed by the memory's own id
                document["_id"] = self._id_of.get(document["_id"], document["_id"]) if is_of_memory else ObjectId()
                for field in ("memory_id", "from_id", "to_id"):
                    if field in document:
                        document[field] = self._id_of.get(document[field], document[field])
                if isinstance(inner := document.get("document"), dict):
                    inner["_id"] = self._id_of.get(inner["_id"], inner["_id"])
                if chunk.collection == schema.LINKS:
                    document["_id"] = link_key(link_from_document(document))
            staged.append(encoded(document))
        await self._stage(chunk.collection, staged)

    async def commit(self) -> Restored:
        if self._only and not self._new_scopes:
            raise ScopeNotFoundError(self._plan.only_scope or "")
        if self._replaces and not self._new_scopes:
            raise BackupError("the backup holds no scope")
        for chunk in self._links:
            await self._take_belonging(chunk)
        memories = sum(count for name, count in self._staged.items() if MEMORIES.fullmatch(name))
        removed = len(self._existing) - self._replaced if self._replaces else 0
        done = Restored(
            len(self._new_scopes), memories, self._skipped, self._scopes_gone(), self._replaced, max(removed, 0)
        )
        if self._plan.dry_run:
            return done
        async with self._connection.operation(factor=60) as database:
            await self._tell(database)
            await self._check_staged(database)
            if not self._replaces:
                arrived = await leave_out_arrived(database, self._staged_name(""), self._added - self._id_of.keys())
                if arrived and self._only:
                    raise BackupError(f"{arrived:,} memories of it came back meanwhile; nothing was changed, try again")
                done = dataclasses.replace(
                    done, scopes=await self._look_again(database),
                    memories=memories - arrived, skipped=self._skipped + arrived,
                )  # fmt: skip
            steps = await self._steps(database)
        await put_into_place(self._connection, self._id, steps, is_polled=self._polled)
        return done

    async def abort(self) -> None:
        if self._plan.dry_run:
            return
        async with self._connection.operation(factor=10) as database:
            journal = await database[schema.META].find_one({"_id": self._journal})
            if journal is not None and journal["state"] == "staging":
                await clear(database, self._id)

    @property
    def _journal(self) -> str:
        return f"{JOURNAL}{self._id}"

    def _staged_name(self, name: str) -> str:
        return f"{STAGED}{self._id}_{name}"

    def _scopes_gone(self) -> int:
        if self._plan.mode is RestoreMode.MERGE or self._only:
            return 0
        return len({scope["name_key"] for scope in self._scopes_there} - self._new_names)

    async def _stage(self, name: str, raws: list[bytes]) -> None:
        if self._plan.dry_run:
            self._staged[name] += len(raws)
            return
        for batch in batches(raws):
            async with self._connection.operation(factor=12) as database:
                documents = [RawBSONDocument(raw) for raw in batch]
                staged = database.get_collection(self._staged_name(name), write_concern=_UNSURE)
                try:
                    await staged.insert_many(documents, ordered=False)
                except (BulkWriteError, WriteError, DocumentTooLarge) as exc:
                    if isinstance(translate(exc, ""), StoreUnavailableError):
                        raise
                    raise BackupError(f"MongoDB does not take the backup's {name}; nothing was changed") from exc
            self._staged[name] += len(batch)
        if time.monotonic() - self._reported_at > _TELL_S:
            async with self._connection.operation() as database:
                await self._tell(database)

    async def _tell(self, database: Database) -> None:
        """Write a heartbeat; everything staged before is durable once this is."""
        self._reported_at = time.monotonic()
        await database[schema.META].update_one({"_id": self._journal}, {"$set": {"at": utc_now()}})

    async def _check_staged(self, database: Database) -> None:
        for name, expected in self._staged.items():
            if (count := await database[self._staged_name(name)].count_documents({})) != expected:
                raise BackupError(f"{count:,} of {expected:,} documents of {name} were staged; nothing was changed")

    async def _look_again(self, database: Database) -> int:
        """Check how scopes changed since `begin`; return how many will be created.

        Raises:
            ScopeExistsError: the name of the single scope is taken by now.
        """
        homeless = [key for key, scope in self._targets.items() if await find_home(database, scope) is None]
        if self._only and not homeless:
            raise ScopeExistsError(self._plan.as_scope or self._plan.only_scope or "")
        # Records of a scope that was removed, and lacked no memories, are not restored alone.
        bare = [key for key in homeless if not self._is_filled(key)]
        for shared in schema.BELONGING if bare else ():
            await database[self._staged_name(shared)].delete_many({"scope_id": {"$in": bare}})
        return len(homeless) - len(bare)

    def _is_filled(self, key: ObjectId) -> bool:
        """True if a scope is to be created, or memories are to be added to it."""
        return key in self._new_scopes or self._staged[schema.collection_name(key)] > 0

    async def _steps(self, database: Database) -> list[Step]:
        """Return the steps, each idempotent."""
        prefix = self._staged_name("")
        present = await database.list_collection_names()
        staged = [name.removeprefix(prefix) for name in present if name.startswith(prefix)]
        steps: list[Step] = []
        if not self._replaces:
            filled = [key for key in self._targets if self._is_filled(key)]
            steps += [make_step(prefix, key, is_new=key in self._new_scopes, alone=self._only) for key in filled]
            staged = [name for name in staged if name != schema.SCOPES and not MEMORIES.fullmatch(name)]
        for name in sorted(staged):
            if name == schema.META:
                steps.append({"do": "values", "from": prefix + name, "replace": self._replaces})
            else:
                steps.append({"do": "rename" if self._replaces else "merge", "from": prefix + name, "to": name})
        if self._replaces:
            steps.append({"do": "mend_meta"})
            for name in sorted(present):
                ours = MEMORIES.fullmatch(name) or _is_plain(name)
                if ours and name not in _KEPT_NAMES and name not in staged:
                    steps.append({"do": "drop", "name": name})
        if self._replaces or self._plan.schema_version < schema.SCHEMA_VERSION:
            steps.append({"do": "schema", "version": self._plan.schema_version})
        return steps


async def begin_restore(connection: Connection, plan: RestorePlan, *, is_polled: bool) -> RestoreJob:
    """Start a restore; see `Copies.restore`."""
    restore = RestoreJob(connection, plan, is_polled=is_polled)
    await restore.begin()
    return restore


def _is_plain(name: str) -> bool:
    """True if a collection may be one that all scopes share."""
    return PLAIN_NAME.fullmatch(name) is not None and not name.startswith((STAGED, schema.PREFIX))


def _is_digest(memory: Document) -> bool:
    about = memory.get("metadata")
    return memory.get("type") == DIGEST and isinstance(about, dict) and KEY in about


def _risen(raw: bytes, existing: tuple[int, Any]) -> bytes:
    """Raise a memory's revision above that of the one it replaces, unless they are equal."""
    [document] = decoded(raw)
    revision, changed = existing
    if document.get("revision") == revision and document.get("changed") == changed:
        return raw
    if document.get("revision", 0) <= revision:
        document["revision"] = revision + 1
        document["changed"] = Timestamp(0, 0)  # the server fills in its own
        return encoded(document)
    return raw
