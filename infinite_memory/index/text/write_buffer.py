"""Changes that are not yet in the index's files; buffered memories are searched by brute force: same words, same formula, same filters.

There are at most a few hundred of them, so a scan costs less than a commit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from infinite_memory.index.base import Phrase
from infinite_memory.models import IndexRow, MemoryId, ScopeId

K = TypeVar("K")


@dataclass(frozen=True, slots=True, eq=False)
class Passage:
    """A passage to be written: its stems with their counts, and the words of the text in order."""

    stems: Sequence[str]
    counts: Counter[str]
    words: Sequence[str]

    @property
    def length(self) -> int:
        """Number of stems."""
        return len(self.stems)

    def has(self, phrase: Phrase) -> bool:
        """True if the words of *phrase* are consecutive in the text."""
        words, first = list(phrase.words), phrase.words[0]
        return first in self.words and any(
            word == first and list(self.words[offset : offset + len(words)]) == words
            for offset, word in enumerate(self.words)
        )


@dataclass(frozen=True, slots=True, eq=False)
class BufferedMemory:
    """A memory to be written: its row and its passages, one unless the text is long."""

    row: IndexRow
    passages: Sequence[Passage]

    @property
    def length(self) -> int:
        """Number of stems in all passages."""
        return sum(passage.length for passage in self.passages)

    def stems(self) -> Counter[str]:
        """Count the passages that have each stem."""
        return Counter(stem for passage in self.passages for stem in passage.counts)

    def has(self, phrase: Phrase) -> bool:
        """True if the words of *phrase* are consecutive in one passage."""
        return any(passage.has(phrase) for passage in self.passages)


@dataclass(frozen=True, slots=True)
class BufferedChanges:
    """Writes and removals up to a moment, to be flushed. The values of removals distinguish one from a later one."""

    memories: Mapping[MemoryId, BufferedMemory]
    removed: Mapping[MemoryId, object]
    removed_scopes: Mapping[ScopeId, object]

    def __len__(self) -> int:
        return len(self.memories) + len(self.removed) + len(self.removed_scopes)


class WriteBuffer:
    """Changes since the last flush. Not locked; its owner serialises calls."""

    def __init__(self) -> None:
        self._memories: dict[MemoryId, BufferedMemory] = {}
        self._removed: dict[MemoryId, object] = {}
        self._removed_scopes: dict[ScopeId, object] = {}
        self._stem_counts: Counter[str] = Counter()
        self.length = self.passages = 0

    def __len__(self) -> int:
        return len(self._memories) + len(self._removed) + len(self._removed_scopes)

    def find(self, memory_id: MemoryId) -> BufferedMemory | None:
        """Return a buffered memory; None if it is not buffered."""
        return self._memories.get(memory_id)

    def has_removed(self, memory_id: MemoryId) -> bool:
        """True if the memory itself was removed, not its whole scope."""
        return memory_id in self._removed

    @property
    def removed_scopes(self) -> list[ScopeId]:
        """The scopes that were removed."""
        return list(self._removed_scopes)

    def memories(self) -> list[BufferedMemory]:
        """Return the buffered memories."""
        return list(self._memories.values())

    def hidden_ids(self) -> list[MemoryId]:
        """Return the memories to hide in the files: outdated or removed ones."""
        return [*self._memories, *self._removed]

    def put(self, memory: BufferedMemory) -> None:
        """Add or replace a memory."""
        self._drop(memory.row.memory_id)
        self._removed.pop(memory.row.memory_id, None)
        self._memories[memory.row.memory_id] = memory
        self._stem_counts.update(memory.stems())
        self.length += memory.length
        self.passages += len(memory.passages)

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Remove memories, here and at the next flush from the files."""
        for memory_id in memory_ids:
            self._drop(memory_id)
            self._removed[memory_id] = object()

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Remove all memories of a scope, here and at the next flush from the files."""
        for memory_id in [memory_id for memory_id, memory in self._memories.items() if memory.row.scope_id == scope_id]:
            self._drop(memory_id)
        self._removed_scopes[scope_id] = object()

    def changes(self) -> BufferedChanges:
        """Return a copy of the changes to write."""
        return BufferedChanges(dict(self._memories), dict(self._removed), dict(self._removed_scopes))

    def settle(self, written: BufferedChanges) -> None:
        """Drop flushed changes, except those superseded meanwhile."""
        for memory_id, memory in written.memories.items():
            if self._memories.get(memory_id) is memory:
                self._drop(memory_id)
        _settle(self._removed, written.removed)
        _settle(self._removed_scopes, written.removed_scopes)
        self._stem_counts = +self._stem_counts

    def frequency(self, stem: str) -> int:
        """Count the passages that have a stem."""
        return max(0, self._stem_counts.get(stem, 0))

    def word_frequency(self, word: str) -> int:
        """Count the passages whose texts have a word."""
        return sum(word in passage.words for memory in self._memories.values() for passage in memory.passages)

    def _drop(self, memory_id: MemoryId) -> None:
        if (memory := self._memories.pop(memory_id, None)) is not None:
            self._stem_counts.subtract(memory.stems())
            self.length -= memory.length
            self.passages -= len(memory.passages)


def _settle(removed: dict[K, object], written: Mapping[K, object]) -> None:
    for memory_id, mark in written.items():
        if removed.get(memory_id) is mark:
            del removed[memory_id]
