"""Storing by content: what is the same by type, source and structured content is one memory, however often it is saved.

The id of such a memory is made from its scope and a hash of its content, so of two processes that save the same thing at the
same moment one adds it and the other meets it: tags are united, the higher confidence is kept, nothing is lost and no unique
index is needed. A memory whose content was changed since keeps its id; the old content, saved again, then gets the next id of its
hash.
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

from infinite_memory.engine.parts import Changes, Draft, Kept
from infinite_memory.engine.remember import Remembering, changed
from infinite_memory.errors import AlreadyExistsError, MemoryChangedError, MemoryNotFoundError, StoreError
from infinite_memory.models import MemoryId, MemoryRecord, Scope, ScopeId, floor_to_millisecond, fold

_TRIES = 20  # a memory that other processes change at the same moment is read and merged anew this often
_EXACT = 2.0**53  # up to here a float that is whole is that integer


class UpsertOutcome(enum.Enum):
    """What saving did."""

    STORED = "stored"
    UPDATED = "updated"  # tags or confidence changed
    DUPLICATE = "duplicate"  # all of it was known; only the time of the last save changed


@dataclass(frozen=True, slots=True)
class Upserted:
    """The memory as it now stands, and what saving did."""

    kept: Kept
    outcome: UpsertOutcome


def content_key(type_: str | None, source: str, content: Any) -> str:
    """Hash type, source and content; the order of keys does not count, at any depth, and 1.0 is 1. SHA-256 in hexadecimal."""
    whole = {"type": type_, "source": source, "content": _canonical(content)}
    text = json.dumps(whole, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and abs(value) <= _EXACT and value.is_integer():
        return int(value)
    return value


class Upserting(Remembering):
    """The engine's method that stores by content."""

    _at_work: weakref.WeakValueDictionary[MemoryId, asyncio.Lock]

    async def upsert(self, draft: Draft, *, create_scope: bool = True) -> Upserted:
        """Store a memory with structured content, or merge it into the one of the same type, source and content.

        Merging unites the tags, keeps the higher confidence, refreshes ``updated_at`` and changes nothing else. A memory that was
        softly forgotten is live again.

        Raises:
            ScopeNotFoundError: the scope does not exist and was not to be made.
            ScopeArchivedError: the scope was put away.
            StoreUnavailableError: nothing was stored, as far as is known.
        """
        await self.parts.index.sidecar()
        scope = await self.parts.scopes.get_open(draft.scope, create=create_scope)
        key = content_key(draft.type, draft.source, draft.structured)
        lock = self._at_work.setdefault(_made_id(scope.scope_id, key, 0), asyncio.Lock())
        async with lock:
            for _ in range(_TRIES):
                if (done := await self._try_upsert(draft, scope, key)) is not None:
                    return done
        raise StoreError("this memory is being saved by others all the time; try again")

    async def _try_upsert(self, draft: Draft, scope: Scope, key: str) -> Upserted | None:
        """Store or merge once; None when another process was faster."""
        for number in itertools.count():
            memory_id = _made_id(scope.scope_id, key, number)
            found = await self.parts.store.fetch({memory_id: scope.scope_id}, deleted=None, vectors=True)
            if memory_id not in found:
                return await self._add(draft, scope, memory_id)
            if _key_of(found[memory_id]) == key:
                return await self._merge(found[memory_id], draft, scope)
        raise AssertionError  # itertools.count never ends

    async def _add(self, draft: Draft, scope: Scope, memory_id: MemoryId) -> Upserted | None:
        memory = dataclasses.replace(self._memory(draft, scope), memory_id=memory_id)
        [(embedding, pending)] = await self._embed([memory])
        whole = dataclasses.replace(memory, embedding=embedding)
        try:
            await self.parts.store.insert([whole])
        except AlreadyExistsError:
            return None
        await self.parts.index.wrote([whole])
        return Upserted(Kept(whole, scope, pending), UpsertOutcome.STORED)

    async def _merge(self, old: MemoryRecord, draft: Draft, scope: Scope) -> Upserted | None:
        if old.deleted_at is not None:
            await self.parts.store.undelete({old.memory_id: scope.scope_id})
            return None  # read it again as it is now
        tags = _united(old.tags, draft.tags)
        confidence = max((one for one in (old.confidence, draft.confidence) if one is not None), default=None)
        says_more = len(tags) > len(old.tags) or confidence != old.confidence
        new = changed(old, Changes(tags=tags if says_more else None, confidence=confidence))
        now = max(floor_to_millisecond(self.parts.clock()), old.updated_at)
        try:
            stored = await self.parts.store.replace(dataclasses.replace(new, updated_at=now), revise=says_more)
        except (MemoryNotFoundError, MemoryChangedError):
            return None
        await self.parts.index.wrote([stored])
        pending = None if stored.embedding is not None else "it is not embedded yet"
        return Upserted(Kept(stored, scope, pending), UpsertOutcome.UPDATED if says_more else UpsertOutcome.DUPLICATE)


def _united(tags: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """Put tags together, each once and as it was first written."""
    united: dict[str, str] = {}
    for tag in (*tags, *more):
        united.setdefault(fold(tag), tag)
    return tuple(united.values())


def _key_of(memory: MemoryRecord) -> str:
    return content_key(memory.type, memory.source, memory.structured)


def _made_id(scope_id: ScopeId, key: str, number: int) -> MemoryId:
    """Make an id of 24 hexadecimal digits; 96 bits of a hash do not meet by chance."""
    return MemoryId(hashlib.sha256(f"{scope_id}/{key}/{number}".encode()).hexdigest()[:24])
