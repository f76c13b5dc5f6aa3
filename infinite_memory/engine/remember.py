"""Storing and changing memories: check the scope, embed, store, index; in that order.

The document is durable before the sidecar knows it and before the caller is told. A model that fails loses nothing: the memory
is stored without vectors, marked, and embedded later.
"""

from __future__ import annotations

import dataclasses
import hashlib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from infinite_memory.engine.parts import Changes, Draft, Kept, Parts
from infinite_memory.engine.pending import embedded_text
from infinite_memory.errors import (
    AlreadyExistsError,
    EmbeddingError,
    InfiniteMemoryError,
    InvalidRequestError,
    MemoryChangedError,
    MemoryNotFoundError,
    NotFoundError,
    StoreError,
)
from infinite_memory.models import (
    CONVERSATION_PREFIXES,
    SPEAKER_PREFIXES,
    Embedding,
    MemoryId,
    MemoryRecord,
    Scope,
    floor_to_millisecond,
    tagged_value,
)

# What is wrong with one memory, not with the store.
_REFUSALS = (InvalidRequestError, AlreadyExistsError, NotFoundError)
LONG_CHARS = 64_000  # embedded after the reply: about sixty windows, two seconds of the model
WRITE_TRIES = 20  # of a memory that others change at the same moment; each time one of them has succeeded


def content_hash(text: str) -> str:
    """Name what a text says, whatever its case, Unicode form and white space: SHA-256 in hexadecimal."""
    folded = " ".join(unicodedata.normalize("NFC", text).casefold().split())
    return hashlib.sha256(folded.encode("utf-8", "surrogatepass")).hexdigest()


