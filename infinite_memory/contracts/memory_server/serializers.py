"""Serialization of memories for the Memory Server contract, and the text form of its structured content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.models import MemoryRecord

EXCERPT_CHARS = 100


def format_content(content: Any) -> str:
    """Return structured content as the text that is embedded and that other contracts show: a line for each field.

    Content that is a string, or has only a ``text``, is that text.
    """
    if isinstance(content, dict) and content.keys() == {"text"}:
        content = content["text"]
    text = content if isinstance(content, str) else "\n".join(_lines(content))
    return text if text.strip() else json.dumps(content, ensure_ascii=False)


def _lines(content: Any) -> Iterator[str]:
    if isinstance(content, dict):
        for name, value in content.items():
            inner = list(_lines(value))
            if len(inner) == 1:
                yield f"{name}: {inner[0]}"
            elif inner:
                yield f"{name}:"
                yield from (f"- {line}" for line in inner)
    elif isinstance(content, list):
        if all(isinstance(item, str | int | float | None) for item in content):
            yield from ([", ".join(_plain(item) for item in content)] if content else [])
        else:
            for item in content:
                yield from _lines(item)
    else:
        yield _plain(content)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def get_content(memory: MemoryRecord) -> Any:
    """Return the structured content; for a memory of another contract, its text."""
    return {"text": memory.text} if memory.structured is None else memory.structured


def get_uri(memory: MemoryRecord) -> str:
    """Return the URI of a memory."""
    return f"mem://item/{memory.memory_id}"


def serialize_item(memory: MemoryRecord) -> Json:
    """Serialize a memory for searches and lists: without its content."""
    return {
        "id": memory.memory_id,
        "type": memory.type,
        "tags": list(memory.tags),
        "createdAt": format_instant(memory.created_at),
    }


def serialize_record(memory: MemoryRecord) -> Json:
    """Serialize a complete memory; instants under both names, as in the contract's document."""
    created, updated = format_instant(memory.created_at), format_instant(memory.updated_at)
    return {
        "id": memory.memory_id,
        "type": memory.type,
        "content": get_content(memory),
        "source": memory.source,
        "tags": list(memory.tags),
        "confidence": memory.confidence,
        "createdAt": created,
        "updatedAt": updated,
        "created_at": created,
        "updated_at": updated,
    }


def serialize_link(memory: MemoryRecord) -> Json:
    """Return a link to a memory, for the ``content`` of a result."""
    text = " ".join(memory.text.split())
    text = text if len(text) <= EXCERPT_CHARS else text[:EXCERPT_CHARS] + "…"
    return {
        "type": "resource_link",
        "uri": get_uri(memory),
        "name": f"memory:{memory.memory_id}",
        "description": text,
        "mimeType": "application/json",
    }


def format_line(memory: MemoryRecord, similarity: float | None = None) -> str:
    """Return a memory as a line of text, with id and URI, for clients that show nothing else."""
    near = "" if similarity is None else f" similarity={similarity:.4f}"
    tags = f" tags={','.join(memory.tags)}" if memory.tags else ""
    kind = f" [{memory.type}]" if memory.type is not None else ""  # one of another contract may have none
    return f"- {memory.memory_id}{kind}{near}{tags} created={format_instant(memory.created_at)} {get_uri(memory)}"
