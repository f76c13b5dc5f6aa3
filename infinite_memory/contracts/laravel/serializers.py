"""Serialization of memories for the Laravel contract."""

from __future__ import annotations

from typing import Any

from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.laravel.access import ORGANIZATION, REACH, REPOSITORY, UUID_OWNER
from infinite_memory.contracts.timestamps import format_instant
from infinite_memory.models import MemoryRecord

INDEX_KEYS = 5  # metadata keys in the index, according to the index policy
INDEX_CHARS = 200


def serialize_memory(memory: MemoryRecord, **more: Any) -> Json:
    """Serialize a complete memory, followed by *more*."""
    return {
        "id": memory.owners[UUID_OWNER],
        "organization": memory.owners[ORGANIZATION],
        "repository": memory.owners.get(REPOSITORY),
        "scope_type": memory.owners[REACH],
        "memory_type": memory.type,
        "title": memory.title,
        "current_content": memory.text,
        "status": memory.status,
        "importance": int(memory.importance or 1),
        "metadata": dict(memory.metadata),
        "created_at": format_instant(memory.created_at),
        "updated_at": format_instant(memory.updated_at),
    } | more


def serialize_index_entry(memory: MemoryRecord) -> Json:
    """Serialize a memory for the index: without its content, and of its metadata only flat, short values."""
    fields = serialize_memory(memory)
    names = (
        "id",
        "title",
        "scope_type",
        "memory_type",
        "importance",
        "status",
        "repository",
        "organization",
        "updated_at",
    )
    flat = {name: value for name, value in memory.metadata.items() if _is_light(value)}
    return {name: fields[name] for name in names} | {"metadata": dict(list(flat.items())[:INDEX_KEYS])}


def _is_light(value: Any) -> bool:
    return not isinstance(value, dict | list) and len(str(value)) <= INDEX_CHARS


def serialize_versions(memory: MemoryRecord, earlier: list[MemoryRecord], older: int) -> list[Json]:
    """Return the versions of a memory, oldest first, including the current one; numbered from 1, counting the *older* ones left out."""
    return [
        {
            "version": number,
            "title": version.title,
            "content": version.text,
            "status": version.status,
            "memory_type": version.type,
            "scope_type": version.owners[REACH],
            "importance": int(version.importance or 1),
            "metadata": dict(version.metadata),
            "created_at": format_instant(version.updated_at),
        }
        for number, version in enumerate([*earlier, memory], start=older + 1)
    ]
