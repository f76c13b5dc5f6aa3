"""Validation of incoming memories: whether one can be stored, under which id, and as which record."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from infinite_memory.errors import InvalidRequestError, check_printable
from infinite_memory.models import (
    DETAILS,
    MAX_MEMORY_TAGS,
    FieldType,
    MemoryId,
    MemoryRecord,
    ScopeId,
    content_hash,
    floor_to_millisecond,
    get_details,
    tag_key,
)
from infinite_memory.settings import LimitsSettings
from infinite_memory.transfer.formats import (
    Entry,
    Incoming,
    IncomingFact,
    IncomingLink,
    IncomingScope,
    IncomingVersion,
    Refused,
    is_our_id,
)
from infinite_memory.transfer.formats.reading import UNREADABLE, log_failure

MAX_BYTES = 8 << 20  # of one memory with all its fields: half of MongoDB's document limit
MAX_LEVELS = 50  # of nesting; the store allows a few more, because it adds levels of its own
MAX_NAME_CHARS = 256  # of a scope's name
MAX_LABEL_CHARS = 10_000  # of a title, speaker or the like: a page, and far from what an index of the database refuses
MAX_TIMES = 10_000  # of one memory; they are stored in its document
_INT64 = 1 << 63
_LABELS = (*(field.name for field in DETAILS if field.type is FieldType.TEXT), "source")


@dataclass(frozen=True, slots=True)
class Admitted:
    """A valid memory: its id, the ids that earlier releases gave it, and its content hash.

    ``other_id`` is its id if its key belongs to another memory already; None if it has one of our ids.
    """

    memory_id: MemoryId
    memory: Incoming
    content_hash: str
    former_ids: tuple[MemoryId, ...] = ()
    other_id: MemoryId | None = None


def admit(entry: Entry, limits: LimitsSettings) -> Entry | Admitted:
    """Validate an entry against the limits of everything that is stored. Slow for large texts: call it in a thread.

    An entry with a field of an unexpected type is skipped by itself.
    """
    try:
        return _admit(entry, limits)
    except MemoryError:
        raise
    except Exception as exc:
        log_failure(exc)
        return Refused(getattr(entry, "where", "") or "an entry", UNREADABLE)


def _admit(entry: Entry, limits: LimitsSettings) -> Entry | Admitted:
    if isinstance(entry, Incoming):
        if (fault := find_fault(entry, limits)) is not None:
            return Refused(entry.where, fault)
        hashed = content_hash(entry.text)
        return Admitted(make_id(entry), entry, hashed, make_former_ids(entry), make_other_id(entry, hashed))
    if isinstance(entry, IncomingVersion):
        fault = find_fault(entry.memory, limits)
        return entry if fault is None else Refused(entry.memory.where, fault)
    if isinstance(entry, IncomingScope):
        fault = _fault_of_texts({"name": entry.name, "description": entry.description}, limits)
        return entry if fault is None else Refused("a scope", fault)
    if isinstance(entry, IncomingFact):
        texts = {
            "subject": entry.subject,
            "predicate": entry.predicate,
            "object": entry.object,
            "provenance": entry.provenance,
        }
        fault = _fault_of_texts(texts, limits)
        if fault is None and not 0 <= entry.confidence <= 1:
            fault = "its confidence is not from 0 to 1"
        if fault is None and entry.valid_to is not None and entry.valid_to < entry.valid_from:
            fault = "it ends before it begins"
        return entry if fault is None else Refused(f"fact {entry.fact_id}", fault)
    if isinstance(entry, IncomingLink):
        fault = _fault_of_texts({"relation": entry.relation}, limits)
        return entry if fault is None else Refused(f"link from {entry.from_id} to {entry.to_id}", fault)
    return entry


def make_id(incoming: Incoming) -> MemoryId:
    """Return the stable id of an incoming memory: ours, or one derived from its key and time."""
    if incoming.memory_id is not None and is_our_id(incoming.memory_id):
        return MemoryId(incoming.memory_id)
    return _made_id(incoming.key, None if incoming.is_undated else incoming.occurred_at)


def make_former_ids(incoming: Incoming) -> tuple[MemoryId, ...]:
    """Return the ids under which version 0.1.0 stored it: that release used the file's time for an undated note."""
    return (_made_id(incoming.key, incoming.occurred_at),) if incoming.is_undated and incoming.occurred_at else ()


def make_other_id(incoming: Incoming, text_hash: str) -> MemoryId | None:
    """Return the id of an incoming memory whose key is taken: its text is part of it. None if it has one of our ids."""
    if incoming.memory_id is not None and is_our_id(incoming.memory_id):
        return None
    return _made_id(f"{incoming.key}\0{text_hash}", None if incoming.is_undated else incoming.occurred_at)


def _made_id(key: str, occurred_at: dt.datetime | None) -> MemoryId:
    seconds = int(occurred_at.timestamp()) if occurred_at else 0
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()
    return MemoryId((min(max(seconds, 0), 0xFFFFFFFF).to_bytes(4, "big") + digest[:8]).hex())


