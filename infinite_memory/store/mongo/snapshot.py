"""Read the whole database at a single point in time, for backups and exports.

All collections are read in one snapshot session, so every document is from the same instant however long the read takes. A standalone
server has no snapshots: there each collection is read as it is, and the head says so.

Documents are passed on as the bytes the server sent: a backup is an exact copy of what is stored.
"""

from __future__ import annotations

import inspect
import re
import struct
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, cast

import bson
from bson import ObjectId

from infinite_memory.errors import StoreError
from infinite_memory.models import MemoryRecord, ScopeId
from infinite_memory.store.copies import Chunk, Snapshot, SnapshotHead
from infinite_memory.store.document_checks import CHECKED_CODEC, check_document, is_readable, kind_of_collection
from infinite_memory.store.document_fields import DocumentKind, is_instant, is_object_id
from infinite_memory.store.mongo import mapping, schema
from infinite_memory.store.mongo.client import Connection
from infinite_memory.store.mongo.scope_documents import readable_scopes

if TYPE_CHECKING:
    from pymongo.asynchronous.client_session import AsyncClientSession


_PAGE = 1000  # documents read at a time
_CHUNK_BYTES = 4 << 20  # of documents in a part of a backup, which is compressed and checksummed as a unit
_BATCH_BYTES = 8 << 20  # of documents written at a time
_LENGTH = struct.Struct("<i")
_ID_FIRST = b"\x07_id\x00"

STAGED = "staged_"
"""Name prefix of collections that a restore has not yet put into place."""

LOCAL_VALUES = frozenset({"value.last_backup", "value.embedding"})
LOCAL_PREFIXES = ("value.job.", "lease.", "restore.", "daemon.")
"""Entries of ``meta`` specific to this database and never backed up: jobs, leases, daemons, restores, the last backup, the model."""

MEMORIES = re.compile(rf"{schema.PREFIX}([0-9a-f]{{24}})")
PLAIN_NAME = re.compile(r"[a-z][a-z_]{0,60}")
_NEVER = frozenset({schema.TOMBSTONES, schema.TOKENS})
"""The first only tell pollers what was removed; the second grant access to this database, not to a copy of it."""

_ID_TYPES = {schema.LINKS: "string", schema.META: "string", "agents": "object", "tokens": "string"}
"""Types of ids that are not ObjectIds."""


class MongoSnapshot(Snapshot):
    """A point-in-time view of a database."""

    def __init__(
        self, connection: Connection, session: AsyncClientSession | None, names: list[str], head: SnapshotHead
    ) -> None:
        self._connection, self._session, self._names, self.head = connection, session, names, head

    async def chunks(self) -> AsyncIterator[Chunk]:
        """Yield everything, ``scopes`` first and memories next, in chunks of a few MiB.

        Raises:
            StoreError: the server no longer has that snapshot, or a collection was replaced since; take a new one.
        """
        present = {
            str(scope["_id"])
            for scope in await self._documents(schema.SCOPES, schema.PRESENT)
            if is_object_id(scope["_id"])
        }
        for name in self._names:
            async for chunk in self.collection(name, present):
                yield chunk

    async def collection(self, name: str, present: set[str] | None = None) -> AsyncIterator[Chunk]:
        """Yield the documents of one collection; those of scopes not in *present* are omitted."""
        query: dict[str, Any] = {}
        if present is not None:
            if (match := MEMORIES.fullmatch(name)) and match[1] not in present:
                return
            if name == schema.SCOPES:
                query = schema.PRESENT
            elif name in schema.BELONGING:
                query = {"scope_id": {"$in": [ObjectId(key) for key in present]}}
        pages = self._meta_pages() if name == schema.META else self._pages(name, query)
        if name == schema.SCOPES:
            pages = _with_global(pages)
        batch, count = [], 0
        async for page in pages:
            batch.append(page)
            count += sum(1 for _ in split(page))
            if sum(map(len, batch)) >= _CHUNK_BYTES:
                yield Chunk(name, count, b"".join(batch))
                batch, count = [], 0
        if count:
            yield Chunk(name, count, b"".join(batch))

    async def _pages(self, name: str, query: Mapping[str, Any]) -> AsyncIterator[bytes]:
        """Page through a collection by id, each page a separate query, so that a slow disk blocks nobody.

        A range query compares only ids of one type; ids of other types, written by other programs, come in separate pages.
        """
        own = _ID_TYPES.get(name, "objectId")
        for of_type in ({"$type": own}, {"$not": {"$type": own}}):
            last: Any = None
            while True:
                after = [] if last is None else [{"_id": {"$gt" if of_type == {"$type": own} else "$nin": last}}]
                async with self._connection.operation(factor=6) as database:
                    narrowed = {"$and": [query, {"_id": of_type}, *after]}
                    cursor = (
                        database[name].find_raw_batches(narrowed, session=self._session).sort("_id", 1).limit(_PAGE)
                    )
                    batches = [cast("bytes", batch) async for batch in cursor]
                page = b"".join(batches)
                raws = split(page)
                if raws:
                    yield page
                if len(raws) < _PAGE:
                    break
                if of_type == {"$type": own}:
                    last = bson.decode(raws[-1], CHECKED_CODEC)["_id"]
                else:
                    last = [*(last or []), *(bson.decode(raw, CHECKED_CODEC)["_id"] for raw in raws)]

    async def _meta_pages(self) -> AsyncIterator[bytes]:
        """Yield the small values that are backed up."""
        documents = [
            document
            for document in await self._documents(schema.META, {"_id": {"$regex": "^value\\."}})
            if value_travels(document["_id"]) and not check_document(DocumentKind.META, document)
        ]
        if documents:
            yield b"".join(bson.encode(document) for document in documents)

    async def _documents(self, name: str, query: Mapping[str, Any]) -> list[dict[str, Any]]:
        async with self._connection.operation(factor=6) as database:
            return await database[name].find(dict(query), session=self._session).sort("_id", 1).to_list(None)


