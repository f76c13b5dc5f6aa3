"""Importing: what a reader gives becomes memories, each once however often it is imported.

A memory gets the id that it had in our export, or one made from its origin's name for it. What has that id already, live or
forgotten, is not touched; so importing twice adds nothing, and an import that was cut off is finished by doing it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TypeVar

from infinite_memory.engine.parts import Parts
from infinite_memory.engine.pending import embedded_text
from infinite_memory.engine.remember import content_hash
from infinite_memory.engine.scopes import GLOBAL, check_name
from infinite_memory.errors import EmbeddingError, InfiniteMemoryError, InvalidRequestError
from infinite_memory.lifecycle.importers import Incoming, Refused, find_format
from infinite_memory.models import Embedding, MemoryId, MemoryRecord, Scope, floor_to_millisecond

BATCH = 100  # memories embedded and stored together: a cut-off import repeats at most this many
REFUSALS_TOLD = 100
_OUR_ID = re.compile(r"[0-9a-f]{24}")
_NAME_CHARS = 256
T = TypeVar("T")

Progress = Callable[[int], None]


@dataclass(slots=True)
class Imported:
    """What an import did, or would do. ``refused`` lists the first of what was left out."""

    form: str
    added: int = 0
    present: int = 0
    refused_count: int = 0
    refused: list[Refused] = field(default_factory=list)

    def refuse(self, one: Refused) -> None:
        """Note an entry that is not taken."""
        self.refused_count += 1
        if len(self.refused) < REFUSALS_TOLD:
            self.refused.append(one)


async def import_path(
    parts: Parts,
    path: Path,
    *,
    form: str | None = None,
    scope: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Import a file or folder.

    Args:
        form: Name of its format; None finds it.
        scope: Everything goes there; None keeps the scopes of our own exports, and is Global otherwise.
        dry_run: Only tell what would be added.

    Raises:
        InvalidRequestError: there is no such file, or it is in no known form.
        StoreUnavailableError: MongoDB cannot be reached; what was imported until now stays.
    """
    await parts.index.sidecar()
    chosen = await asyncio.to_thread(find_format, path, form)
    done = Imported(chosen.name)
    work = _Import(parts, scope, dry_run=dry_run)
    entries = chosen.read(path)
    while batch := await asyncio.to_thread(_next_batch, entries):
        await work.take(batch, done)
        if progress is not None:
            progress(done.added + done.present + done.refused_count)
    await work.finish()
    return done


class _Import:
    """One import under way."""

    def __init__(self, parts: Parts, scope: str | None, *, dry_run: bool) -> None:
        self._parts, self._scope, self._dry_run = parts, scope, dry_run
        self._seen: set[MemoryId] = set()
        self._made: dict[str, Incoming] = {}

    async def take(self, batch: list[Incoming | Refused], done: Imported) -> None:
        wanted: dict[MemoryId, Incoming] = {}
        for one in batch:
            if isinstance(one, Refused):
                done.refuse(one)
            elif (fault := self._fault(one)) is not None:
                done.refuse(Refused(one.title or one.text[:40], fault))
            elif (memory_id := id_of(one)) in self._seen:
                done.present += 1
            else:
                self._seen.add(memory_id)
                wanted[memory_id] = one
        there = await self._parts.store.locate(list(wanted)) if wanted else {}
        done.present += len(there)
        new = {memory_id: one for memory_id, one in wanted.items() if memory_id not in there}
        if self._dry_run:
            done.added += len(new)
            return
        memories = []
        for memory_id, one in new.items():
            try:
                memories.append(self._memory(memory_id, one, await self._open_scope(one)))
            except InfiniteMemoryError as problem:
                done.refuse(Refused(one.title or one.text[:40], str(problem)))
        await self._keep(memories)
        done.added += len(memories)

    async def finish(self) -> None:
        """Put away again what was archived where it came from, and was made here."""
        for name, one in self._made.items():
            if one.archived_at is not None:
                scope = await self._parts.scopes.get(name)
                await self._parts.store.set_scope_archived(scope.scope_id, one.archived_at)
        if self._made:
            await self._parts.scopes.refresh()
            self._parts.index.scopes_changed()

    def _fault(self, one: Incoming) -> str | None:
        limits = self._parts.config.limits
        if not one.text.strip():
            return "has no text"
        try:
            size = len(one.text.encode())
        except UnicodeEncodeError:
            return "is no valid text"
        return f"its text has {size:,} bytes, the limit is {limits.text_bytes:,}" if size > limits.text_bytes else None

    async def _open_scope(self, one: Incoming) -> Scope:
        name = (self._scope or one.scope or GLOBAL).strip()[:_NAME_CHARS]
        check_name(name)
        known = {scope.name for scope in self._parts.scopes.all()}
        scope = await self._parts.scopes.get_open(name, create=True)
        if scope.name not in known:
            self._made[scope.name] = one
            if one.scope_description:
                await self._parts.store.change_scope(scope.scope_id, description=one.scope_description)
        return scope

    def _memory(self, memory_id: MemoryId, one: Incoming, scope: Scope) -> MemoryRecord:
        now = floor_to_millisecond(self._parts.clock())
        created_at = floor_to_millisecond(one.created_at) if one.created_at else now
        occurred_at = floor_to_millisecond(one.occurred_at) if one.occurred_at else created_at
        return MemoryRecord(
            memory_id=memory_id,
            scope_id=scope.scope_id,
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
            deleted_at=one.deleted_at,
        )

    async def _keep(self, memories: list[MemoryRecord]) -> None:
        if not memories:
            return
        made: list[Embedding | None] = [None] * len(memories)
        with contextlib.suppress(EmbeddingError):  # they are kept, and embedded later
            made = list(await self._parts.embeddings.embed_memories([embedded_text(one) for one in memories]))
        whole = [dataclasses.replace(one, embedding=two) for one, two in zip(memories, made, strict=True)]
        await self._parts.store.insert(whole)
        await self._parts.index.wrote([one for one in whole if one.deleted_at is None])


def id_of(one: Incoming) -> MemoryId:
    """Give the id that an incoming memory has each time it is read: ours, or one made from its key and time."""
    if one.memory_id is not None and _OUR_ID.fullmatch(one.memory_id):
        return MemoryId(one.memory_id)
    seconds = int(one.occurred_at.timestamp()) if one.occurred_at else 0
    digest = hashlib.sha256(one.key.encode("utf-8", "surrogatepass")).digest()
    return MemoryId((min(max(seconds, 0), 0xFFFFFFFF).to_bytes(4, "big") + digest[:8]).hex())


def _next_batch(entries: Iterator[Incoming | Refused]) -> list[Incoming | Refused]:
    try:
        return list(islice(entries, BATCH))
    except (OSError, UnicodeDecodeError) as problem:
        raise InvalidRequestError("path", f"cannot be read: {problem}") from problem
