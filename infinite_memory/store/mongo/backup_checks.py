"""Check that a backup can be restored: every document by itself, and all of them together.

`verify` and a restore use the same `BackupCheck` before anything is written: what one accepts the other restores. What MongoDB's unique
indexes would reject is rejected here, because they are created after the data is in place.

Derived values (folded keys, hashes) of the right type that differ from what this version derives are not a fault: another version of
Unicode folds differently. A restore derives them again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import bson
from bson import ObjectId

from infinite_memory.errors import BackupError
from infinite_memory.models import MAX_MEMORY_TAGS
from infinite_memory.store.copies import Chunk
from infinite_memory.store.document_checks import CHECKED_CODEC, DocumentKind, check_document, kind_of_collection
from infinite_memory.store.document_fields import FIELDS
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.document_mending import mend_document
from infinite_memory.store.mongo.snapshot import MEMORIES, PLAIN_NAME, STAGED, split

SET_ASIDE = "set_aside"
"""Documents that were invalid when a backup was made: ``{_id, collection, fault, document}``, the last one as bytes."""

_MAX_REPORTED_ID = 80
_MAX_DOCUMENT_BYTES = 16 << 20  # MongoDB's
_MAX_LEVELS = 90  # MongoDB nests documents up to 100 deep


Document = dict[str, Any]


class BackupCheck:
    """Validates the chunks of one backup, in order. Used from one thread at a time.

    Args:
        schema_version: Of the documents.
        compares_derived: Whether to compare derived values of memories too, and derive them again where they differ. Takes a third of the
            time, and rejects nothing.
    """

    def __init__(self, schema_version: int, *, compares_derived: bool = True) -> None:
        self._compares_derived = compares_derived
        self._is_old = schema_version < schema.SCHEMA_VERSION
        self._scopes: dict[ObjectId, str] = {}
        self._scope_names: set[str] = set()
        self._memories: set[bytes] = set()
        self._versions: set[tuple[ObjectId, int]] = set()
        self._holding: set[tuple[ObjectId, str, str]] = set()
        self._ids: dict[str, set[Any]] = {}

    def check(self, chunk: Chunk) -> list[bytes]:
        """Check a chunk and return its documents, with derived values recomputed where they differ.

        Raises:
            BackupError: one of them cannot be restored; names its collection, id and field, but no user content.
        """
        name = chunk.collection
        if not is_restorable_name(name):
            raise BackupError(f"the backup holds a collection {name[:80]!r}, which no backup of ours does")
        kind = kind_of_collection(name)
        if (match := MEMORIES.fullmatch(name)) is not None and ObjectId(match[1]) not in self._scopes:
            raise BackupError(f"the backup holds memories of a scope {match[1]} that it does not name")
        return [self._check(name, kind, raw) for raw in split(chunk.documents)]

    def _check(self, collection: str, kind: DocumentKind | None, raw: bytes) -> bytes:
        if len(raw) > _MAX_DOCUMENT_BYTES:
            raise BackupError(
                f"the backup's {collection} hold a document of {len(raw):,} bytes, which MongoDB does not take"
            )
        try:
            document: Document = bson.decode(raw, CHECKED_CODEC)
        except Exception as exc:  # a hostile document can make the decoder raise anything
            raise BackupError(f"the backup's {collection} hold a document that is not BSON") from exc
        if kind is None:
            if "_id" not in document:
                raise _refused(collection, document, "_id", "an id")
            self._check_unique(
                self._ids.setdefault(collection, set()), _hashable(document["_id"]), collection, document
            )
            return raw
        checked, is_changed = self._sound(collection, kind, document)
        if kind is DocumentKind.MEMORY:
            self._check_size(collection, document, checked)
        elif kind is DocumentKind.REVISION:
            self._check_size(collection, document, checked["document"])
        self._check_together(collection, kind, checked)
        return bson.encode(checked, codec_options=CHECKED_CODEC) if is_changed else raw

    def _sound(self, collection: str, kind: DocumentKind, document: Document) -> tuple[Document, bool]:
        """Return the document to restore, and whether it differs from the one in the backup."""
        is_version = kind in (DocumentKind.MEMORY, DocumentKind.REVISION)
        faults = check_document(kind, document, deep=self._compares_derived or not is_version)
        if (deep := _too_deep(kind, document)) is not None:
            raise _refused(collection, document, deep, f"at most {_MAX_LEVELS} levels")
        if not faults:
            return document, False
        if self._is_old or all(fault.is_harmless for fault in faults):
            mended = mend_document(kind, document)
            if mended is not None:
                return mended, True
        fault = next((fault for fault in faults if not fault.is_harmless), faults[0])
        raise _refused(collection, document, fault.field, fault.expected)

    def _check_size(self, collection: str, document: Document, memory: Document) -> None:
        if (count := len(memory.get("tags", ()))) > MAX_MEMORY_TAGS:
            raise _refused(collection, document, "tags", f"at most {MAX_MEMORY_TAGS:,} entries (not {count:,})")

    def _check_together(self, collection: str, kind: DocumentKind, document: Document) -> None:
        """Check the values that MongoDB keeps unique."""
        key = document["_id"]
        if kind is DocumentKind.MEMORY:
            self._check_unique(self._memories, key.binary, collection, document)
            return
        self._check_unique(self._ids.setdefault(collection, set()), _hashable(key), collection, document)
        if kind is DocumentKind.SCOPE:
            if document.get("dropping"):  # the next start would remove it with all of its memories
                raise _refused(collection, document, "dropping", "false or nothing")
            self._check_unique(self._scope_names, document["name_key"], collection, document, "name_key")
            self._scopes[key] = document["name_key"]
        elif kind is DocumentKind.REVISION:
            version = (document["memory_id"], document["revision"])
            self._check_unique(self._versions, version, collection, document, "revision")
        elif kind is DocumentKind.FACT and document["active"]:
            fact_key = (document["scope_id"], document["subject_key"], document["predicate_key"])
            self._check_unique(self._holding, fact_key, collection, document, "active")

    @staticmethod
    def _check_unique(seen: set[Any], key: Any, collection: str, document: Document, field: str = "_id") -> None:
        if key in seen:
            raise _refused(collection, document, field, "a value that no other document has")
        seen.add(key)


class Separation:
    """Separates the documents of a snapshot into those that a restore accepts and those that it would reject.

    An invalid document, written by another program or accepted by an earlier version, must not make a whole backup useless.
    """

    def __init__(self) -> None:
        self._check = BackupCheck(schema.SCHEMA_VERSION, compares_derived=False)
        self.set_aside = 0

    def separate(self, chunk: Chunk) -> list[Chunk]:
        """Return the chunk without rejected documents, and a chunk of `SET_ASIDE` with these, if any."""
        kind = kind_of_collection(chunk.collection)
        sound: list[bytes] = []
        aside: list[bytes] = []
        for raw in split(chunk.documents):
            try:
                self._accept(chunk.collection, kind, raw)
                sound.append(raw)
            except BackupError as exc:
                aside.append(_set_aside(chunk.collection, raw, str(exc)))
        self.set_aside += len(aside)
        if not aside:
            return [chunk]
        chunks = [Chunk(chunk.collection, len(sound), b"".join(sound)), Chunk(SET_ASIDE, len(aside), b"".join(aside))]
        return [part for part in chunks if part.count]

    def _accept(self, collection: str, kind: DocumentKind | None, raw: bytes) -> None:
        self._check.check(Chunk(collection, 1, raw))


def _too_deep(kind: DocumentKind, document: Document) -> str | None:
    """Return the name of an unknown field, as a later version may have written, that is nested too deeply for MongoDB."""
    described = _DESCRIBED[kind]
    return next(
        (name for name in document if name not in described and not _is_flat(document[name], _MAX_LEVELS)), None
    )


def _is_flat(value: Any, levels: int) -> bool:
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_flat(item, levels - 1) for item in entries)


_DESCRIBED = {kind: frozenset(field.name for field in FIELDS[kind]) for kind in DocumentKind}


def is_restorable_name(name: str) -> bool:
    """True if this is a valid collection name in a backup."""
    if MEMORIES.fullmatch(name):
        return True
    is_plain = PLAIN_NAME.fullmatch(name) is not None and not name.startswith((STAGED, schema.PREFIX))
    return is_plain and name not in (schema.TOMBSTONES, schema.TOKENS)


def _set_aside(collection: str, raw: bytes, reason: str) -> bytes:
    return bson.encode({"_id": ObjectId(), "collection": collection, "fault": reason, "document": raw})


def _refused(collection: str, document: Mapping[str, Any], field: str, expected: str) -> BackupError:
    return BackupError(
        f"the backup's {collection} hold a document {_id_text(document)} that is not sound: {field}: {expected} was expected"
    )


def _id_text(document: Mapping[str, Any]) -> str:
    """Format a document's id for a message; ids in other formats than ours may be anything, even a user's text."""
    key = document.get("_id")
    if isinstance(key, ObjectId):
        return str(key)
    if isinstance(key, str) and len(key) <= _MAX_REPORTED_ID and key.isascii() and key.isprintable():
        return key
    return "without an id of ours"


def _hashable(value: Any) -> Any:
    return value if isinstance(value, str | int | ObjectId) else bson.encode({"": value})
