"""BufferedChanges that are not yet in the index's files; memories among them are searched by hand: same words, same formula, same filters.

There are at most a few hundred of them, so looking at each costs less than one commit would.
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
    """A passage as it will be written: its stems with their counts, and the words of the text in order."""

    stems: Sequence[str]
    counts: Counter[str]
    words: Sequence[str]

    @property
    def length(self) -> int:
        """Number of stems."""
        return len(self.stems)

    def has(self, phrase: Phrase) -> bool:
        """True if the words of *phrase* stand in a row in the text."""
        wanted, first = list(phrase.words), phrase.words[0]
        return first in self.words and any(
            word == first and list(self.words[at : at + len(wanted)]) == wanted for at, word in enumerate(self.words)
        )


@dataclass(frozen=True, slots=True, eq=False)
class BufferedMemory:
    """One memory as it will be written: its row, and its passages, one of a text that is not long."""

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
        """True if the words of *phrase* stand in a row in one passage."""
        return any(passage.has(phrase) for passage in self.passages)


@dataclass(frozen=True, slots=True)
class BufferedChanges:
    """What was written and removed up to a moment, to be brought into the files. The values of removals tell one from a later one."""

    memories: Mapping[MemoryId, BufferedMemory]
    removed: Mapping[MemoryId, object]
    removed_scopes: Mapping[ScopeId, object]

    def __len__(self) -> int:
        return len(self.memories) + len(self.removed) + len(self.removed_scopes)


class WriteBuffer:
    """What changed since it was last in the files. Not locked; its owner is."""

    def __init__(self) -> None:
        self._memories: dict[MemoryId, BufferedMemory] = {}
        self._removed: dict[MemoryId, object] = {}
        self._removed_scopes: dict[ScopeId, object] = {}
        self._stem_counts: Counter[str] = Counter()
        self.length = self.passages = 0

    def __len__(self) -> int:
        return len(self._memories) + len(self._removed) + len(self._removed_scopes)

    def find(self, memory_id: MemoryId) -> BufferedMemory | None:
        """Return a memory that waits; None where it does not."""
        return self._memories.get(memory_id)

    def has_removed(self, memory_id: MemoryId) -> bool:
        """True if the memory was removed, and not its whole scope."""
        return memory_id in self._removed

    @property
    def removed_scopes(self) -> list[ScopeId]:
        """The scopes that were removed."""
        return list(self._removed_scopes)

    def memories(self) -> list[BufferedMemory]:
        """List the memories that wait."""
        return list(self._memories.values())

    def hidden_ids(self) -> list[MemoryId]:
        """List the memories that are in the files in an older form, or are not to be found there."""
        return [*self._memories, *self._removed]

    def put(self, memory: BufferedMemory) -> None:
        """Take a memory in, in place of what is there of it."""
        self._drop(memory.row.memory_id)
        self._removed.pop(memory.row.memory_id, None)
        self._memories[memory.row.memory_id] = memory
        self._stem_counts.update(memory.stems())
        self.length += memory.length
        self.passages += len(memory.passages)

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Take memories out, here and later in the files."""
        for memory_id in memory_ids:
            self._drop(memory_id)
            self._removed[memory_id] = object()

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Take all memories of a scope out, here and later in the files."""
        for memory_id in [one for one, memory in self._memories.items() if memory.row.scope_id == scope_id]:
            self._drop(memory_id)
        self._removed_scopes[scope_id] = object()

    def changes(self) -> BufferedChanges:
        """Copy what there is to be written."""
        return BufferedChanges(dict(self._memories), dict(self._removed), dict(self._removed_scopes))

    def settle(self, written: BufferedChanges) -> None:
        """Leave out what is in the files now, unless it changed again while it was written."""
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
