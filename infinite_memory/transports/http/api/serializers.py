"""Serialization of memories for HTTP."""

from __future__ import annotations

from typing import Any

from infinite_memory.contracts.agentmem.access import make_source, parse_id
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.native.results import Hit, SearchResults, find_unread, serialize_time_frame
from infinite_memory.contracts.native.serializers import serialize_names
from infinite_memory.contracts.native.table import CommandContext
from infinite_memory.contracts.timestamps import format_instant, format_relative
from infinite_memory.engine.engine import Engine
from infinite_memory.models import MemoryRecord

OWNERS = ("user_id", "agent_id", "run_id", "session_id", "org_id", "scope_type")


def memory_form(engine: Engine, memory: MemoryRecord, *, text: str | None = None, **times: Any) -> Json:
    """Serialize a memory. *text* replaces its own if that is truncated; *times* come before the occurrences."""
    owners, scope = memory.owners, engine.scopes.find_by_id(memory.scope_id)
    is_own_source = "user_id" in owners and memory.source == make_source(owners["user_id"])
    kind = memory.type if owners and memory.type is not None else memory.metadata.get("type")
    form: Json = {
        "memory_id": memory.memory_id,
        "content": memory.text if text is None else text,
        "scope": scope.name if scope else None,
        "tags": list(memory.tags),
        "timestamp": format_instant(memory.occurred_at),
        "source": None if is_own_source else memory.source,
        "title": memory.title,
        "speaker": memory.speaker,
        "conversation_id": memory.conversation_id,
        "importance": memory.importance,
        "metadata": dict(memory.metadata),
        **{name: owners.get(name) for name in OWNERS},
        "memory_type": kind if isinstance(kind, str) else None,
        **times,
    }
    if len(memory.occurrences) > 1:
        form["occurrences"] = [format_instant(occurrence) for occurrence in memory.occurrences]
    return form


def whole_form(engine: Engine, memory: MemoryRecord) -> Json:
    """Serialize a memory with its times and its revision."""
    created_at, updated_at = format_instant(memory.created_at), format_instant(memory.updated_at)
    return memory_form(engine, memory, created_at=created_at, updated_at=updated_at, revision=memory.revision)


def earlier_form(engine: Engine, memory: MemoryRecord) -> Json:
    """Serialize an earlier version of a memory."""
    return memory_form(engine, memory, updated_at=format_instant(memory.updated_at), revision=memory.revision)


def results_form(call: CommandContext, results: SearchResults, name: str) -> Json:
    """Serialize search results or a listing, the memories under *name*."""
    form: Json = {
        name: [_hit_form(call, hit) for hit in results.hits],
        "total": len(results.hits) if results.total is None else results.total,
        "next_cursor": results.next_cursor,
        "scopes_searched": serialize_names(results.scopes),
    }
    frame = serialize_time_frame(call, results.span)
    unread = find_unread(call) if frame is not None else ""
    if notes := [note for note in (unread, results.wider_note, results.note) if note]:
        form["note"] = "; ".join(notes)
    if frame is not None:
        form["time_frame"] = frame
    return form | ({"truncated": True} if results.is_cut else {})


def _hit_form(call: CommandContext, hit: Hit) -> Json:
    form, match = memory_form(call.engine, hit.memory, text=hit.text), hit.match
    if match is not None:
        form["confidence"] = match.confidence
    form["when"] = format_relative(hit.memory.occurred_at, call.now(), call.session.zone)
    if match is not None and match.window is not None:
        form["excerpt"] = hit.excerpt
    if match is not None and match.repeated_at:
        form["count"] = 1 + len(match.repeated_at)
        form["also_at"] = [format_instant(instant) for instant in match.repeated_at]
    return form | ({"truncated": True, "text_chars": len(hit.memory.text)} if hit.is_cut else {})


def plain_id(value: Any) -> str:
    """Return a memory's id without the AgentMem contract's prefix."""
    return parse_id(str(value))
