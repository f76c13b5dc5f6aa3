"""Finds duplicate memories that can be merged into one: with identical text, or nearly so."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from infinite_memory.engine.doubles import belong_together
from infinite_memory.models import MAX_MEMORY_TAGS, MemoryId, MemoryRecord, fold
from infinite_memory.text.equivalence import exact_key, say_the_same


def group_equal(memories: Iterable[MemoryRecord]) -> list[list[MemoryRecord]]:
    """Group memories of identical text; the oldest of each group comes first, to be kept."""
    by_text: dict[str, list[list[MemoryRecord]]] = defaultdict(list)
    for memory in sorted(memories, key=by_age):
        groups = by_text[exact_key(memory.text)]
        group = next((group for group in groups if belong_together(group[0], memory)), None)
        if group is None:
            groups.append([memory])
        else:
            group.append(memory)
    return [group for groups in by_text.values() for group in groups if len(group) > 1]


def group_similar(
    memories: Iterable[MemoryRecord], near: Callable[[MemoryRecord], Sequence[MemoryId]]
) -> list[list[MemoryRecord]]:
    """Group memories that say the same in nearly the same words; the newest of each group comes first, to be kept.

    Args:
        near: Returns the memories nearest in meaning, nearest first; may include the memory itself.
    """
    by_id = {memory.memory_id: memory for memory in memories}
    used_ids: set[MemoryId] = set()
    groups = []
    for newest in sorted(by_id.values(), key=by_age, reverse=True):
        if newest.memory_id in used_ids:
            continue
        similar = [
            other
            for memory_id in near(newest)
            if memory_id != newest.memory_id
            and memory_id not in used_ids
            and (other := by_id.get(memory_id)) is not None
            and belong_together(newest, other)
            and say_the_same(newest.text, other.text)
        ]
        if similar:
            group = [newest, *sorted(similar, key=by_age, reverse=True)]
            used_ids |= {member.memory_id for member in group}
            groups.append(group)
    return groups


def fits(group: Sequence[MemoryRecord]) -> bool:
    """True if the tags of all fit on one memory."""
    return len(united(group[0], group[1:]).tags) <= max(MAX_MEMORY_TAGS, len(group[0].tags))


def united(first: MemoryRecord, rest: Sequence[MemoryRecord]) -> MemoryRecord:
    """Return the first of a group with the tags and times of all, and the highest importance."""
    tags = {fold(tag): tag for memory in reversed([first, *rest]) for tag in reversed(memory.tags)}
    ordered = dict.fromkeys(fold(tag) for memory in (first, *rest) for tag in memory.tags)
    for memory in rest:
        if memory.conversation_id and memory.conversation_id != first.conversation_id:
            tag = f"conversation:{memory.conversation_id}"  # can be found by each conversation that it was part of
            tags.setdefault(fold(tag), tag)
            ordered.setdefault(fold(tag))
    times = {instant for memory in (first, *rest) for instant in (memory.occurrences or (memory.occurred_at,))}
    weights = [memory.importance for memory in (first, *rest) if memory.importance is not None]
    return dataclasses.replace(
        first,
        tags=tuple(tags[key] for key in ordered),
        occurrences=tuple(sorted(times)),
        importance=max(weights) if weights else None,
    )


def by_age(memory: MemoryRecord) -> tuple[dt.datetime, MemoryId]:
    """Return the sort key of a memory: oldest first."""
    return memory.occurred_at, memory.memory_id
