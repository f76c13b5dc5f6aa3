"""The fields of each kind of stored document, and the valid values of each.

Limits are those of MongoDB and this program, not the session's settings: what was stored under larger settings must stay readable. Unknown
fields are accepted, because a later version may have written them.
"""

from __future__ import annotations

import datetime as dt
import enum
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from bson import Int64, ObjectId

from infinite_memory.models import DETAILS, FieldType

MAX_REVISION = 1 << 62
"""Half of the 64-bit range: a revision must have room to grow."""

MAX_DEPTH = 64
"""Levels of metadata and structured content; see `mongo.mapping.encode_value`."""

MAX_TAGS = 65_536
MAX_DIM = 65_536
MAX_OFFSET = 1 << 24
"""Above every offset into a text: no document is larger than 16 MiB."""

MAX_NAME_CHARS = 65_536
MAX_CONFIDENCE = 1.0

_INT64 = 1 << 63
_LINK_ID = re.compile(r"[0-9a-f]{64}")


class DocumentKind(enum.Enum):
    """The kinds of documents that are stored."""

    SCOPE = "scope"
    MEMORY = "memory"
    REVISION = "revision"
    FACT = "fact"
    LINK = "link"
    USE = "use"
    AGENT = "agent"
    TOKEN = "token"
    META = "meta"


Test = Callable[[Any], bool]


def is_text(value: Any) -> bool:
    """True if *value* is a string that can be encoded as UTF-8."""
    if type(value) is not str:
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_int(value: Any) -> bool:
    """True if *value* is an integer and not a bool."""
    return type(value) is int or type(value) is Int64


def is_number(value: Any, high: float) -> bool:
    """True if *value* is a number from 0 to *high*."""
    return (type(value) is float or is_int(value)) and bool(0 <= value <= high)


def is_instant(value: Any) -> bool:
    """True if *value* is an aware datetime in the years 1 to 9999."""
    return type(value) is dt.datetime and value.tzinfo is not None


def is_object_id(value: Any) -> bool:
    """True if *value* is an ObjectId (12 bytes)."""
    return type(value) is ObjectId


def is_revision(value: Any) -> bool:
    """True if *value* is at least 1 and has room to grow."""
    return is_int(value) and 1 <= value <= MAX_REVISION


def is_plain(value: Any, depth: int = 0) -> bool:
    """True if *value* is representable in JSON, at most `MAX_DEPTH` levels deep."""
    kind = type(value)
    if kind is str:
        return is_text(value)
    if value is None or kind is bool:
        return True
    if kind is float:
        return math.isfinite(value)
    if kind is int or kind is Int64:
        return bool(-_INT64 <= value < _INT64)
    if depth >= MAX_DEPTH + 1:
        return False
    if kind is dict:
        return all(is_text(key) and is_plain(item, depth + 1) for key, item in value.items())
    return kind is list and all(is_plain(item, depth + 1) for item in value)


def is_embedding(value: Any) -> bool:
    """True if *value* holds a vector of finite numbers for each of its windows."""
    if type(value) is not dict:
        return False
    windows, vectors, space = value.get("windows"), value.get("vectors"), value.get("space")
    if not is_text(space) or type(windows) is not list or not windows or type(vectors) is not bytes:
        return False
    row_bytes, rest = divmod(len(vectors), len(windows))
    if rest or row_bytes % 4 or not 4 <= row_bytes <= 4 * MAX_DIM:
        return False
    if not all(_is_window(window) for window in windows):
        return False
    return bool(np.isfinite(np.frombuffer(vectors, dtype="<f4")).all())


def _is_window(value: Any) -> bool:
    if type(value) is not list or len(value) != 2 or not (is_int(value[0]) and is_int(value[1])):
        return False
    return bool(0 <= value[0] <= value[1] <= MAX_OFFSET)


def is_bool(value: Any) -> bool:
    """True if *value* is a bool."""
    return type(value) is bool


def _is_name(value: Any) -> bool:
    return is_text(value) and len(value.strip()) > 0 and len(value) <= MAX_NAME_CHARS


def _is_owners(value: Any) -> bool:
    return type(value) is dict and all(is_text(key) and is_text(item) for key, item in value.items())


def _is_plain_object(value: Any) -> bool:
    return type(value) is dict and is_plain(value)


def _is_agent_key(value: Any) -> bool:
    return type(value) is dict and is_text(value.get("agent_id")) and or_none(is_text)(value.get("user_id"))


def _is_ids_or_none(value: Any) -> bool:
    return value is None or (type(value) is list and all(map(is_object_id, value)))


def or_none(test: Test) -> Test:
    return lambda value: value is None or test(value)


