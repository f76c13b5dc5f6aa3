"""Validation of stored documents: one check, used wherever documents enter.

A restore, `verify`, an import and every read from MongoDB call `check_document`. It validates a whole decoded document against the
description in `document_fields`, and reports each fault by the field's path and what was expected, never by the value: a value may be a
user's text.

Documents are expected as PyMongo decodes them with aware datetimes, instants beyond Python's as `DatetimeMS`
(``DatetimeConversion.DATETIME_AUTO``) and ill-formed UTF-8 as surrogates (``surrogateescape``), so that they can be checked at all.
`CHECKED_CODEC` decodes this way.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bson import ObjectId
from bson.codec_options import CodecOptions, DatetimeConversion

from infinite_memory.models import content_hash, fold, tag_keys
from infinite_memory.store.document_fields import (
    FIELDS,
    INSTANT,
    DocumentKind,
    Field,
    ListField,
    Test,
    is_bool,
    is_instant,
    is_int,
    is_object_id,
    is_text,
    or_none,
)

__all__ = ["CHECKED_CODEC", "DocumentFault", "DocumentKind", "check_document", "is_readable", "kind_of_collection"]

CHECKED_CODEC: CodecOptions[dict[str, Any]] = CodecOptions(
    tz_aware=True,
    tzinfo=dt.UTC,
    datetime_conversion=DatetimeConversion.DATETIME_AUTO,
    unicode_decode_error_handler="surrogateescape",
)

RESERVED_SCOPE_NAMES = frozenset({"all", "null"})
"""Folded; in requests they mean "every scope" and "no scope"."""

SCHEMA, IDENTITY, CLOCK = "schema", "identity", "clock"
VALUE, LEASE, RESTORE = "value.", "lease.", "restore."
"""Entries of ``meta`` by id, or by id prefix."""

_MEMORIES = re.compile(r"mem_[0-9a-f]{24}")

_COLLECTIONS = {
    "scopes": DocumentKind.SCOPE,
    "revisions": DocumentKind.REVISION,
    "facts": DocumentKind.FACT,
    "links": DocumentKind.LINK,
    "uses": DocumentKind.USE,
    "agents": DocumentKind.AGENT,
    "tokens": DocumentKind.TOKEN,
    "meta": DocumentKind.META,
}


def kind_of_collection(name: str) -> DocumentKind | None:
    """Return the kind of the documents in a collection; None for an unknown collection."""
    return DocumentKind.MEMORY if _MEMORIES.fullmatch(name) else _COLLECTIONS.get(name)


@dataclass(frozen=True, slots=True)
class DocumentFault:
    """An invalid field of a document.

    ``is_mendable``: `document_mending.mend_document` can repair it from the rest of the document. ``is_harmless``: reading repairs it
    implicitly, so the document need not be set aside for it.
    """

    field: str
    expected: str
    is_mendable: bool = False
    is_harmless: bool = False

    def __str__(self) -> str:
        return f"{self.field}: {self.expected} was expected"


_MISSING = object()


def check_document(kind: DocumentKind, document: Mapping[str, Any], *, deep: bool = True) -> list[DocumentFault]:
    """Return the faults of a document; empty if it is valid.

    Args:
        deep: Whether also to compare derived values (folded keys, hashes, ``live``) with their sources. Reads skip this: a derived value of
            the right type is harmless there, and comparing is the slowest part.
    """
    faults = [] if _passes(kind, document) else _field_faults(kind, document)
    if kind is DocumentKind.REVISION and not faults:
        faults += _faults_of_version(document, deep=deep)
    elif kind is DocumentKind.META and not faults:
        faults += _faults_of_meta(document)
    elif kind is DocumentKind.MEMORY and not faults and document["live"] is (document.get("deleted_at") is not None):
        faults.append(DocumentFault("live", "false with deleted_at, else true", is_mendable=True))
    if deep and not faults:
        faults += _stale_fields(kind, document)
    return faults


def is_readable(kind: DocumentKind, document: Mapping[str, Any]) -> bool:
    """True if a document has no faults but harmless ones, which reading repairs implicitly."""
    return all(fault.is_harmless for fault in check_document(kind, document, deep=False))


def _passes(kind: DocumentKind, document: Mapping[str, Any]) -> bool:
    """True if every field passes its test; a separate fast loop, because nearly all documents are valid."""
    get = document.get
    for name, test, is_optional in _TESTS[kind]:
        value = get(name, _MISSING)
        if value is _MISSING:
            if not is_optional:
                return False
        elif not test(value):
            return False
    return True


def _field_faults(kind: DocumentKind, document: Mapping[str, Any]) -> list[DocumentFault]:
    return [fault for field in FIELDS[kind] for fault in _find_faults(field, document)]


def _get_test(field: Field | ListField) -> Test:
    if isinstance(field, Field):
        return field.test
    test, limit = field.test, field.limit
    return lambda value: type(value) is list and (limit is None or len(value) <= limit) and all(map(test, value))


_TESTS = {
    kind: tuple((field.name, _get_test(field), field.is_optional) for field in fields)
    for kind, fields in FIELDS.items()
}


def _find_faults(field: Field | ListField, document: Mapping[str, Any]) -> Iterator[DocumentFault]:
    value = document.get(field.name, _MISSING)
    if value is _MISSING:
        if not field.is_optional:
            yield DocumentFault(field.name, field.expected, field.is_mendable)
    elif isinstance(field, Field):
        if not field.test(value):
            yield DocumentFault(field.name, field.expected, field.is_mendable, field.is_harmless)
    elif type(value) is not list:
        yield DocumentFault(field.name, "a list", field.is_mendable)
    elif field.limit is not None and len(value) > field.limit:
        yield DocumentFault(field.name, f"at most {field.limit:,} entries", field.is_mendable)
    elif (index := next((position for position, item in enumerate(value) if not field.test(item)), None)) is not None:
        yield DocumentFault(f"{field.name}[{index}]", field.expected, field.is_mendable)


def _faults_of_version(document: Mapping[str, Any], *, deep: bool) -> Iterator[DocumentFault]:
    """Return the faults of the memory inside a revision."""
    inner = document["document"]
    for fault in check_document(DocumentKind.MEMORY, inner, deep=deep):
        yield replace(fault, field=f"document.{fault.field}")
    if inner.get("_id") != document["memory_id"]:
        yield DocumentFault("document._id", "the memory's id", is_mendable=True)


def _stale_fields(kind: DocumentKind, document: Mapping[str, Any]) -> Iterator[DocumentFault]:
    """Return the derived fields that differ from what their sources give."""
    if kind is DocumentKind.MEMORY:
        keys = tag_keys(document.get("tags", ()), document.get("speaker"), document.get("conversation_id"))
        if keys != set(document["tag_keys"]) or len(keys) != len(document["tag_keys"]):
            yield DocumentFault("tag_keys", "the folded tags", is_mendable=True, is_harmless=True)
        if document["content_hash"] not in ("", content_hash(document["text"])):
            yield DocumentFault("content_hash", "the hash of the text", is_mendable=True, is_harmless=True)
    elif kind is DocumentKind.SCOPE:
        if fold(document["name"]) in RESERVED_SCOPE_NAMES:
            yield DocumentFault("name", "a name that is not reserved", is_mendable=True, is_harmless=True)
        if document["name_key"] != fold(document["name"]) and not document.get("dropping"):
            yield DocumentFault("name_key", "the folded name", is_mendable=True, is_harmless=True)
    elif kind is DocumentKind.FACT:
        for name in ("subject", "predicate"):
            if document[f"{name}_key"] != fold(document[name]):
                yield DocumentFault(f"{name}_key", "the folded text", is_mendable=True, is_harmless=True)
        if document["active"] is (document.get("valid_to") is not None):
            yield DocumentFault("active", "true without valid_to, else false", is_mendable=True, is_harmless=True)


_VALUES: Mapping[str, Mapping[str, Test]] = {
    "last_backup": {"at": is_text},
    "embedding": {"space": is_text},
}
_JOB_INSTANTS = ("done_until", "last_run_at", "last_ok_at")
_STATES = ("staging", "committing")


def _faults_of_meta(document: Mapping[str, Any]) -> Iterator[DocumentFault]:
    """Return the faults of an entry of ``meta``, by the kind that its id names."""
    key: str = document["_id"]
    if key == SCHEMA:
        if not is_int(document.get("version")) or not 0 <= document["version"] < 1 << 63:
            yield DocumentFault("version", "the number of a schema version", is_mendable=True)
    elif key == IDENTITY:
        if not is_text(document.get("value")) or not document["value"]:
            yield DocumentFault("value", "a text", is_mendable=True)
    elif key.startswith(VALUE):
        yield from _faults_of_value(key.removeprefix(VALUE), document.get("value"))
    elif key.startswith(LEASE):
        for name, test, expected in (("holder", is_text, "a text"), ("until", is_instant, INSTANT)):
            if not test(document.get(name)):
                yield DocumentFault(name, expected, is_mendable=True)
    elif key.startswith(RESTORE):
        yield from _faults_of_journal(key.removeprefix(RESTORE), document)


def _faults_of_value(key: str, value: Any) -> Iterator[DocumentFault]:
    if type(value) is not dict:
        yield DocumentFault("value", "an object", is_mendable=True)
        return
    for name, test in _VALUES.get(key, {}).items():
        if not test(value.get(name)):
            yield DocumentFault(f"value.{name}", "a text", is_mendable=True)
    if key.startswith("job."):
        for name in _JOB_INSTANTS:
            if not or_none(is_instant)(value.get(name)):
                yield DocumentFault(f"value.{name}", INSTANT, is_mendable=True)
        for name in ("said", "failure"):
            if not or_none(is_text)(value.get(name)):
                yield DocumentFault(f"value.{name}", "a text or nothing", is_mendable=True)


def _faults_of_journal(key: str, document: Mapping[str, Any]) -> Iterator[DocumentFault]:
    if not ObjectId.is_valid(key):
        yield DocumentFault("_id", "restore. and an id")
    if document.get("state") not in _STATES:
        yield DocumentFault("state", " or ".join(_STATES))
    if not is_instant(document.get("at")):
        yield DocumentFault("at", INSTANT)
    if "pid" in document and not (is_int(document["pid"]) and 0 <= document["pid"] <= _MAX_PID):
        yield DocumentFault("pid", "the id of a process")
    steps = document.get("steps")
    if document.get("state") == "committing" and not (type(steps) is list and all(map(_is_step, steps))):
        yield DocumentFault("steps", "a list of steps")
    if "closed" in document and not is_bool(document["closed"]):
        yield DocumentFault("closed", "true or false")


_MAX_PID = (1 << 31) - 1
_STEPS: Mapping[str, Mapping[str, Test]] = {
    "rename": {"from": is_text, "to": is_text},
    "merge": {"from": is_text, "to": is_text},
    "place": {"prefix": is_text, "scope": is_object_id, "is_new": is_bool, "alone": is_bool},
    "values": {"from": is_text, "replace": is_bool},
    "pour": {"from": is_text, "to": is_text, "mark": is_object_id},
    "take_out_removed": {"to": is_object_id, "mark": is_object_id},
    "rescope": {"from": is_object_id, "to": is_object_id},
    "move": {"memory": is_object_id, "from": is_object_id, "to": is_object_id},
    "drop_scope": {"scope": is_object_id},
    "drop": {"name": is_text},
    "mend_meta": {},
    "schema": {"version": is_int},
}
"""The fields of each kind of journalled step."""


def _is_step(step: Any) -> bool:
    if type(step) is not dict or not isinstance(step.get("do"), str) or step["do"] not in _STEPS:
        return False
    return all(test(step.get(name)) for name, test in _STEPS[step["do"]].items())
