"""Memories that are not yet in the index's files, searched by hand: same words, same formula, same filters.

There are at most a few hundred of them, so looking at each costs less than one commit would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from infinite_memory.models import Filter, Row, ScopeId, TagsMode, fold
from infinite_memory.sidecar.base import Phrase

K1, B = 1.2, 0.75  # those of the index's own BM25, which cannot be changed


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
        """Tell whether the words of *phrase* stand in a row in the text."""
        wanted, first = list(phrase.words), phrase.words[0]
        return any(
            word == first and list(self.words[at : at + len(wanted)]) == wanted for at, word in enumerate(self.words)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Recent:
    """One memory as it will be written: its row, and its passages, one of a text that is not long."""

    row: Row
    passages: Sequence[Passage]

    @property
    def length(self) -> int:
        """Number of stems in all passages."""
        return sum(one.length for one in self.passages)

    def stems(self) -> Counter[str]:
        """Count the passages that have each stem."""
        return Counter(stem for one in self.passages for stem in one.counts)

    def has(self, phrase: Phrase) -> bool:
        """Tell whether the words of *phrase* stand in a row in one passage."""
        return any(one.has(phrase) for one in self.passages)


def saturation(length: float, mean_length: float) -> float:
    """Give BM25's term for a memory of *length* words: what a count is weighed against."""
    return K1 * (1 - B + B * length / mean_length)


def passes(row: Row, where: Filter, archived: frozenset[ScopeId]) -> bool:
    """Tell whether *row* passes *where*; the same rule as the catalog's."""
    if row.scope_id in archived if where.scope_ids is None else row.scope_id not in where.scope_ids:
        return False
    if where.memory_ids is not None and row.memory_id not in where.memory_ids:
        return False
    if where.tag_keys:
        wanted = where.tag_keys & row.tag_keys
        if not wanted or (where.tags_mode is TagsMode.ALL and wanted != where.tag_keys):
            return False
    if where.time is not None and not where.time.holds(row.occurred_at):
        return False
    same = (
        (where.source, row.source),
        (where.type, row.type),
        (_folded(where.speaker), _folded(row.speaker)),
        (_folded(where.conversation_id), _folded(row.conversation_id)),
    )
    if any(wanted is not None and wanted != value for wanted, value in same):
        return False
    least = ((where.min_stored_confidence, row.confidence), (where.min_importance, row.importance))
    return all(wanted is None or (value is not None and value >= wanted) for wanted, value in least)


def _folded(text: str | None) -> str | None:
    return None if text is None else fold(text)
