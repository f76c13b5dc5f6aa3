"""How memories look over HTTP, from the engine's records or from what the contracts' commands reply."""

from __future__ import annotations

from typing import Any

from infinite_memory.contracts.agentmem.access import make_source, parse_id
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.native.serializers import serialize_memory
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.engine.engine import Engine
from infinite_memory.models import MemoryRecord

OWNERS = ("user_id", "agent_id", "run_id", "session_id", "org_id", "scope_type")
_PLAIN = ("title", "speaker", "conversation_id", "importance")
_MORE = ("created_at", "updated_at", "revision", "occurrences", "confidence", "when", "excerpt", "count", "also_at",
         "truncated", "text_chars")  # fmt: skip


def memory_form(one: Json) -> Json:
    """Make the form of a memory from what the native contract shows of it."""
    owners, metadata = one.get("owners", {}), one.get("metadata", {})
    marked = {make_source(owners["user_id"])} if "user_id" in owners else set()
    kind = one["type"] if "type" in one else metadata.get("type")
    return {
        "memory_id": one["memory_id"],
        "content": one["text"],
        "scope": one["scope"],
        "tags": one["tags"],
        "timestamp": one["timestamp"],
        "source": None if one["source"] in marked else one["source"],
        **{name: one.get(name) for name in _PLAIN},
        "metadata": metadata,
        **{name: owners.get(name) for name in OWNERS},
        "memory_type": kind if isinstance(kind, str) else None,
        **{name: one[name] for name in _MORE if name in one},
    }


def whole_form(engine: Engine, memory: MemoryRecord) -> Json:
    """Return the form of a memory with its times and its revision."""
    return memory_form(
        serialize_memory(engine, memory)
        | {
            "created_at": format_instant(memory.created_at),
            "updated_at": format_instant(memory.updated_at),
            "revision": memory.revision,
        }
    )


def earlier_form(engine: Engine, memory: MemoryRecord) -> Json:
    """Return the form of an earlier version of a memory."""
    updated_at = format_instant(memory.updated_at)
    return memory_form(serialize_memory(engine, memory) | {"updated_at": updated_at, "revision": memory.revision})


def plain_id(value: Any) -> str:
    """Write a memory's id without the AgentMem contract's mark."""
    return parse_id(str(value))
