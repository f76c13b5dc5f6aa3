"""Sound documents of every kind, and a strategy that spoils one field of one of them: for the database and for backups."""

from __future__ import annotations

import copy
import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS
from hypothesis import strategies as st

from infinite_memory.models import content_hash, tag_keys
from infinite_memory.store.document_fields import DocumentKind
from infinite_memory.store.mongo.links import make_link_key

Document = dict[str, Any]
Path = tuple[str | int, ...]

AT = dt.datetime(2026, 3, 14, 15, 9, 26, 535000, tzinfo=dt.UTC)
DIM = 384
SPACE = "all-MiniLM-L6-v2/384/fp32"


def sound_memory(key: ObjectId | None = None, text: str = "Ada drinks tea") -> Document:
    """Build a memory that has every field."""
    vector = np.ones((2, DIM), dtype="<f4") / np.sqrt(DIM)
    tags = ["Tea", "home"]
    return {
        "_id": key or ObjectId(),
        "live": True,
        "revision": 3,
        "changed": Timestamp(1795878060, 1),
        "text": text,
        "source": "conversation",
        "occurred_at": AT,
        "created_at": AT,
        "updated_at": AT,
        "tags": tags,
        "tag_keys": sorted(tag_keys(tags, "Ada", "kitchen")),
        "content_hash": content_hash(text),
        "type": "note",
        "title": "Drinks",
        "importance": 8.5,
        "confidence": 0.5,
        "status": "active",
        "speaker": "Ada",
        "conversation_id": "kitchen",
        "owners": {"user_id": "u1", "agent_id": "a1"},
        "metadata": {"a": [1, 2.5, None, {"deep": True}], "big": Int64(1 << 40)},
        "structured": {"what": ["tea"]},
        "occurrences": [AT],
        "embedding": {"space": SPACE, "windows": [[0, 5], [5, 10]], "vectors": Binary(vector.tobytes())},
    }


def sound_document(kind: DocumentKind, scope_id: ObjectId) -> Document:
    """Build a sound document of a kind that belongs to a scope."""
    first, second = ObjectId(), ObjectId()
    if kind is DocumentKind.MEMORY:
        return sound_memory()
    if kind is DocumentKind.REVISION:
        inner = sound_memory(first)
        del inner["embedding"]
        return {"_id": second, "scope_id": scope_id, "memory_id": first, "revision": 3, "document": inner}
    return {
        DocumentKind.SCOPE: {
            "_id": first, "name": f"Work {first}", "name_key": f"work {first}", "description": "d", "created_at": AT,
            "archived_at": None, "indexes": "2",
        },
        DocumentKind.FACT: {
            "_id": first, "scope_id": scope_id, "subject": "Ada", "subject_key": "ada", "predicate": f"p{first}",
            "predicate_key": f"p{first}", "object": "tea", "active": True, "valid_from": AT, "confidence": 1.0,
            "provenance": None,
        },
        DocumentKind.LINK: {
            "_id": make_link_key(str(first), str(second), "supports"), "scope_id": scope_id, "from_id": first,
            "to_id": second, "relation": "supports", "created_at": AT,
        },
        DocumentKind.USE: {"_id": first, "scope_id": scope_id, "count": 3, "used_at": AT},
        DocumentKind.AGENT: {
            "_id": {"user_id": "u1", "agent_id": f"agent {first}"}, "name": "n", "description": "d", "created_at": AT,
        },
        DocumentKind.TOKEN: {
            "_id": str(first), "name": "n", "secret_hash": "0" * 64, "created_at": AT, "users": ["u1"], "scopes": ["Work"],
            "read_only": False, "expires_at": None,
        },
        DocumentKind.META: {"_id": f"value.job.{first}", "value": {"done_until": AT, "said": "done", "failure": None}},
    }[kind]  # fmt: skip


MISSING = object()
"""Stands for a field that is taken away."""


@dataclass(frozen=True)
class Spoiling:
    """One change to a document: the value at ``path`` becomes ``value``, or goes (`MISSING`)."""

    kind: DocumentKind
    path: Path
    value: Any

    def apply(self, document: Document) -> Document:
        """Return a changed copy of *document*."""
        changed = copy.deepcopy(document)
        *way, last = self.path
        place: Any = changed
        for step in way:
            place = place[step]
        if self.value is MISSING:
            del place[last]
        else:
            place[last] = self.value
        return changed


def paths(value: Any, before: Path = ()) -> Iterator[Path]:
    """List the path of every field and entry below *value*."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        yield (*before, key)
        yield from paths(item, (*before, key))


def _nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"a": value}
    return value


VALUES: list[Any] = [
    MISSING, None, True, False, 0, 1, -1, 3, Int64(2**62), Int64(2**63 - 1), Int64(-(2**63)), 2.0, 0.5, 99.5, -0.5,
    float("nan"), float("inf"), float("-inf"), 1e308, "", "x", "5", "true", "2026-01-01T00:00:00Z", "\0", "ALL", "null",
    "0" * 64, "z" * 64, "é" * 300, b"", b"abc", b"\0" * (DIM * 4), Binary(b"x", 4), AT, dt.datetime(1, 1, 1, tzinfo=dt.UTC),
    dt.datetime(9999, 12, 31, 23, 59, 59, tzinfo=dt.UTC), DatetimeMS(253402300800000), DatetimeMS(2**62), DatetimeMS(-(2**62)),
    ObjectId("6b0aeca7f7bf5728b4451c9f"), Timestamp(1, 1), Decimal128("1.5"), Regex("a"), Code("x"), MinKey(), MaxKey(), [], {},
    ["x"], [1], [None], [["x"]], [AT], [True], [True, False], ["x"] * 70_000, {"a": 1}, {"$gt": 1}, _nested(60), _nested(90),
    [[0, 5]], [[5, 0]], [[-1, 5]], [["0", "5"]], [[0]],
]  # fmt: skip
"""What another program, or a damaged file, may hold in the place of any field."""


def spoilings(kind: DocumentKind, *, with_id: bool = True) -> st.SearchStrategy[Spoiling]:
    """Choose a field of a kind of document, at any depth, and what becomes of it.

    Args:
        with_id: Whether ``_id`` may be changed too; it is never taken away, for MongoDB would make one.
    """
    every = [path for path in paths(sound_document(kind, ObjectId())) if with_id or path != ("_id",)]

    def of(path: Path) -> st.SearchStrategy[Spoiling]:
        # MongoDB itself refuses arrays and regular expressions there.
        values = [one for one in VALUES if path != ("_id",) or not (one is MISSING or isinstance(one, list | Regex))]
        drawn = (
            st.sampled_from(values) | st.integers(-(2**63), 2**63 - 1).map(Int64) | st.floats() | st.text(max_size=20)
        )
        return drawn.map(lambda value: Spoiling(kind, path, value))

    return st.sampled_from(every).flatmap(of)
