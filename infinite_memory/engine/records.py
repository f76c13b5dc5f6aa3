"""Builds the records of new or changed memories, with their vectors. Nothing is stored here.

If the model fails nothing is lost: the record has no vector then, and is embedded later.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from infinite_memory.clock import Clock
from infinite_memory.embedding.service import EmbeddingService
from infinite_memory.engine.types import MemoryUpdate, NewMemory, StoreResult
from infinite_memory.errors import EmbeddingError, LimitExceededError
from infinite_memory.index.embedding_backlog import embedded_text
from infinite_memory.models import (
    CONVERSATION_PREFIXES,
    FIELDS,
    MAX_MEMORY_TAGS,
    SPEAKER_PREFIXES,
    Embedding,
    MemoryRecord,
    Scope,
    content_hash,
    floor_to_millisecond,
    get_details,
    tagged_value,
)
from infinite_memory.store.base import Store

LONG_CHARS = 64_000  # longer texts are embedded after the reply: about sixty windows, two seconds of the model
FEW_DRAFTS, FEW_CHARS = 20, 200_000  # built without a thread: hashing more would block the event loop


class RecordMaker:
    """Builds records. Use from one event loop only."""

    def __init__(self, *, store: Store, embeddings: EmbeddingService, clock: Clock) -> None:
        self._store, self._embeddings, self._clock = store, embeddings, clock

    async def make_all(self, drafts: Sequence[NewMemory], scopes: Mapping[str, Scope]) -> list[StoreResult]:
        """Return records with their vectors; *scopes* are by name."""
        if len(drafts) <= FEW_DRAFTS and sum(len(draft.text) for draft in drafts) <= FEW_CHARS:
            memories = [self.make(draft, scopes[draft.scope]) for draft in drafts]
        else:
            memories = await asyncio.to_thread(lambda: [self.make(draft, scopes[draft.scope]) for draft in drafts])
        vectors = await self.embed(memories)
        return [
            StoreResult(dataclasses.replace(memory, embedding=embedding), scopes[draft.scope], pending)
            for memory, (embedding, pending), draft in zip(memories, vectors, drafts, strict=True)
        ]

    async def embed(self, memories: Sequence[MemoryRecord]) -> list[tuple[Embedding | None, str | None]]:
        """Return the embedding of each memory, or the reason why it is postponed."""
        texts = [embedded_text(memory) for memory in memories]
        short = [text for text in texts if len(text) <= LONG_CHARS]
        try:
            embeddings = iter(await self._embeddings.embed_memories(short) if short else [])
        except EmbeddingError as exc:
            return [(None, str(exc))] * len(memories)
        return [(next(embeddings), None) if len(text) <= LONG_CHARS else (None, "its text is long") for text in texts]

    def make(self, new_memory: NewMemory, scope: Scope) -> MemoryRecord:
        """Return a record without a vector."""
        now = floor_to_millisecond(self._clock())
        happened = floor_to_millisecond(new_memory.occurred_at) if new_memory.occurred_at else now
        return MemoryRecord(
            memory_id=new_memory.memory_id or self._store.new_id(),
            scope_id=scope.scope_id,
            text=new_memory.text,
            source=new_memory.source,
            occurred_at=happened,
            created_at=now,
            updated_at=now,
            tags=new_memory.tags,
            **_details(new_memory),
            owners=new_memory.owners,
            metadata=new_memory.metadata,
            structured=new_memory.structured,
            occurrences=(happened,),
            content_hash=content_hash(new_memory.text),
        )

    async def update(self, old: MemoryRecord, new: MemoryRecord) -> tuple[MemoryRecord, str | None]:
        """Return *new* with the current time, embedded again if its text differs from *old*, and the reason if that is postponed."""
        pending = None
        if embedded_text(new) != embedded_text(old):
            [(embedding, pending)] = await self.embed([new])
            new = dataclasses.replace(new, embedding=embedding)
        now = floor_to_millisecond(self._clock())
        return dataclasses.replace(new, content_hash=content_hash(new.text), updated_at=now), pending


def _details(new_memory: NewMemory) -> dict[str, Any]:
    """Return the details of a new memory; tags may name its speaker and conversation."""
    details = get_details(new_memory)
    for name, prefixes in (("speaker", SPEAKER_PREFIXES), ("conversation_id", CONVERSATION_PREFIXES)):
        details[name] = details.get(name) or tagged_value(new_memory.tags, prefixes)
    return details


FACTS = "extracted_facts"
"""Metadata key of the facts that a model extracted from the text."""

_MERGED = ("occurred_at", "metadata")
"""Fields that an update merges instead of replacing."""


def changed(old: MemoryRecord, changes: MemoryUpdate) -> MemoryRecord:
    """Return *old* with *changes* applied; tags that name a speaker or conversation set it as on storing, and clear it when removed.

    Structured content and extracted facts belong to the old text and are removed with it.

    Raises:
        LimitExceededError: it would have more tags than allowed, and more than it has.
    """
    if changes.tags is not None and len(changes.tags) > max(MAX_MEMORY_TAGS, len(old.tags)):
        raise LimitExceededError("tags", len(changes.tags), MAX_MEMORY_TAGS, "tags of one memory")
    parts: dict[str, Any] = {
        name: value
        for name, described in FIELDS.items()
        if described.is_mutable and name not in _MERGED and (value := getattr(changes, name)) is not None
    }
    if changes.tags is not None:
        for name, prefixes in (("speaker", SPEAKER_PREFIXES), ("conversation_id", CONVERSATION_PREFIXES)):
            if name in parts:
                continue
            if (named := tagged_value(changes.tags, prefixes)) or tagged_value(old.tags, prefixes) == getattr(
                old, name
            ):
                parts[name] = named
    if changes.occurred_at is not None and floor_to_millisecond(changes.occurred_at) != old.occurred_at:
        parts["occurred_at"] = floor_to_millisecond(changes.occurred_at)
        parts["occurrences"] = (parts["occurred_at"],)
    if changes.whole_metadata is not None:
        parts["metadata"] = changes.whole_metadata
    if changes.metadata is not None:
        merged = dict(old.metadata) | dict(changes.metadata)
        parts["metadata"] = {key: value for key, value in merged.items() if value is not None}
    for name in changes.no_longer:
        if old.metadata.get(name) == getattr(old, name):
            parts[name] = None
    if changes.text is not None and changes.text != old.text:
        parts["structured"] = None
        metadata = parts.get("metadata", old.metadata)
        if FACTS in metadata and metadata[FACTS] == old.metadata.get(FACTS):
            parts["metadata"] = {key: value for key, value in metadata.items() if key != FACTS}
    return dataclasses.replace(old, **parts)


def says_the_same(old: MemoryRecord, new: MemoryRecord) -> bool:
    """True if a change has no effect; `repr` tells apart 1, 1.0 and true in the metadata, which Python considers equal."""
    return new == old and repr(new.metadata) == repr(old.metadata)
