"""Upsert by content: equal type, source and structured content make one memory, however often it is stored.

The id of such a memory is derived from its scope and a keyed hash of its content (`id_keys`), so if two processes store the same
content concurrently one inserts it and the other finds it: tags are united, the higher confidence is kept, nothing is lost and no
unique index is needed. A memory whose content was changed keeps its id; the old content, stored again, gets the next id of its hash.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import hashlib
import itertools
import json
import weakref
from dataclasses import dataclass
from typing import Any

from infinite_memory.clock import Clock
from infinite_memory.engine.access import Access
from infinite_memory.engine.records import RecordMaker, changed
from infinite_memory.engine.types import MemoryUpdate, NewMemory, StoreResult
from infinite_memory.errors import (
    AlreadyExistsError,
    MemoryChangedError,
    MemoryNotFoundError,
    ScopeNotFoundError,
    StoreError,
)
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import MemoryId, MemoryRecord, Scope, ScopeId, floor_to_millisecond, fold
from infinite_memory.store.base import Store
from infinite_memory.store.id_keys import IdKeys
from infinite_memory.store.scope_cache import ScopeCache

Locks = weakref.WeakValueDictionary[MemoryId, asyncio.Lock]
"""Locks of the memories being upserted, by id."""

_TRIES = 20  # attempts to read and merge a memory that other processes are changing
_EXACT = 2.0**53  # integral floats up to this equal the integer exactly


class UpsertOutcome(enum.Enum):
    """What saving did."""

    STORED = "stored"
    UPDATED = "updated"  # tags or confidence changed, or it was forgotten and is restored
    DUPLICATE = "duplicate"  # nothing new; only the update time changed


@dataclass(frozen=True, slots=True)
class Upserted:
    """The memory after the upsert, and its outcome."""

    result: StoreResult
    outcome: UpsertOutcome


def content_key(type_: str | None, source: str, content: Any) -> str:
    """Return a hash of type, source and content, as SHA-256 in hexadecimal; key order is ignored at any depth, and 1.0 equals 1."""
    content_fields = {"type": type_, "source": source, "content": _canonical(content)}
    text = json.dumps(content_fields, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and abs(value) <= _EXACT and value.is_integer():
        return int(value)
    return value


class Upserts:
    """Stores memories by content."""

    def __init__(
        self, *, access: Access, store: Store, index: IndexSync, scopes: ScopeCache, records: RecordMaker,
        clock: Clock, locks: Locks,
    ) -> None:  # fmt: skip
        self._access, self._store, self._index, self._scopes = access, store, index, scopes
        self._records, self._clock, self._locks = records, clock, locks

    async def upsert(self, new_memory: NewMemory, *, create_scope: bool = True) -> Upserted:
        """Store a memory with structured content, or merge it into the one with the same type, source and content.

        Merging unites the tags, keeps the higher confidence, updates ``updated_at`` and changes nothing else. A soft-forgotten memory is
        restored.

        Raises:
            ScopeNotFoundError: the scope does not exist and is not to be created.
            ScopeArchivedError: the scope is archived.
            LimitExceededError: the united tags exceed the limit of a memory; nothing was changed.
            StoreUnavailableError: probably nothing was stored.
        """
        self._access.visibility.check_everything()
        await self._index.sidecar()
        key = content_key(new_memory.type, new_memory.source, new_memory.structured)
        keys = await self._index.id_keys.get()
        for _ in range(_TRIES):
            scope = await self._scopes.get_open(new_memory.scope, create=create_scope)
            lock = self._locks.setdefault(keys.ids(_format_place(scope.scope_id, key, 0))[0], asyncio.Lock())
            async with lock:
                try:
                    done = await self._try_upsert(new_memory, scope, key, keys)
                except ScopeNotFoundError:
                    done = None  # removed or merged just now, nothing was stored: another scope may have the name
            if done is not None:
                return done
            await self._scopes.refresh()
        raise StoreError("this memory is being saved by others all the time; try again")

    async def _try_upsert(self, new_memory: NewMemory, scope: Scope, key: str, keys: IdKeys) -> Upserted | None:
        """Store or merge once; None if another process was faster."""
        free: MemoryId | None = None
        for number in itertools.count():
            ids = keys.ids(_format_place(scope.scope_id, key, number))
            memories = await self._store.fetch(dict.fromkeys(ids, scope.scope_id), deleted=None, vectors=True)
            for memory_id in ids:
                if memory_id not in memories or _get_key(memories[memory_id]) != key:
                    continue
                if memories[memory_id].deleted_at is None:
                    return await self._merge(memories[memory_id], new_memory, scope)
                await self._store.undelete({memory_id: scope.scope_id})
                again = await self._try_upsert(new_memory, scope, key, keys)  # with its current state
                return again and dataclasses.replace(again, outcome=UpsertOutcome.UPDATED)
            # Moved memories keep their ids.
            moved = await self._store.find_moved([memory_id for memory_id in ids if memory_id not in memories])
            if free is None and ids[0] not in memories and ids[0] not in moved:
                free = ids[0]
            if free is not None and not memories and not moved:
                return await self._add(new_memory, scope, free)
        raise AssertionError  # itertools.count never ends

    async def _add(self, new_memory: NewMemory, scope: Scope, memory_id: MemoryId) -> Upserted | None:
        memory = dataclasses.replace(self._records.make(new_memory, scope), memory_id=memory_id)
        [(embedding, pending)] = await self._records.embed([memory])
        embedded = dataclasses.replace(memory, embedding=embedding)
        try:
            await self._store.insert([embedded])
        except AlreadyExistsError:
            return None
        await self._index.on_written([embedded])
        return Upserted(StoreResult(embedded, scope, pending), UpsertOutcome.STORED)

    async def _merge(self, old: MemoryRecord, new_memory: NewMemory, scope: Scope) -> Upserted | None:
        tags = _united(old.tags, new_memory.tags)
        confidence = max(
            (value for value in (old.confidence, new_memory.confidence) if value is not None), default=None
        )
        says_more = len(tags) > len(old.tags) or confidence != old.confidence
        new = changed(old, MemoryUpdate(tags=tags if says_more else None, confidence=confidence))
        now = max(floor_to_millisecond(self._clock()), old.updated_at)
        try:
            stored = await self._store.replace(dataclasses.replace(new, updated_at=now), keep_revision=says_more)
        except (MemoryNotFoundError, MemoryChangedError):
            return None
        await self._index.on_written([stored])
        scope = await self._scopes.find_again(stored.scope_id) or scope
        pending = None if stored.embedding is not None else "it is not embedded yet"
        return Upserted(
            StoreResult(stored, scope, pending), UpsertOutcome.UPDATED if says_more else UpsertOutcome.DUPLICATE
        )


def _united(tags: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """Return the united tags, each once and as first written."""
    united: dict[str, str] = {}
    for tag in (*tags, *more):
        united.setdefault(fold(tag), tag)
    return tuple(united.values())


def _get_key(memory: MemoryRecord) -> str:
    return content_key(memory.type, memory.source, memory.structured)


def _format_place(scope_id: ScopeId, key: str, number: int) -> str:
    """Return the content that an id is derived from; its 96-bit hash has no accidental collisions."""
    return f"{scope_id}/{key}/{number}"
