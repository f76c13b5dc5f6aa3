"""Tidying that touches memories: only when it is asked for by name, told beforehand by a dry run, and undoable.

Whatever goes is hidden as by soft forgetting: `restore_memory` brings it back until it is purged. A dry run goes the same way up to
the first write, so it promises what the run then does.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from infinite_memory.engine import Engine
from infinite_memory.engine.remember import content_hash
from infinite_memory.errors import EmbeddingError, StoreError
from infinite_memory.lifecycle.sameness import exact_key, say_the_same
from infinite_memory.models import Filter, MemoryId, MemoryRecord, floor_to_millisecond, fold

NEAR = 0.75  # cosine from which two texts are compared word by word; the words decide, so it may be low
NEIGHBOURS = 20
QUIET = dt.timedelta(days=30)  # a conversation is old when nothing was said in it for so long
LONG_CONVERSATION = 12  # memories from which a summary is shorter than what it sums up
SUMMARY_LINES = 5
SUMMARY = "summary"
DETAILS_TOLD = 200


class Tidying(enum.Enum):
    """What can be asked for beside the maintenance that changes nothing."""

    DEDUPLICATE = "deduplicate"
    MERGE_SIMILAR = "merge_similar"
    PRUNE = "prune"
    SUMMARIZE = "summarize"


@dataclass(frozen=True, slots=True)
class Tidied:
    """What one operation did, or with a dry run would do; ``details`` names the memories, the first of them."""

    operation: Tidying
    count: int
    said: str
    details: list[dict[str, Any]] = field(default_factory=list)


class Tidier:
    """Carries out the operations over one engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine, self._parts = engine, engine.parts

    async def run(self, operation: Tidying, *, dry_run: bool) -> Tidied:
        """Carry out one operation over every scope that is not archived."""
        await self._parts.index.sidecar()
        if operation is Tidying.PRUNE:
            return await self._prune(dry_run=dry_run)
        if operation is Tidying.SUMMARIZE:
            return await self._summarize(dry_run=dry_run)
        groups: list[list[MemoryRecord]] = []
        for scope in self._parts.scopes.all():
            if scope.archived_at is None:
                memories = [one async for one in self._parts.store.stream([scope.scope_id])]
                found = _equal(memories) if operation is Tidying.DEDUPLICATE else await self._similar(memories)
                groups += sorted(found, key=lambda group: group[0].memory_id)
        gone = sum(len(group) - 1 for group in groups)
        details = [{"kept": one.memory_id, "merged": [other.memory_id for other in rest]} for one, *rest in groups]
        if not dry_run:
            for group in groups:
                await self._merge(group)
        kind = "duplicate" if operation is Tidying.DEDUPLICATE else "similar"
        said = f"{'would_remove' if dry_run else 'removed'}_{gone}_{kind}_entries"
        return Tidied(operation, gone, said, details[:DETAILS_TOLD])

    async def _similar(self, memories: Sequence[MemoryRecord]) -> list[list[MemoryRecord]]:
        """Group memories that say the same in nearly the same words; the newest form of each is kept."""
        sidecar = await self._parts.index.sidecar()
        by_id = {one.memory_id: one for one in memories}
        taken: set[MemoryId] = set()
        groups = []
        for one in sorted(memories, key=_age, reverse=True):
            if one.memory_id in taken or one.embedding is None or one.embedding.space != self._space():
                continue
            near = sidecar.search(one.embedding.vectors[0], NEIGHBOURS, Filter(scope_ids=frozenset({one.scope_id})))
            same = [
                other
                for hit in near
                if hit.score >= NEAR
                and (other := by_id.get(hit.memory_id)) is not None
                and other.memory_id not in taken | {one.memory_id}
                and _belong_together(one, other)
                and say_the_same(one.text, other.text)
            ]
            if same:
                group = [one, *sorted(same, key=_age, reverse=True)]
                taken |= {member.memory_id for member in group}
                groups.append(group)
        return groups

    def _space(self) -> str:
        try:
            return self._parts.embeddings.space
        except EmbeddingError:
            return ""

    async def _merge(self, group: Sequence[MemoryRecord]) -> None:
        """Give the first of a group the times and tags of all, then hide the others; doing it again changes nothing."""
        first, *rest = group
        merged = _united(first, rest)
        if merged != first:
            try:
                stored = await self._parts.store.replace(
                    dataclasses.replace(merged, updated_at=floor_to_millisecond(self._parts.clock())), revise=True
                )
            except StoreError:
                return  # somebody changed it at this moment; the next run meets it again
            await self._parts.index.wrote([stored])
        await self._hide(rest)

    async def _hide(self, memories: Iterable[MemoryRecord]) -> None:
        located = {one.memory_id: one.scope_id for one in memories}
        await self._parts.store.soft_delete(located, floor_to_millisecond(self._parts.clock()))
        self._parts.index.removed(located)

    async def _prune(self, *, dry_run: bool) -> Tidied:
        """Hide what is older than it may be, and what is too much: least important first, then oldest."""
        settings, now = self._parts.config.retention, self._parts.clock()
        pruned: list[MemoryRecord] = []
        for scope in self._parts.scopes.all():
            if scope.archived_at is not None or (settings.max_age_days is None and settings.max_memories is None):
                continue
            kept = [one async for one in self._parts.store.stream([scope.scope_id])]
            if settings.max_age_days is not None:
                limit = now - dt.timedelta(days=settings.max_age_days)
                old = [one for one in kept if max(one.occurred_at, one.updated_at) < limit]
                pruned += old
                kept = [one for one in kept if max(one.occurred_at, one.updated_at) >= limit]
            if settings.max_memories is not None and len(kept) > settings.max_memories:
                kept.sort(key=lambda one: (one.importance or 0.0, *_age(one)))
                pruned += kept[: len(kept) - settings.max_memories]
        if not dry_run:
            await self._hide(pruned)
        said = f"{'would_prune' if dry_run else 'pruned'}_{len(pruned)}_entries"
        return Tidied(Tidying.PRUNE, len(pruned), said, [{"memory_id": one.memory_id} for one in pruned[:DETAILS_TOLD]])

    async def _summarize(self, *, dry_run: bool) -> Tidied:
        """Add a summary to each long conversation that has gone quiet: its most central sayings, in order, word for word."""
        before = self._parts.clock() - QUIET
        made: list[MemoryRecord] = []
        for scope in self._parts.scopes.all():
            if scope.archived_at is not None:
                continue
            talks: dict[str, list[MemoryRecord]] = defaultdict(list)
            async for one in self._parts.store.stream([scope.scope_id]):
                if one.conversation_id and one.source != SUMMARY and one.embedding is not None:
                    talks[one.conversation_id].append(one)
            for talk in talks.values():
                if len(talk) >= LONG_CONVERSATION and max(one.occurred_at for one in talk) < before:
                    made.append(self._summary(sorted(talk, key=_age)))
        there = await self._parts.store.locate([one.memory_id for one in made]) if made else {}
        made = [one for one in made if one.memory_id not in there]
        if not dry_run and made:
            embeddings = await self._parts.embeddings.embed_memories([one.text for one in made])
            whole = [dataclasses.replace(one, embedding=two) for one, two in zip(made, embeddings, strict=True)]
            await self._parts.store.insert(whole)
            await self._parts.index.wrote(whole)
        said = f"{'would_summarize' if dry_run else 'summarized'}_{len(made)}_conversations"
        details = [{"summary": one.memory_id, "conversation_id": one.conversation_id} for one in made[:DETAILS_TOLD]]
        return Tidied(Tidying.SUMMARIZE, len(made), said, details)

    def _summary(self, talk: Sequence[MemoryRecord]) -> MemoryRecord:
        import numpy as np

        rows = np.stack([one.embedding.vectors[0] for one in talk if one.embedding is not None])
        central = np.argsort(-(rows @ rows.mean(axis=0)), kind="stable")[:SUMMARY_LINES]
        text = "\n".join(talk[number].text for number in sorted(central.tolist()))
        last, now = talk[-1], floor_to_millisecond(self._parts.clock())
        key = hashlib.sha256(f"summary {last.scope_id} {last.conversation_id} {last.memory_id}".encode()).digest()
        return MemoryRecord(
            memory_id=MemoryId(
                (int(last.occurred_at.timestamp()) & 0xFFFFFFFF).to_bytes(4, "big").hex() + key[:8].hex()
            ),
            scope_id=last.scope_id,
            text=text,
            source=SUMMARY,
            occurred_at=last.occurred_at,
            created_at=now,
            updated_at=now,
            tags=(SUMMARY,),
            conversation_id=last.conversation_id,
            metadata={"summarized": len(talk)},
            occurrences=(last.occurred_at,),
            content_hash=content_hash(text),
        )


