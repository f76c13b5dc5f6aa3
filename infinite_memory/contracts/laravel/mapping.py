"""Conversion of an entry of a write to a new memory, or to an update of an existing one; and the checks of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infinite_memory.contracts.fields import Fields
from infinite_memory.contracts.laravel.access import (
    ORGANIZATION,
    REACH,
    REPOSITORY,
    USER,
    UUID_OWNER,
    get_owners,
    to_memory_id,
)
from infinite_memory.contracts.laravel.table import SCOPE, LaravelCall, ScopeType, Status
from infinite_memory.engine.types import MemoryUpdate, NewMemory
from infinite_memory.errors import InvalidRequestError
from infinite_memory.models import MemoryRecord

TITLE_WORDS, METADATA_KEYS = 12, 5  # limits of the index policy; more is stored, with a warning


def make_update(call: LaravelCall, memory: MemoryRecord, fields: Fields, *, replace_all: bool) -> MemoryUpdate | None:
    """Return the fields that differ from *memory*; None if none does."""
    owners = dict(memory.owners)
    if fields["scope_type"] is not None or replace_all:
        check_place(fields, fields.find_text("repository") if replace_all else None, memory.owners.get(REPOSITORY))
        reach: ScopeType = fields["scope_type"]
        owners[REACH] = reach.value
        if reach is ScopeType.USER:
            owners.setdefault(USER, call.caller.user or "")
        else:
            owners.pop(USER, None)
    if replace_all:
        owners[ORGANIZATION] = fields.text("organization")
        if (repository := fields.find_text("repository")) is not None:
            owners[REPOSITORY] = repository
    provided: dict[str, Any] = {
        "text": fields.find_text("current_content"),
        "title": fields.find_text("title"),
        "type": fields["memory_type"] and fields["memory_type"].value,
        "status": fields["status"] and fields["status"].value,
        "importance": fields.find_number("importance"),
        "whole_metadata": fields["metadata"],
        "owners": owners,
    }
    now: Mapping[str, Any] = {"whole_metadata": dict(memory.metadata), "owners": dict(memory.owners)}
    changed = {
        name: value
        for name, value in provided.items()
        if value is not None and value != (now[name] if name in now else getattr(memory, name))
    }
    return MemoryUpdate(**changed) if changed else None


def check_place(fields: Fields, *repositories: str | None) -> None:
    """Reject a memory of a repository without the repository's name.

    Raises:
        InvalidRequestError: the scope type is ``repository`` and all *repositories* are None.
    """
    if fields["scope_type"] is ScopeType.REPOSITORY and not any(repositories):
        raise InvalidRequestError(
            fields.at("repository"),
            "is required for scope_type 'repository': the slug of the repository it belongs to, as memory-write takes it",
        )


def check_lock(memory: MemoryRecord, changes: MemoryUpdate | None, field: str = "id") -> None:
    """Reject an update of a locked memory's content; its status and importance may change.

    Raises:
        InvalidRequestError: *memory* is locked and *changes* affect its content.
    """
    if memory.status != Status.LOCKED.value or changes is None:
        return
    content = (changes.text, changes.title, changes.type, changes.whole_metadata, changes.owners)
    if any(value is not None for value in content):
        uuid = memory.owners[UUID_OWNER]
        raise InvalidRequestError(field, f"memory {uuid} is locked: its content cannot change; change its status first")


def make_new_memory(call: LaravelCall, fields: Fields, uuid: str) -> NewMemory:
    """Return a new memory from an entry."""
    reach: ScopeType = fields["scope_type"]
    check_place(fields, fields.find_text("repository"))
    return NewMemory(
        text=fields.text("current_content"),
        scope=SCOPE,
        source="laravel",
        type=fields["memory_type"].value,
        title=fields.find_text("title"),
        importance=fields.find_number("importance") or 1.0,
        status=(fields["status"] or Status.DRAFT).value,
        metadata=fields["metadata"] or {},
        owners=get_owners(uuid, fields.text("organization"), fields.find_text("repository"), reach, call.caller.user),
        memory_id=to_memory_id(uuid),
    )


def warn_of_policy(call: LaravelCall, fields: Fields) -> None:
    """Warn if an entry does not follow the index policy; it is stored anyway."""
    title, metadata = fields.find_text("title"), fields["metadata"] or {}
    if title and len(title.split()) > TITLE_WORDS:
        call.checking.warnings.append(
            f"{fields.at('title')}: more than {TITLE_WORDS} words; the index wants short titles"
        )
    if len(metadata) > METADATA_KEYS or any(isinstance(value, dict | list) for value in metadata.values()):
        call.checking.warnings.append(
            f"{fields.at('metadata')}: the index shows {METADATA_KEYS} flat keys at most; the rest is kept but not shown there"
        )
