"""Tools that store and change memories."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from infinite_memory.contracts.base import Reply
from infinite_memory.contracts.field_types import ListField, TextField
from infinite_memory.contracts.fields import Fields, Json
from infinite_memory.contracts.laravel.access import find_visible, make_view, to_memory_id
from infinite_memory.contracts.laravel.errors import SeveralInvalidError, not_found, parse_all
from infinite_memory.contracts.laravel.mapping import check_lock, make_new_memory, make_update, warn_of_policy
from infinite_memory.contracts.laravel.serializers import serialize_memory
from infinite_memory.contracts.laravel.table import (
    CONTENT,
    METADATA,
    RELATION_CHARS,
    TABLE,
    TITLE,
    WRITE_FIELDS,
    LaravelCall,
    Status,
    id_field,
    importance,
    memory_type,
    scope_type,
    status,
)
from infinite_memory.contracts.large_requests import in_thread
from infinite_memory.engine.types import MemoryUpdate, StoreResult
from infinite_memory.engine.visibility import Visibility
from infinite_memory.errors import AlreadyExistsError, InvalidRequestError, LimitExceededError, StoreError
from infinite_memory.models import MemoryRecord

BATCH = 1000
WRITE_TRIES = 10  # retries of a deletion that loses to concurrent changes


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a write to a memory; ``pending`` says why it has no vector yet."""

    memory: MemoryRecord
    outcome: str
    pending: str | None = None

    @classmethod
    def of(cls, result: StoreResult, outcome: str) -> Written:
        """Return the outcome of a result of the engine."""
        return cls(result.memory, outcome, result.pending)


def _serialize_written(written: Written) -> Json:
    note = (
        {"note": f"it is found by meaning once it is embedded ({written.pending})"}
        if written.pending is not None
        else {}
    )
    return serialize_memory(written.memory, outcome=written.outcome, **note)


def names_memory(item: Mapping[str, Any]) -> bool:
    """True if a write names the memory that it creates or replaces: unknown fields are then rejected."""
    return item.get("id") not in (None, "")


@TABLE.command("memory-write", *WRITE_FIELDS, title="Write a memory", replaces=names_memory)
async def memory_write(call: LaravelCall) -> Reply:
    """Create a new memory entry. Supports facts, preferences, and business rules. Search first: duplicates corrupt what is known.
    With an id, that memory is updated, or made when there is none."""
    warn_of_policy(call, call.fields)
    return _serialize_written(await _write(call, call.fields))


@TABLE.command(
    "memory-update",
    id_field(),
    TITLE,
    CONTENT,
    status(),
    scope_type(),
    memory_type(),
    importance(),
    METADATA,
    title="Update a memory",
    destructive=True,
    idempotent=True,
)
async def memory_update(call: LaravelCall) -> Reply:
    """Update an existing memory entry by its UUID. Only the fields that are given change; what the memory said before stays in its
    history."""
    warn_of_policy(call, call.fields)
    memory = await visible(call, call.fields.text("id"))
    return _serialize_written(await _update(call, memory, call.fields))


@TABLE.command("memory-delete", id_field(), title="Delete a memory", destructive=True)
async def memory_delete(call: LaravelCall) -> Reply:
    """Soft-delete a memory entry. Use it only for what is invalid or obsolete; memory-restore brings it back."""
    uuid = call.fields.text("id")
    for _ in range(WRITE_TRIES):
        memory = await visible(call, uuid)
        if memory.status == Status.LOCKED.value:
            raise InvalidRequestError("id", f"memory {uuid} is locked; change its status before deleting it")
        if await call.engine.forget.one_as_read(memory):
            return {"text": f"Memory {uuid} has been soft-deleted."}
    raise StoreError(f"memory {uuid} is being changed by others all the time; try again")