def _equal(memories: Iterable[MemoryRecord]) -> list[list[MemoryRecord]]:
    """Group memories of the very same text; the oldest of each is kept."""
    by_text: dict[str, list[list[MemoryRecord]]] = defaultdict(list)
    for one in sorted(memories, key=_age):
        groups = by_text[exact_key(one.text)]
        group = next((group for group in groups if _belong_together(group[0], one)), None)
        if group is None:
            groups.append([one])
        else:
            group.append(one)
    return [group for groups in by_text.values() for group in groups if len(group) > 1]


def _belong_together(one: MemoryRecord, other: MemoryRecord) -> bool:
    """Tell whether nothing but text, time, tags and conversation tells two memories apart."""
    return all(
        getattr(one, name) == getattr(other, name)
        for name in ("speaker", "type", "status", "source", "title", "owners", "metadata", "structured")
    )


def _united(first: MemoryRecord, rest: Sequence[MemoryRecord]) -> MemoryRecord:
    tags = {fold(tag): tag for one in reversed([first, *rest]) for tag in reversed(one.tags)}
    ordered = dict.fromkeys(fold(tag) for one in (first, *rest) for tag in one.tags)
    for one in rest:
        if one.conversation_id and one.conversation_id != first.conversation_id:
            tag = f"conversation:{one.conversation_id}"  # found under each conversation that it was part of
            tags.setdefault(fold(tag), tag)
            ordered.setdefault(fold(tag))
    times = {instant for one in (first, *rest) for instant in (one.occurrences or (one.occurred_at,))}
    weights = [one.importance for one in (first, *rest) if one.importance is not None]
    return dataclasses.replace(
        first,
        tags=tuple(tags[key] for key in ordered),
        occurrences=tuple(sorted(times)),
        importance=max(weights) if weights else None,
    )


def _age(memory: MemoryRecord) -> tuple[dt.datetime, MemoryId]:
    return memory.occurred_at, memory.memory_id