def find_fault(incoming: Incoming, limits: LimitsSettings) -> str | None:
    """Return why a memory cannot be stored, without quoting it; None if it can."""
    if not incoming.text.strip():
        return "has no text"
    for described in DETAILS:
        value, maximum = getattr(incoming, described.name), described.maximum
        if value is not None and maximum is not None and not 0 <= value <= maximum:
            return f"its {described.name} is {value:g}, from 0 to {maximum:g} was expected"
    try:
        size = len(incoming.text.encode())
        labels = {name: getattr(incoming, name) for name in _LABELS}
        about = (incoming.scope, incoming.tags, incoming.owners, incoming.structured, *labels.values())
        _check_storable((about, incoming.metadata), 0)
        metadata = len(json.dumps(incoming.metadata, ensure_ascii=False, default=str).encode())
        total = size + metadata + len(json.dumps(about, ensure_ascii=False, default=str).encode())
        depth = _measure_depth(incoming.metadata)
    except UnicodeEncodeError:
        return "is no valid text"
    except ValueError as exc:
        return str(exc)
    for name, value in labels.items():
        if value is not None and len(value) > MAX_LABEL_CHARS:
            return f"its {name} has {len(value):,} characters, the limit is {MAX_LABEL_CHARS:,}"
    for fault, number, limit in (
        (f"its text has {size:,} bytes", size, limits.text_bytes),
        (f"its metadata has {metadata:,} bytes", metadata, limits.metadata_bytes),
        (f"its metadata has {depth:,} levels", depth, limits.metadata_depth),
        (f"it has {total:,} bytes", total, MAX_BYTES),
        (f"it has {len(incoming.occurrences):,} times", len(incoming.occurrences), MAX_TIMES),
    ):
        if number > limit:
            return f"{fault}, the limit is {limit:,}"
    return _fault_of_tags(incoming.tags, limits)


def _fault_of_tags(tags: Sequence[str], limits: LimitsSettings) -> str | None:
    if (count := len({tag_key(tag) for tag in tags})) > MAX_MEMORY_TAGS:  # merged memories unite the tags of many
        return f"it has {count:,} tags, the limit is {MAX_MEMORY_TAGS:,}"
    for tag in tags:
        if len(tag) > limits.tag_chars:
            return f"one of its tags has {len(tag):,} characters, the limit is {limits.tag_chars:,}"
    return None


def fault_of_name(name: str) -> str | None:
    """Return why a scope name is invalid; None if it is valid."""
    if not name or len(name) > MAX_NAME_CHARS:
        return f"its scope has a name of {len(name):,} characters, 1 to {MAX_NAME_CHARS} were expected"
    try:
        name.encode()
    except UnicodeEncodeError:
        return "its scope has a name that is no valid text"
    try:
        check_printable(name, "scope")
    except InvalidRequestError:
        return "its scope has a name with control characters"
    return None


def _fault_of_texts(texts: Mapping[str, str | None], limits: LimitsSettings) -> str | None:
    for name, text in texts.items():
        if text is None:
            continue
        try:
            text.encode()
        except UnicodeEncodeError:
            return f"its {name} is no valid text"
        if len(text) > limits.query_chars:
            return f"its {name} has {len(text):,} characters, the limit is {limits.query_chars:,}"
    return None


def _distinct(tags: Sequence[str]) -> tuple[str, ...]:
    """Drop tags that differ from an earlier one in case only, as storing does."""
    by_key: dict[str, str] = {}
    for tag in tags:
        by_key.setdefault(tag_key(tag), tag)
    return tuple(by_key.values())


def to_record(
    memory_id: MemoryId, incoming: Incoming, scope_id: ScopeId, now: dt.datetime, text_hash: str | None = None
) -> MemoryRecord:
    """Return the record of an incoming memory; missing times are *now*."""
    created_at = floor_to_millisecond(incoming.created_at or now)
    occurred_at = floor_to_millisecond(incoming.occurred_at) if incoming.occurred_at else created_at
    return MemoryRecord(
        memory_id=memory_id,
        scope_id=scope_id,
        text=incoming.text,
        source=incoming.source,
        occurred_at=occurred_at,
        created_at=created_at,
        updated_at=floor_to_millisecond(incoming.updated_at) if incoming.updated_at else created_at,
        tags=_distinct(incoming.tags),
        **get_details(incoming),
        owners=incoming.owners,
        metadata=incoming.metadata,
        structured=incoming.structured,
        occurrences=incoming.occurrences or (occurred_at,),
        content_hash=text_hash or content_hash(incoming.text),
        revision=incoming.revision or 1,
        deleted_at=incoming.deleted_at,
        is_pruned=incoming.is_pruned and incoming.deleted_at is not None,
    )


def _check_storable(value: Any, depth: int) -> None:
    """Refuse what MongoDB cannot hold.

    Raises:
        ValueError: it holds such a value; the message names it.
    """
    if depth > MAX_LEVELS:
        raise ValueError(f"it is nested deeper than {MAX_LEVELS} levels")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise ValueError("it holds a key that is no text")
            _check_storable(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_storable(item, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError("it holds a number that is out of range")
    elif isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise ValueError("it holds an integer of more than 64 bits")


def _measure_depth(value: Any) -> int:
    """Count the levels of a JSON value: 0 for a plain one, 1 for an object of plain ones."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else None
    return 0 if inner is None else 1 + max(map(_measure_depth, inner), default=0)