@TABLE.command("memory-restore", id_field(), title="Restore a memory", idempotent=True)
async def memory_restore(call: LaravelCall) -> Reply:
    """Undo memory-delete. A memory that is not deleted is given as it is."""
    uuid = call.fields.text("id")
    memory = await find_visible(call.engine, _view(call), uuid, deleted=None)
    if memory is None:
        raise not_found(uuid)
    result = await call.engine.memories.restore(memory.memory_id)
    _check_seen(call, result.memory, uuid)  # it may have become another user's own just now
    return serialize_memory(result.memory, outcome="restored" if result.is_restored else "unchanged")


@TABLE.command(
    "memory-link",
    id_field("source_id", "UUID of the memory the link begins at"),
    id_field("target_id", "UUID of the memory it leads to"),
    TextField(name="relation_type", about="What the link means: related, depends_on, supersedes, ...", default="related"),
    title="Link two memories", idempotent=True,
)  # fmt: skip
async def memory_link(call: LaravelCall) -> Reply:
    """Create relationships between two memories. Linking again has no further effect."""
    relation = call.fields.text("relation_type").strip()
    if len(relation) > RELATION_CHARS:
        raise LimitExceededError("relation_type", len(relation), RELATION_CHARS, "characters")
    source = await visible(call, call.fields.text("source_id"))
    target = await visible(call, call.fields.text("target_id"))
    await call.engine.graph.link(source, target, relation)
    return {"text": f"Memories linked successfully as '{relation}'."}


def _replaces_any(request: Mapping[str, Any]) -> bool:
    items = request.get("items")
    if not isinstance(items, list):
        return items is not None  # a JSON text, which may name any
    return any(isinstance(item, str) or (isinstance(item, dict) and names_memory(item)) for item in items)


def _batch(name: str) -> None:
    """Register the batch tool under one of its two names."""

    @TABLE.command(
        name,
        ListField(name="items", about="What memory-write takes, one entry for each memory", required=True,
                  item=WRITE_FIELDS, max_items=BATCH),
        title="Write several memories",
        replaces=_replaces_any,
    )  # fmt: skip
    async def memory_batch_write(call: LaravelCall) -> Reply:
        """Write several distinct atomic memories from a single session, all or none: one bad entry refuses all."""
        entries = await in_thread(lambda: _checked_items(call))
        ids = [fields.find_text("id") for fields in entries]
        for index, uuid in enumerate(ids):
            if uuid is not None and uuid in ids[:index]:
                raise InvalidRequestError(f"items.{index}.id", f"{uuid} stands in this batch twice")
        return await _write_all(call, entries)


for _name in ("memory-batch-write", "memory-bulk-write"):
    _batch(_name)


async def visible(call: LaravelCall, uuid: str) -> MemoryRecord:
    """Return the live memory of that UUID.

    Raises:
        RpcError: there is none that the caller may see.
    """
    memory = await find_visible(call.engine, _view(call), uuid)
    if memory is None:
        raise not_found(uuid)
    return memory


def _view(call: LaravelCall) -> Visibility:
    return make_view(call.caller.organization, call.caller.user, None)


def _check_seen(call: LaravelCall, now: MemoryRecord, uuid: str) -> None:
    """Reject a memory that has become another user's since the caller's access was checked.

    Raises:
        RpcError: the caller no longer sees it.
    """
    if not _view(call).allows(now):
        raise not_found(uuid)


def _checked_items(call: LaravelCall) -> list[Fields]:
    problems: dict[str, list[str]] = {}
    entries = []
    for index, item in enumerate(call.fields["items"]):
        try:
            if not isinstance(item, dict):
                raise InvalidRequestError.invalid_value(f"items.{index}", item, "an object as memory-write takes it")
            checking = call.checking.with_strict(names_memory(item))
            entries.append(parse_all(WRITE_FIELDS, item, f"items.{index}", checking))
        except SeveralInvalidError as exc:
            problems |= exc.problems
        except InvalidRequestError as exc:
            problems[exc.field] = [str(exc)]
    if problems:
        raise SeveralInvalidError(problems)
    for fields in entries:
        warn_of_policy(call, fields)
    return entries