def _up_to(high: float) -> Test:
    return lambda value: value is None or is_number(value, high)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a document. Where ``is_optional`` it may be missing; ``is_mendable`` as in `DocumentFault`."""

    name: str
    test: Test
    expected: str
    is_mendable: bool = False
    is_optional: bool = False
    is_harmless: bool = False


@dataclass(frozen=True, slots=True)
class ListField:
    """A list of at most ``limit`` entries, each of which passes ``test``."""

    name: str
    test: Test
    expected: str
    limit: int | None = None
    is_mendable: bool = False
    is_optional: bool = False


_ID = Field("_id", is_object_id, "an ObjectId")
_SCOPE_ID = Field("scope_id", is_object_id, "an ObjectId")
_TEXT, _TEXT_OR_NULL = "a text", "a text or nothing"
INSTANT = "a date of the years 1 to 9999"
_REVISION = f"an integer from 1 to {MAX_REVISION}"

_OF_MEMORY: tuple[Field | ListField, ...] = (
    Field("_id", is_object_id, "an ObjectId", is_mendable=True),
    Field("text", is_text, _TEXT),
    Field("live", is_bool, "true or false", is_mendable=True),
    Field("revision", is_revision, _REVISION, is_mendable=True),
    Field("source", is_text, _TEXT, is_mendable=True),
    Field("occurred_at", is_instant, INSTANT, is_mendable=True),
    Field("created_at", is_instant, INSTANT, is_mendable=True),
    Field("updated_at", is_instant, INSTANT, is_mendable=True),
    ListField("tags", is_text, _TEXT, MAX_TAGS, is_optional=True),
    ListField("tag_keys", is_text, _TEXT, 2 * MAX_TAGS, is_mendable=True),
    Field("content_hash", is_text, "the hash of the text", is_mendable=True),
    *(
        Field(detail.name, or_none(is_text), _TEXT_OR_NULL, is_optional=True)
        for detail in DETAILS
        if detail.type is FieldType.TEXT
    ),
    *(
        Field(
            detail.name,
            _up_to(detail.maximum),
            f"a number from 0 to {detail.maximum:g}",
            is_mendable=True,
            is_optional=True,
        )
        for detail in DETAILS
        if detail.maximum is not None
    ),
    Field("owners", _is_owners, "an object of texts", is_optional=True),
    Field("metadata", _is_plain_object, "an object of JSON values", is_mendable=True, is_optional=True),
    Field("structured", is_plain, "a JSON value", is_mendable=True, is_optional=True),
    ListField("occurrences", is_instant, INSTANT, is_mendable=True, is_optional=True),
    Field("deleted_at", or_none(is_instant), INSTANT, is_mendable=True, is_optional=True),
    Field("pruned", is_bool, "true or false", is_mendable=True, is_optional=True),
    Field("merged_into", is_object_id, "an ObjectId", is_mendable=True, is_optional=True),
    Field(
        "embedding",
        lambda value: value is None or is_embedding(value),
        "a vector of finite numbers for each window",
        is_mendable=True,
        is_optional=True,
        is_harmless=True,
    ),
)

FIELDS: Mapping[DocumentKind, tuple[Field | ListField, ...]] = {
    DocumentKind.SCOPE: (
        _ID,
        Field("name", _is_name, "a name that is not blank", is_mendable=True),
        Field("name_key", is_text, "the folded name", is_mendable=True),
        Field("description", is_text, _TEXT, is_mendable=True),
        Field("created_at", is_instant, INSTANT, is_mendable=True),
        Field("archived_at", or_none(is_instant), INSTANT, is_mendable=True, is_optional=True),
        Field("dropping", is_bool, "true or false", is_mendable=True, is_optional=True),
    ),
    DocumentKind.MEMORY: _OF_MEMORY,
    DocumentKind.REVISION: (
        _ID,
        _SCOPE_ID,
        Field("memory_id", is_object_id, "an ObjectId"),
        Field("revision", is_revision, _REVISION),
        Field("document", lambda value: type(value) is dict, "a memory"),
        Field("moved_from", is_object_id, "an ObjectId", is_optional=True),
        Field("moved_at", is_instant, INSTANT, is_optional=True),
    ),
    DocumentKind.FACT: (
        _ID,
        _SCOPE_ID,
        *(Field(name, is_text, _TEXT) for name in ("subject", "predicate", "object")),
        *(Field(name, is_text, "the folded text", is_mendable=True) for name in ("subject_key", "predicate_key")),
        Field("active", is_bool, "true or false", is_mendable=True),
        Field("valid_from", is_instant, INSTANT),
        Field("valid_to", or_none(is_instant), INSTANT, is_optional=True),
        Field("confidence", lambda value: is_number(value, MAX_CONFIDENCE), "a number from 0 to 1", is_mendable=True),
        Field("provenance", or_none(is_text), _TEXT_OR_NULL, is_optional=True),
    ),
    DocumentKind.LINK: (
        Field(
            "_id",
            lambda value: type(value) is str and _LINK_ID.fullmatch(value) is not None,
            "a SHA-256 in hexadecimal",
            is_mendable=True,
        ),
        _SCOPE_ID,
        Field("from_id", is_object_id, "an ObjectId"),
        Field("to_id", is_object_id, "an ObjectId"),
        Field("relation", is_text, _TEXT),
        Field("created_at", is_instant, INSTANT, is_mendable=True),
    ),
    DocumentKind.USE: (
        _ID,
        _SCOPE_ID,
        Field("count", lambda value: is_int(value) and 0 <= value <= MAX_REVISION, "a count", is_mendable=True),
        Field("used_at", is_instant, INSTANT, is_optional=True, is_mendable=True),
    ),
    DocumentKind.AGENT: (
        Field("_id", _is_agent_key, "an object of agent_id and user_id"),
        Field("name", is_text, _TEXT, is_mendable=True),
        Field("description", is_text, _TEXT, is_mendable=True),
        Field("created_at", is_instant, INSTANT),
    ),
    DocumentKind.TOKEN: (
        Field("_id", is_text, _TEXT),
        Field("name", is_text, _TEXT),
        Field("secret_hash", lambda value: type(value) is str and _LINK_ID.fullmatch(value) is not None, "a SHA-256"),
        Field("created_at", is_instant, INSTANT),
        ListField("users", is_text, _TEXT),
        ListField("scopes", is_text, _TEXT),
        Field("scope_ids", _is_ids_or_none, "a list of ObjectIds or nothing", is_optional=True),
        Field("read_only", is_bool, "true or false"),
        Field("metrics_only", is_bool, "true or false", is_optional=True),
        Field("expires_at", or_none(is_instant), INSTANT),
    ),
    DocumentKind.META: (Field("_id", is_text, _TEXT),),
}