class Remembering:
    """The engine's methods that write memories."""

    parts: Parts

    async def remember(self, draft: Draft, *, create_scope: bool = True) -> Kept:
        """Store one memory.

        Raises:
            ScopeNotFoundError: the scope does not exist and was not to be made.
            ScopeArchivedError: the scope was put away.
            StoreUnavailableError: nothing was stored, as far as is known.
        """
        kept = await self._remember([draft], create_scope=create_scope)
        return kept[0]

    async def remember_all(self, drafts: Sequence[Draft], *, create_scope: bool = True) -> list[Kept]:
        """Store several memories, all or none; errors as in `remember`.

        A scope that was made for them stays when they fail: others may have stored into it by then, and removing it would take that
        along.
        """
        return await self._remember(drafts, create_scope=create_scope)

    async def remember_each(
        self, drafts: Sequence[Draft], *, create_scope: bool = True
    ) -> list[Kept | InfiniteMemoryError]:
        """Store several memories, each for itself: in the place of one that failed stands its error.

        Raises:
            StoreUnavailableError: nothing was stored, as far as is known.
        """
        results: list[Kept | InfiniteMemoryError] = []
        scopes: dict[str, Scope | InfiniteMemoryError] = {}
        await self.parts.index.connected()
        for name in dict.fromkeys(draft.scope for draft in drafts):
            try:
                scopes[name] = await self.parts.scopes.get_open(name, create=create_scope)
            except InfiniteMemoryError as problem:
                scopes[name] = problem
        good = [draft for draft in drafts if isinstance(scopes[draft.scope], Scope)]
        open_scopes = {name: scope for name, scope in scopes.items() if isinstance(scope, Scope)}
        kept = iter(await self._keep_each(await self._made(good, open_scopes)) if good else [])
        for draft in drafts:
            scope = scopes[draft.scope]
            results.append(next(kept) if isinstance(scope, Scope) else scope)
        return results

    async def update(
        self, memory_id: MemoryId, changes: Changes, *, check: Callable[[MemoryRecord], None] | None = None
    ) -> Kept:
        """Change parts of a memory; what it said before stays readable in its revisions.

        Args:
            check: Sees the memory that is about to be changed, and may raise; the change is made to that version or not at all.

        Raises:
            MemoryNotFoundError: there is no live memory of that id.
        """
        for _ in range(WRITE_TRIES):
            old = await self.get(memory_id)
            if check is not None:
                check(old)
            new = changed(old, changes)
            embedding, pending = None, None
            if embedded_text(new) != embedded_text(old):
                [(embedding, pending)] = await self._embed([new])
            else:
                full = await self.parts.store.fetch({memory_id: old.scope_id}, vectors=True)
                embedding = full[memory_id].embedding if memory_id in full else None
            stamped = dataclasses.replace(
                new, embedding=embedding, content_hash=content_hash(new.text),
                updated_at=floor_to_millisecond(self.parts.clock()),
            )  # fmt: skip
            try:
                stored = await self.parts.store.replace(stamped, revise=True)
            except MemoryChangedError:
                continue
            await self.parts.index.wrote([stored])
            return Kept(stored, self._scope_of(stored), pending)
        raise StoreError(f"memory {memory_id} is being changed by others all the time; try again")

    async def get(self, memory_id: MemoryId) -> MemoryRecord:
        """Read one live memory.

        Raises:
            MemoryNotFoundError: there is none of that id, it was forgotten, or its scope is archived.
        """
        sidecar = await self.parts.index.sidecar()
        located = dict(sidecar.locate([memory_id])) or await self.parts.store.locate([memory_id])
        if located.get(memory_id) in self.parts.scopes.archived_ids():
            raise MemoryNotFoundError(memory_id)
        found = await self.parts.store.fetch(located)
        if memory_id not in found:
            raise MemoryNotFoundError(memory_id)
        return found[memory_id]

    async def history(self, memory_id: MemoryId) -> list[MemoryRecord]:
        """List the earlier versions of a memory, oldest first."""
        return await self.parts.store.revisions_of(memory_id)

    async def _remember(self, drafts: Sequence[Draft], *, create_scope: bool) -> list[Kept]:
        await self.parts.index.connected()  # the index may still be loading: it learns of what is written meanwhile
        scopes = {
            name: await self.parts.scopes.get_open(name, create=create_scope)
            for name in dict.fromkeys(draft.scope for draft in drafts)
        }
        return await self._keep(await self._made(drafts, scopes))

    async def _made(self, drafts: Sequence[Draft], scopes: Mapping[str, Scope]) -> list[Kept]:
        """Make memories with their vectors; nothing is stored yet."""
        memories = [self._memory(draft, scopes[draft.scope]) for draft in drafts]
        vectors = await self._embed(memories)
        return [
            Kept(dataclasses.replace(memory, embedding=embedding), scopes[draft.scope], pending)
            for memory, (embedding, pending), draft in zip(memories, vectors, drafts, strict=True)
        ]

    async def _keep(self, made: Sequence[Kept]) -> list[Kept]:
        memories = [one.memory for one in made]
        await self.parts.store.insert(memories)
        await self.parts.index.wrote(memories)
        return list(made)

    async def _keep_each(self, made: Sequence[Kept]) -> list[Kept | InfiniteMemoryError]:
        """Store all at once; where the store refuses one of them, one by one."""
        try:
            return list(await self._keep(made))
        except _REFUSALS:
            pass
        results: list[Kept | InfiniteMemoryError] = []
        for one in made:
            try:
                results += await self._keep([one])
            except InfiniteMemoryError as problem:
                results.append(problem)
        return results

    async def _embed(self, memories: Sequence[MemoryRecord]) -> list[tuple[Embedding | None, str | None]]:
        """Embed memories, each with the reason where that is put off."""
        texts = [embedded_text(one) for one in memories]
        short = [text for text in texts if len(text) <= LONG_CHARS]
        try:
            made = iter(await self.parts.embeddings.embed_memories(short) if short else [])
        except EmbeddingError as problem:
            return [(None, str(problem))] * len(memories)
        return [(next(made), None) if len(text) <= LONG_CHARS else (None, "its text is long") for text in texts]

    def _memory(self, draft: Draft, scope: Scope) -> MemoryRecord:
        now = floor_to_millisecond(self.parts.clock())
        happened = floor_to_millisecond(draft.occurred_at) if draft.occurred_at else now
        return MemoryRecord(
            memory_id=draft.memory_id or self.parts.store.new_id(),
            scope_id=scope.scope_id,
            text=draft.text,
            source=draft.source,
            occurred_at=happened,
            created_at=now,
            updated_at=now,
            tags=draft.tags,
            type=draft.type,
            title=draft.title,
            importance=draft.importance,
            confidence=draft.confidence,
            status=draft.status,
            speaker=draft.speaker or tagged_value(draft.tags, SPEAKER_PREFIXES),
            conversation_id=draft.conversation_id or tagged_value(draft.tags, CONVERSATION_PREFIXES),
            owners=draft.owners,
            metadata=draft.metadata,
            structured=draft.structured,
            occurrences=(happened,),
            content_hash=content_hash(draft.text),
        )

    def _scope_of(self, memory: MemoryRecord) -> Scope:
        scope = self.parts.scopes.find_by_id(memory.scope_id)
        if scope is None:
            raise MemoryNotFoundError(memory.memory_id)  # its scope was removed at this moment
        return scope


def changed(old: MemoryRecord, changes: Changes) -> MemoryRecord:
    """Apply *changes*; tags that name a speaker or conversation say so as they do when stored, and take it along when they go.

    Structured content that the text was made from goes with the old text.
    """
    parts: dict[str, Any] = {
        name: value
        for name in (
            "text",
            "tags",
            "source",
            "type",
            "title",
            "importance",
            "confidence",
            "speaker",
            "conversation_id",
            "status",
            "owners",
        )
        if (value := getattr(changes, name)) is not None
    }
    if changes.tags is not None:
        for name, prefixes in (("speaker", SPEAKER_PREFIXES), ("conversation_id", CONVERSATION_PREFIXES)):
            if name in parts:
                continue
            if (named := tagged_value(changes.tags, prefixes)) or tagged_value(old.tags, prefixes) == getattr(
                old, name
            ):
                parts[name] = named
    if changes.occurred_at is not None:
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
    return dataclasses.replace(old, **parts)
