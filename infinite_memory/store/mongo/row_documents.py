"""Read the sidecar's fields from documents in bulk: column by column, because a start reads a million of them.

They are validated column by column too: the types of a whole column are compared at once. Only if that fails is each document checked
individually.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from bson import Int64, ObjectId
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.datetime_ms import DatetimeMS

from infinite_memory.models import FIELDS, FILTERED, FILTERED_NUMBERS, FILTERED_TEXTS, IndexBatch, ScopeId
from infinite_memory.store.document_fields import (
    MAX_REVISION,
    MAX_TAGS,
    is_embedding,
    is_text,
)

Document = dict[str, Any]

ROW_SHAPE = dict.fromkeys(("_id", "revision", "occurred_at", "created_at", "tag_keys", *FILTERED, "embedding"), 1)
"""The fields that `read_rows` reads."""

_NO_ARRAY = {"$not": {"$type": "array"}}
ROW_QUERY: Mapping[str, Any] = {
    "live": True,
    "text": {"$type": "string", **_NO_ARRAY},
    "updated_at": {"$type": "date", **_NO_ARRAY},
    "content_hash": {"$type": "string", **_NO_ARRAY},
    "tags": {"$not": {"$elemMatch": {"$not": {"$type": "string"}}}},
}
"""Makes the server omit documents with faults in fields that are not sent; it reads them anyway."""

ROW_CODEC: CodecOptions[Document] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_MS, unicode_decode_error_handler="surrogateescape"
)
"""Codec for them: decoding a time as a plain number takes a third of what an aware datetime takes."""

_MIN_MS, _MAX_MS = -62_135_596_800_000, 253_402_300_799_999  # years 1 to 9999
_INTEGERS: set[type] = {int, Int64}
_TEXT_OR_NONE: set[type] = {str, type(None)}
_NUMBER_OR_NONE: set[type] = {float, int, Int64, type(None)}
_NO_EMBEDDING: Mapping[str, Any] = {"space": None, "windows": (), "vectors": b""}
_EMBEDDING_TYPES = {(str, list, bytes), (type(None), tuple, bytes)}


@dataclass(frozen=True, slots=True)
class RowPage:
    """Result of reading a page: the rows of valid documents, and the ids of the others."""

    rows: IndexBatch
    unsound: Sequence[Any]


def read_rows(page: Sequence[Mapping[str, Any]], scope_id: ScopeId) -> RowPage:
    """Read documents of `ROW_SHAPE`, decoded with `ROW_CODEC`."""
    if (rows := _rows(page, scope_id)) is not None:
        return RowPage(rows, ())
    sound = [document for document in page if _rows([document], scope_id) is not None]
    sound_ids = {id(document) for document in sound}
    unsound = [document.get("_id") for document in page if id(document) not in sound_ids]
    whole = _rows(sound, scope_id)
    assert whole is not None, "documents that are sound alone are sound together"
    return RowPage(whole, unsound)


def _rows(page: Sequence[Mapping[str, Any]], scope_id: ScopeId) -> IndexBatch | None:
    """Return the rows of documents; None if one of them is invalid."""
    columns: dict[str, list[Any]] = {name: [document.get(name) for document in page] for name in ROW_SHAPE}
    if not _have_types(columns):
        return None
    for name in ("occurred_at", "created_at"):
        columns[name] = list(map(int, columns[name]))
    if not (_are_in_range(columns) and _are_texts(columns)):
        return None
    embeddings = _embeddings(columns["embedding"])
    return IndexBatch(
        keys=[key.binary for key in columns["_id"]],
        scope_ids=[scope_id] * len(page),
        revisions=columns["revision"],
        occurred_ms=columns["occurred_at"],
        created_ms=columns["created_at"],
        tag_keys=columns["tag_keys"],
        values={name: columns[name] for name in FILTERED_TEXTS}
        | {name: [math.nan if value is None else value for value in columns[name]] for name in FILTERED_NUMBERS},
        spaces=[embedding["space"] for embedding in embeddings],
        windows=[len(embedding["windows"]) for embedding in embeddings],
        vectors=[embedding["vectors"] for embedding in embeddings],
    )


_COLUMN_TYPES: Mapping[str, set[type]] = {
    "_id": {ObjectId},
    "revision": _INTEGERS,
    "occurred_at": {DatetimeMS},
    "created_at": {DatetimeMS},
    "tag_keys": {list},
    **dict.fromkeys(FILTERED_TEXTS, _TEXT_OR_NONE),
    **{name: _NUMBER_OR_NONE for name in FILTERED_NUMBERS},
    "source": {str},
}


def _have_types(columns: Mapping[str, list[Any]]) -> bool:
    return all(set(map(type, columns[name])) <= types for name, types in _COLUMN_TYPES.items())


def _are_in_range(columns: Mapping[str, list[Any]]) -> bool:
    revisions = columns["revision"]
    if revisions and not (min(revisions) >= 1 and max(revisions) <= MAX_REVISION):
        return False
    for name in ("occurred_at", "created_at"):
        instants = columns[name]
        if instants and not (min(instants) >= _MIN_MS and max(instants) <= _MAX_MS):
            return False
    for name in FILTERED_NUMBERS:
        numbers = np.array([value for value in columns[name] if value is not None], np.float64)
        if not ((numbers >= 0) & (numbers <= (FIELDS[name].maximum or math.inf))).all():
            return False
    keys = columns["tag_keys"]
    if max(map(len, keys), default=0) > 2 * MAX_TAGS:
        return False
    try:
        return sum(map(len, map(set, keys))) == sum(map(len, keys))  # no duplicate keys
    except TypeError:  # not even strings
        return False


def _are_texts(columns: Mapping[str, list[Any]]) -> bool:
    keys = list(chain.from_iterable(columns["tag_keys"]))
    if not set(map(type, keys)) <= {str}:
        return False
    return is_text(
        "".join(chain(keys, (text for name in FILTERED_TEXTS for text in columns[name] if text is not None)))
    )


def _embeddings(documents: Sequence[Any]) -> Sequence[Mapping[str, Any]]:
    """Return the embeddings, with an empty one instead of any of the wrong shape."""
    embeddings = [_NO_EMBEDDING if document is None else document for document in documents]
    try:
        types = {
            (type(embedding["space"]), type(embedding["windows"]), type(embedding["vectors"]))
            for embedding in embeddings
        }
    except (TypeError, KeyError):
        types = {(object, object, object)}
    if types <= _EMBEDDING_TYPES:
        return embeddings
    return [embedding if is_embedding(embedding) else _NO_EMBEDDING for embedding in embeddings]