async def _write(call: LaravelCall, fields: Fields) -> Written:
    """Create a memory, or update the one with the given UUID; a soft-deleted one is restored with the written fields."""
    uuid = fields.find_text("id")
    if uuid is None:
        return Written.of(await call.engine.memories.store(make_new_memory(call, fields, str(uuid4()))), "stored")
    for _ in range(2):
        existing = await _known(call, uuid)
        if existing is not None:
            return await _overwrite(call, existing, fields)
        try:
            return Written.of(await call.engine.memories.store(make_new_memory(call, fields, uuid)), "stored")
        except AlreadyExistsError:
            continue  # it was created concurrently: update it
    raise not_found(uuid)


async def _known(call: LaravelCall, uuid: str) -> MemoryRecord | None:
    """Return the memory of a UUID, live or soft-deleted.

    Raises:
        RpcError: it is another user's.
    """
    memories = await call.engine.memories.find([to_memory_id(uuid)], deleted=None)
    memory = memories.get(to_memory_id(uuid))
    if memory is not None:
        _check_seen(call, memory, uuid)
    return memory


async def _overwrite(call: LaravelCall, existing: MemoryRecord, fields: Fields) -> Written:
    if existing.deleted_at is not None:
        check_lock(existing, make_update(call, existing, fields, replace_all=True))
        await call.engine.memories.restore(existing.memory_id)
    return await _update(call, existing, fields, replace_all=True)


async def _write_all(call: LaravelCall, entries: list[Fields]) -> Json:
    """Write all entries or none, and return the reply."""
    existing = {
        index: await _known(call, uuid) for index, fields in enumerate(entries) if (uuid := fields.find_text("id"))
    }
    changes: dict[int, MemoryUpdate] = {}
    for index, memory in existing.items():
        if memory is not None:
            update = make_update(call, memory, entries[index], replace_all=True)
            check_lock(memory, update, f"items.{index}")
            if update is not None or memory.deleted_at is not None:
                changes[index] = update or MemoryUpdate()
    new = [index for index in range(len(entries)) if existing.get(index) is None]
    drafts = await in_thread(
        lambda: [make_new_memory(call, entries[index], entries[index].find_text("id") or str(uuid4())) for index in new]
    )
    by_id = {memory.memory_id: index for index, memory in existing.items() if memory is not None}

    def check(now: MemoryRecord) -> None:
        index = by_id[now.memory_id]
        _check_seen(call, now, entries[index].text("id"))
        check_lock(now, make_update(call, now, entries[index], replace_all=True), f"items.{index}")

    ids = {
        memory.memory_id: changes[index]
        for index, memory in existing.items()
        if memory is not None and index in changes
    }
    stored, changed = await call.engine.memories.write_batch(drafts, ids, check)

    def serialize_all() -> list[Json]:
        replies = {index: serialize_memory(record, outcome="stored") for index, record in zip(new, stored, strict=True)}
        replies |= {by_id[record.memory_id]: serialize_memory(record, outcome="updated") for record in changed}
        for index, memory in existing.items():
            if memory is not None and index not in changes:
                replies[index] = serialize_memory(memory, outcome="unchanged")
        return [replies[index] for index in range(len(entries))]

    reply: Json = {"items": await in_thread(serialize_all)}
    is_pending = any(record.embedding is None for record in (*stored, *changed))
    return reply | ({"note": "these are found by meaning once they are embedded"} if is_pending else {})


async def _update(call: LaravelCall, memory: MemoryRecord, fields: Fields, *, replace_all: bool = False) -> Written:
    """Update a memory with *fields*; *replace_all* is a write, which also names the owners of the memory."""
    changes, uuid = make_update(call, memory, fields, replace_all=replace_all), fields.text("id")
    if changes is None:
        current = await call.engine.memories.get(memory.memory_id)
        _check_seen(call, current, uuid)
        return Written(current, "updated" if memory.deleted_at else "unchanged")

    def check(now: MemoryRecord) -> None:
        _check_seen(call, now, uuid)
        check_lock(now, make_update(call, now, fields, replace_all=replace_all))

    return Written.of(await call.engine.memories.update(memory.memory_id, changes, check=check), "updated")
