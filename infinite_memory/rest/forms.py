"""How memories look over HTTP, made of what the contracts' commands reply."""

from __future__ import annotations

from typing import Any

from infinite_memory.contracts.agentmem.people import id_in, source_of
from infinite_memory.contracts.fields import Json

OWNERS = ("user_id", "agent_id", "run_id", "session_id", "org_id", "scope_type")
_PLAIN = ("title", "speaker", "conversation_id", "importance")
_MORE = ("created_at", "updated_at", "revision", "occurrences", "confidence", "when", "excerpt", "count", "also_at",
         "truncated", "text_chars")  # fmt: skip


def memory_form(one: Json) -> Json:
    """Make the form of a memory from what the native contract shows of it."""
    owners, metadata = one.get("owners", {}), one.get("metadata", {})
    marked = {source_of(owners["user_id"])} if "user_id" in owners else set()
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


def plain_id(value: Any) -> str:
    """Write a memory's id without the AgentMem contract's mark."""
    return id_in(str(value))
