"""Repair a document from its other fields where possible: folded keys, hashes, dates, flags.

User content is never made up: a memory without its text cannot be repaired. A damaged embedding is dropped, because the model recomputes
it. A memory that may be hidden stays hidden.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections.abc import Callable, Mapping
from typing import Any

import bson
from bson import ObjectId

from infinite_memory.models import DETAILS, content_hash, fold, tag_keys
from infinite_memory.store.document_checks import CLOCK, RESERVED_SCOPE_NAMES, check_document
from infinite_memory.store.document_fields import (
    MAX_CONFIDENCE,
    MAX_DEPTH,
    MAX_TAGS,
    DocumentKind,
    is_embedding,
    is_instant,
    is_int,
    is_number,
    is_object_id,
    is_plain,
    is_revision,
    is_text,
)
from infinite_memory.store.mongo.links import make_link_key

Document = dict[str, Any]


def mend_document(kind: DocumentKind, document: Mapping[str, Any]) -> Document | None:
    """Return a valid document made from *document*; None if that is impossible.

    The returned ``_id`` may differ: a link's is derived from its ends, and a memory whose id is not an ObjectId gets one.
    """
    mended = dict(document)
    mend = _MENDERS.get(kind)
    if mend is not None:
        try:
            mend(mended)
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError):
            return None
    return None if check_document(kind, mended) else mended


def _mend_memory(document: Document) -> None:
    if not is_object_id(document["_id"]):  # an id that nobody could request: it gets a deterministic one
        digest = hashlib.sha256(bson.encode({"": document["_id"]})).digest()
        document["_id"] = ObjectId(digest[:12])
    _mend_instants(document)
    _mend_deletion(document)
    document["revision"] = _revision(document.get("revision"))
    if not is_text(document.get("source")):
        document["source"] = "conversation"
    for name, high in ((detail.name, detail.maximum) for detail in DETAILS if detail.maximum is not None):
        _mend_number(document, name, high)
    metadata = document.get("metadata", {})
    if type(metadata) is not dict or not is_plain(metadata):
        whole = _plain(metadata)
        document["metadata"] = whole if type(whole) is dict else {} if whole is None else {"value": whole}
    if "structured" in document and not is_plain(document["structured"]):
        document["structured"] = _plain(document["structured"])
    if not (document.get("embedding") is None or is_embedding(document["embedding"])):
        del document["embedding"]
    tags = document.get("tags", [])
    if len(tags) <= MAX_TAGS and all(map(is_text, tags)):
        document["tag_keys"] = sorted(tag_keys(tags, document.get("speaker"), document.get("conversation_id")))
    document["content_hash"] = content_hash(document["text"])


def _mend_instants(document: Document) -> None:
    """Fill in missing instants from the others, as a last resort from the one in the id."""
    names = ("created_at", "occurred_at", "updated_at")
    sound = [document[name] for name in names if is_instant(document.get(name))]
    for name in names:
        if not is_instant(document.get(name)):
            document[name] = sound[0] if sound else _time_of_id(document["_id"])
    occurrences = document.get("occurrences")
    if occurrences is not None:
        listed = occurrences if type(occurrences) is list else []
        document["occurrences"] = [instant for instant in listed if is_instant(instant)] or [document["occurred_at"]]


def _mend_deletion(document: Document) -> None:
    deleted_at = document.get("deleted_at")
    if deleted_at is None and document.get("live") is not False:
        document.pop("deleted_at", None)
    elif not is_instant(deleted_at):
        document["deleted_at"] = document["updated_at"]
    document["live"] = "deleted_at" not in document
    if "pruned" in document and type(document["pruned"]) is not bool:
        del document["pruned"]
    if "merged_into" in document and not is_object_id(document["merged_into"]):
        del document["merged_into"]


def _mend_number(document: Document, name: str, high: float) -> None:
    value: Any = document.get(name)
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            value = math.nan
    if (type(value) is float and math.isfinite(value)) or is_int(value):
        document[name] = min(max(value, 0), high)
    else:
        document.pop(name, None)


def _mend_scope(document: Document) -> None:
    name: Any = document.get("name")
    if not is_text(name) or not name.strip():
        document["name"] = f"recovered {document['_id']}"
    elif fold(name) in RESERVED_SCOPE_NAMES:
        document["name"] = f"{name.strip()} {document['_id']}"
    document["name_key"] = fold(document["name"])
    if not is_text(document.get("description")):
        document["description"] = ""
    if not is_instant(document.get("created_at")):
        document["created_at"] = _time_of_id(document["_id"])
    if not is_instant(document.get("archived_at")):
        document["archived_at"] = None
    if type(document.get("dropping")) is not bool:
        document.pop("dropping", None)


def _mend_version(document: Document) -> None:
    inner = mend_document(DocumentKind.MEMORY, {**document["document"], "_id": document["memory_id"]})
    if inner is not None:
        document["document"] = inner


def _mend_fact(document: Document) -> None:
    for name in ("subject", "predicate"):
        document[f"{name}_key"] = fold(document[name])
    document["active"] = document.get("valid_to") is None
    if not is_number(document.get("confidence"), MAX_CONFIDENCE):
        document["confidence"] = 1.0


def _mend_link(document: Document) -> None:
    document["_id"] = make_link_key(str(document["from_id"]), str(document["to_id"]), document["relation"])
    if not is_instant(document.get("created_at")):
        document["created_at"] = _time_of_id(document["from_id"])


def _mend_use(document: Document) -> None:
    if not is_int(document.get("count")) or document["count"] < 0:
        document["count"] = 1
    if "used_at" in document and not is_instant(document["used_at"]):
        del document["used_at"]


def _mend_agent(document: Document) -> None:
    if not is_text(document.get("name")):
        document["name"] = document["_id"]["agent_id"]
    if not is_text(document.get("description")):
        document["description"] = ""


_MENDERS: Mapping[DocumentKind, Callable[[Document], None]] = {
    DocumentKind.MEMORY: _mend_memory,
    DocumentKind.SCOPE: _mend_scope,
    DocumentKind.REVISION: _mend_version,
    DocumentKind.FACT: _mend_fact,
    DocumentKind.LINK: _mend_link,
    DocumentKind.USE: _mend_use,
    DocumentKind.AGENT: _mend_agent,
}


def is_disposable(kind: DocumentKind, document: Mapping[str, Any]) -> bool:
    """True if a document is recreated when missing, so that repairing it means removing it."""
    return (kind is DocumentKind.META and document.get("_id") != CLOCK) or kind is DocumentKind.USE


def _revision(value: Any) -> int:
    if is_revision(value):
        return int(value)
    return int(value) if type(value) is float and value.is_integer() and is_revision(int(value)) else 1


def _plain(value: Any, depth: int = 0) -> Any:
    """Convert values of another program to JSON: non-finite numbers become null; other types and too deeply nested values become text."""
    if type(value) in (dict, list) and depth >= MAX_DEPTH:
        return repr(value)
    if type(value) is dict:
        return {_written(key): _plain(item, depth + 1) for key, item in value.items()}
    if type(value) is list:
        return [_plain(item, depth + 1) for item in value]
    if type(value) is float:
        return value if math.isfinite(value) else None
    if value is None or type(value) is bool or is_int(value):
        return value
    if is_instant(value):
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return _written(value)


def _written(value: Any) -> str:
    """Return any value as text; invalid UTF-8 becomes replacement characters."""
    text = value if isinstance(value, str) else repr(value)
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _time_of_id(key: ObjectId) -> dt.datetime:
    """Return the time in an id; the current time for an id derived from a name, whose time may be in the future."""
    now = dt.datetime.now(dt.UTC).replace(microsecond=0)
    return min(key.generation_time, now)
