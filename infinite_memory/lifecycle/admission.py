"""What of an incoming memory can be stored, under which id, and as which record."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from typing import Any

from infinite_memory.engine.importance import FULL
from infinite_memory.engine.remember import content_hash
from infinite_memory.lifecycle.importers import Incoming, is_our_id
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId, floor_to_millisecond

MOST_BYTES = 8 << 20  # of one memory with all that is said about it: half of what MongoDB takes
MOST_LEVELS = 50  # of nesting; the store takes a few more, for it adds levels of its own
_INT64 = 1 << 63


def id_of(one: Incoming) -> MemoryId:
    """Give the id that an incoming memory has each time it is read: ours, or one made from its key and time."""
    if one.memory_id is not None and is_our_id(one.memory_id):
        return MemoryId(one.memory_id)
    seconds = int(one.occurred_at.timestamp()) if one.occurred_at else 0
    digest = hashlib.sha256(one.key.encode("utf-8", "surrogatepass")).digest()
    return MemoryId((min(max(seconds, 0), 0xFFFFFFFF).to_bytes(4, "big") + digest[:8]).hex())


def fault_of(one: Incoming, text_bytes: int) -> str | None:
    """Tell why a memory cannot be stored; None when it can.

    Args:
        text_bytes: How long a text may be, in UTF-8.
    """
    if not one.text.strip():
        return "has no text"
    for name, value, most in (("importance", one.importance, FULL), ("confidence", one.confidence, 1.0)):
        if value is not None and not 0 <= value <= most:
            return f"its {name} is {value:g}, from 0 to {most:g} was expected"
    try:
        size = len(one.text.encode())
        about = (one.scope, one.title, one.type, one.status, one.speaker, one.conversation_id, one.source, one.tags)
        everything = (about, one.owners, one.metadata, one.structured)
        _check_storable(everything, 0)
        whole = size + len(json.dumps(everything, ensure_ascii=False, default=str).encode())
    except UnicodeEncodeError:
        return "is no valid text"
    except ValueError as problem:
        return str(problem)
    if size > text_bytes:
        return f"its text has {size:,} bytes, the limit is {text_bytes:,}"
    return f"it has {whole:,} bytes, the limit is {MOST_BYTES:,}" if whole > MOST_BYTES else None


def record_of(memory_id: MemoryId, one: Incoming, scope_id: ScopeId, now: dt.datetime) -> MemoryRecord:
    """Make the record of an incoming memory; what it does not say of its times is *now*."""
    created_at = floor_to_millisecond(one.created_at or now)
    occurred_at = floor_to_millisecond(one.occurred_at) if one.occurred_at else created_at
    return MemoryRecord(
        memory_id=memory_id,
        scope_id=scope_id,
        text=one.text,
        source=one.source,
        occurred_at=occurred_at,
        created_at=created_at,
        updated_at=floor_to_millisecond(one.updated_at) if one.updated_at else created_at,
        tags=one.tags,
        type=one.type,
        title=one.title,
        importance=one.importance,
        confidence=one.confidence,
        status=one.status,
        speaker=one.speaker,
        conversation_id=one.conversation_id,
        owners=one.owners,
        metadata=one.metadata,
        structured=one.structured,
        occurrences=one.occurrences or (occurred_at,),
        content_hash=content_hash(one.text),
        revision=one.revision or 1,
        deleted_at=one.deleted_at,
        is_pruned=one.is_pruned and one.deleted_at is not None,
    )


def _check_storable(value: Any, depth: int) -> None:
    """Refuse what MongoDB cannot hold.

    Raises:
        ValueError: there is such a thing; says what.
    """
    if depth > MOST_LEVELS:
        raise ValueError(f"it is nested deeper than {MOST_LEVELS} levels")
    if isinstance(value, dict):
        for one in value.values():
            _check_storable(one, depth + 1)
    elif isinstance(value, list | tuple):
        for one in value:
            _check_storable(one, depth + 1)
    elif isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise ValueError("it holds an integer of more than 64 bits")
