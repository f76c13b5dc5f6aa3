"""Mapping between memories and MongoDB documents.

User input is stored as values only: MongoDB never interprets a user's key or text as an operator. Metadata keys are escaped, because a key
may contain characters that MongoDB forbids or interprets (NUL, dots, dollars): they are percent-encoded, as is ``%`` (``%25``).

In addition to the fields of `MemoryRecord` a document has ``live`` (false when soft-deleted; an index cannot filter on null),
``tag_keys`` (folded), ``changed`` (the server's timestamp of the last write, used to poll a standalone server) and
``mark`` (identifies the operation that last hid or restored it). A hidden one may have ``merged_into``: the memory that it duplicated.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import numpy as np
from bson import Binary, Int64, ObjectId, Timestamp
from bson.errors import InvalidId

from infinite_memory.errors import InvalidRequestError, truncated_repr
from infinite_memory.models import (
    DETAILS,
    Embedding,
    MemoryId,
    MemoryRecord,
    Scope,
    ScopeId,
    Window,
    floor_to_millisecond,
    get_details,
)
from infinite_memory.store.document_fields import is_embedding

Document = dict[str, Any]

NOW = Timestamp(0, 0)
"""As a top-level field of an insert or replacement, the server fills in its own timestamp."""

_MAX_DEPTH = 64
"""MongoDB nests documents up to 100 deep; ours start a few levels down."""

_INT_LIMIT = 1 << 63
_ESCAPED = {"%": "%25", ".": "%2E", "$": "%24", "\0": "%00"}
_ESCAPES = str.maketrans(_ESCAPED)


def object_id(text: str) -> ObjectId:
    """Parse an id.

    Raises:
        InvalidRequestError: it is not 24 hex digits.
    """
    key = find_object_id(text)
    if key is None:
        raise InvalidRequestError.invalid_value("id", text, "24 hexadecimal digits")
    return key


def find_object_id(text: str) -> ObjectId | None:
    """Parse an id; None if it is invalid; ids are matched exactly, in lower case."""
    try:
        key = ObjectId(text)
    except (InvalidId, TypeError):
        return None
    return key if str(key) == text else None


def to_document(memory: MemoryRecord) -> Document:
    """Return the document of a memory.

    Raises:
        InvalidRequestError: metadata or structured content contain something that MongoDB cannot store.
    """
    document: Document = {
        "_id": object_id(memory.memory_id),
        "live": memory.deleted_at is None,
        "revision": memory.revision,
        "changed": NOW,
        "text": memory.text,
        "source": memory.source,
        "occurred_at": floor_to_millisecond(memory.occurred_at),
        "created_at": floor_to_millisecond(memory.created_at),
        "updated_at": floor_to_millisecond(memory.updated_at),
        "tags": list(memory.tags),
        "tag_keys": sorted(memory.tag_keys),
        "content_hash": memory.content_hash,
    }
    document |= get_details(memory)
    if memory.owners:
        document["owners"] = encode_value(dict(memory.owners), "owners")
    if memory.metadata:
        document["metadata"] = encode_value(dict(memory.metadata), "metadata")
    if memory.structured is not None:
        document["structured"] = encode_value(memory.structured, "structured")
    if memory.occurrences:
        document["occurrences"] = [floor_to_millisecond(instant) for instant in memory.occurrences]
    if memory.deleted_at is not None:
        document["deleted_at"] = floor_to_millisecond(memory.deleted_at)
        document |= {"pruned": True} if memory.is_pruned else {}
    if memory.embedding is not None:
        document["embedding"] = embedding_to_document(memory.embedding)
    return document


def from_document(document: Mapping[str, Any], scope_id: ScopeId) -> MemoryRecord:
    """Return the memory in a document; fields that were not fetched have their defaults."""
    return MemoryRecord(
        memory_id=MemoryId(str(document["_id"])),
        scope_id=scope_id,
        text=document["text"],
        source=document["source"],
        occurred_at=document["occurred_at"],
        created_at=document["created_at"],
        updated_at=document["updated_at"],
        tags=tuple(document.get("tags", ())),
        owners=decode_value(document.get("owners", {})),
        metadata=decode_value(document.get("metadata", {})),
        structured=decode_value(document.get("structured")),
        occurrences=tuple(document.get("occurrences", ())),
        content_hash=document.get("content_hash", ""),
        revision=int(document["revision"]),
        deleted_at=document.get("deleted_at"),
        is_pruned=bool(document.get("pruned")),
        embedding=_readable_embedding(document.get("embedding")),
        **{field.name: document.get(field.name) for field in DETAILS},
    )


def embedding_to_document(embedding: Embedding) -> Document:
    """Encode vectors as little-endian float32, row by row."""
    return {
        "space": embedding.space,
        "windows": [[window.start, window.end] for window in embedding.windows],
        "vectors": Binary(np.ascontiguousarray(embedding.vectors, dtype="<f4").tobytes()),
    }


def embedding_from_document(document: Mapping[str, Any]) -> Embedding:
    """Decode vectors: float32 of shape ``(windows, dim)``, read-only."""
    windows = tuple(Window(int(start), int(end)) for start, end in document["windows"])
    vectors = np.frombuffer(document["vectors"], dtype="<f4").reshape(len(windows), -1)
    return Embedding(document["space"], windows, vectors)


def _readable_embedding(document: Any) -> Embedding | None:
    """Return the embedding, None also for a damaged one: the memory is then pending and gets new vectors."""
    return embedding_from_document(document) if document is not None and is_embedding(document) else None


def scope_from_document(document: Mapping[str, Any]) -> Scope:
    """Return the scope in a document."""
    return Scope(
        ScopeId(str(document["_id"])),
        document["name"],
        document["description"],
        document["created_at"],
        document.get("archived_at"),
    )


def encode_value(value: Any, field: str, depth: int = 0) -> Any:
    """Encode a JSON-like value losslessly for MongoDB.

    Raises:
        InvalidRequestError: an integer of more than 64 bits, nesting of more than 64 levels, or not JSON; *field* says where.
    """
    if depth > _MAX_DEPTH:
        raise InvalidRequestError(field.split(".", 1)[0], f"nested deeper than {_MAX_DEPTH} levels")
    if isinstance(value, Mapping):
        return {escape_key(key): encode_value(item, f"{field}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [encode_value(item, f"{field}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, int) and not isinstance(value, bool) and not -_INT_LIMIT <= value < _INT_LIMIT:
        raise InvalidRequestError.invalid_value(field, value, "an integer of at most 64 bits")
    if value is None or isinstance(value, str | bool | int | float | bytes | dt.datetime):
        return value
    raise InvalidRequestError(field, f"{truncated_repr(value)} cannot be kept")


def decode_value(value: Any) -> Any:
    """Undo `encode_value`."""
    if isinstance(value, dict):
        return {unescape_key(key): decode_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decode_value(item) for item in value]
    return int(value) if isinstance(value, Int64) else value


def escape_key(key: str) -> str:
    """Percent-encode the characters of a key that MongoDB forbids or interprets."""
    return key.translate(_ESCAPES)


def unescape_key(key: str) -> str:
    """Undo `escape_key`."""
    if "%" in key:
        for plain, escaped in reversed(_ESCAPED.items()):
            key = key.replace(escaped, plain)
    return key