async def _with_global(pages: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield scopes unchanged, except for an invalid Global, which is repaired: a backup without it would lack its memories."""
    raws = [raw async for page in pages for raw in split(page)]
    scopes = [bson.decode(raw, CHECKED_CODEC) for raw in raws]
    existing = {repr(scope["_id"]): scope for scope in readable_scopes(sorted(scopes, key=_age))[0]}
    for raw, scope in zip(raws, scopes, strict=True):
        read = existing.get(repr(scope["_id"]))
        yield raw if read is None or read is scope else encoded(read)


@asynccontextmanager
async def open_snapshot(connection: Connection) -> AsyncIterator[MongoSnapshot]:
    """Take a snapshot of a database.

    Raises:
        StoreError: a restore is putting its collections into place at this moment.
    """
    async with connection.operation() as database:
        hello = await database.client.admin.command("hello")
        names = sorted(filter(_travels, await database.list_collection_names()))
    is_consistent = "setName" in hello or hello.get("msg") == "isdbgrid"
    # Scopes first, for they say what the others are; then memories, for what belongs to one is read after it.
    names.sort(key=lambda name: (name != schema.SCOPES, MEMORIES.fullmatch(name) is None))
    session = None
    try:
        if is_consistent:
            session = await _settled(connection.client.start_session(snapshot=True))
        snapshot = MongoSnapshot(connection, session, names, SnapshotHead(0, is_consistent, {}))
        await _check_settled(snapshot)
        async with connection.operation(factor=4) as database:
            version = await database[schema.META].find_one({"_id": "schema"}, session=session)
            totals = {name: await database[name].estimated_document_count() for name in names}
        snapshot.head = SnapshotHead(_schema_version(version), is_consistent, totals)
        yield snapshot
    finally:
        if session is not None:
            await _settled(session.end_session())


def _schema_version(entry: Mapping[str, Any] | None) -> int:
    """Return the schema version of the data; a corrupt one counts as the current version, as when connecting."""
    if entry is None:
        return 0
    return int(entry["version"]) if not check_document(DocumentKind.META, entry) else schema.SCHEMA_VERSION


async def _check_settled(snapshot: MongoSnapshot) -> None:
    """Raise if a restore is putting its data into place; a corrupt journal is set aside and does not count."""
    journals = await snapshot._documents(schema.META, {"_id": {"$regex": "^restore\\."}, "state": "committing"})
    if not all(check_document(DocumentKind.META, journal) for journal in journals):
        raise StoreError("a restore is putting its data into place; try again in a moment")


def memories_of(chunk: Chunk) -> list[MemoryRecord]:
    """Return the memories of a chunk, with their vectors; empty if the chunk is of another collection."""
    match = MEMORIES.fullmatch(chunk.collection)
    if match is None:
        return []
    scope_id = ScopeId(match[1])
    return [mapping.from_document(document, scope_id) for document in sound(chunk)]


def revisions_of(chunk: Chunk) -> list[MemoryRecord]:
    """Return the earlier versions of memories in a chunk, without vectors."""
    return [
        mapping.from_document(document["document"], ScopeId(str(document["scope_id"]))) for document in sound(chunk)
    ]


def documents_of(chunk: Chunk) -> list[dict[str, Any]]:
    """Return the documents of a chunk; ids are strings, keys as users wrote them."""
    return [_in_text(mapping.decode_value(document)) for document in sound(chunk)]


def sound(chunk: Chunk) -> list[dict[str, Any]]:
    """Return the valid documents of a chunk."""
    kind, documents = kind_of_collection(chunk.collection), decoded(chunk.documents)
    if kind is DocumentKind.SCOPE:
        return readable_scopes(sorted(documents, key=_age))[0]
    return [document for document in documents if kind is None or is_readable(kind, document)]


def _age(scope: Mapping[str, Any]) -> tuple[bool, Any, str]:
    """Sort key of scopes by age; those without a date come last."""
    created_at = scope.get("created_at")
    return (False, created_at, "") if is_instant(created_at) else (True, 0, repr(scope.get("_id")))


def _in_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_text(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_in_text(item) for item in value]
    return str(value) if isinstance(value, ObjectId) else value


def decoded(data: bytes) -> list[dict[str, Any]]:
    """Decode documents; datetimes are aware and in UTC.

    Raises:
        ValueError: the bytes are not documents.
    """
    try:
        return cast("list[dict[str, Any]]", bson.decode_all(data, CHECKED_CODEC))
    except bson.errors.BSONError as exc:
        raise ValueError(f"these are no documents: {exc}") from exc


def encoded(document: Mapping[str, Any]) -> bytes:
    """Encode a document read by `decoded`.

    Fields with ill-formed UTF-8 are omitted, because the driver cannot encode it: they are another program's, ours are checked before.
    """
    try:
        return bson.encode(document, codec_options=CHECKED_CODEC)
    except UnicodeEncodeError:
        return bson.encode({name: value for name, value in document.items() if _is_writable({name: value})})


def _is_writable(document: Mapping[str, Any]) -> bool:
    try:
        bson.encode(document)
    except UnicodeEncodeError:
        return False
    return True


def split(data: bytes) -> list[bytes]:
    """Split concatenated documents."""
    documents, offset = [], 0
    while offset < len(data):
        length = _LENGTH.unpack_from(data, offset)[0]
        documents.append(data[offset : offset + length])
        offset += length
    return documents


def batches(raws: list[bytes]) -> Iterator[list[bytes]]:
    """Yield documents in batches of a few MiB."""
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


def id_of(raw: bytes) -> ObjectId:
    """Return a memory's id, which MongoDB stores as the first field.

    Raises:
        TypeError: it is not an id of ours.
    """
    if raw[4:9] == _ID_FIRST:
        return ObjectId(raw[9:21])
    [document] = decoded(raw)
    key = document["_id"]
    if not isinstance(key, ObjectId):
        raise TypeError("a memory's id is no ObjectId")
    return key


def value_travels(key: str) -> bool:
    """True if an entry of ``meta`` is included in backups."""
    return key.startswith("value.") and key not in LOCAL_VALUES and not key.startswith(LOCAL_PREFIXES)


def _travels(name: str) -> bool:
    if name.startswith((STAGED, "system.")) or name in _NEVER:
        return False
    return MEMORIES.fullmatch(name) is not None or PLAIN_NAME.fullmatch(name) is not None


async def _settled(value: Any) -> Any:
    """Await a result that one driver returns as a coroutine and the other directly."""
    return await value if inspect.isawaitable(value) else value
