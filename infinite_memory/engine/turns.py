"""What a conversation says for one of its turns: what was said just before and after it, and what else of the conversation fits.

A question is often answered by a turn that has few of its words: the words stand in the turn before ("Where did you go?") or after, and
other turns of the same conversation speak of it too. Pages, as assistants write them, stand for themselves: they take no words from
beside them and lend none. Only candidates of the search speak for each other. Memories of no conversation are ordered as if this
were not there.

The weights are a logistic fit, each listed answer against all other candidates of its question, to a public set of conversations; a fit
to the others orders those of a conversation alike. `scripts/bench order` fits and judges again.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from infinite_memory.index.base import Neighbours
from infinite_memory.models import MemoryId

# On the scale on which the best words, and the best nearness and words together, have about 1; half and twice as much are alike.
BEFORE = 0.1  # of the words of the turn before
AFTER = 0.15  # of the words of the turn after
CONVERSATION = 0.3  # of the best other candidate of the conversation

MAX_TURNS = 5000  # of a conversation: a longer one is about everything, and takes milliseconds to put in order
SPEAKING = 50  # candidates nearest in meaning, and as many by words, speak for others, however many are looked at


class Spoken(NamedTuple):
    """A candidate of a conversation: its place there, and what speaks for it alone, each on the scale of the search."""

    memory_id: MemoryId
    turn: Neighbours
    is_short: bool
    meaning: float
    words: float
    score: float


class Evidence(NamedTuple):
    """What the turns before and after a candidate have of the words, and how good the best other candidate of its conversation is."""

    before: float
    after: float
    conversation: float

    @property
    def lift(self) -> float:
        """What this adds to a score."""
        return BEFORE * self.before + AFTER * self.after + CONVERSATION * self.conversation


def find_evidence(candidates: Sequence[Spoken]) -> dict[MemoryId, Evidence]:
    """Return what their conversations say for *candidates*."""
    speaking = {
        one.memory_id: one
        for by in (_by_meaning, _by_words)
        for one in heapq.nlargest(SPEAKING, candidates, key=by)
    }  # fmt: skip
    best: dict[str, list[tuple[float, MemoryId]]] = defaultdict(list)
    for one in speaking.values():
        best[one.turn.conversation] = heapq.nlargest(2, [*best[one.turn.conversation], (one.score, one.memory_id)])

    def words(memory_id: MemoryId | None) -> float:
        beside = speaking.get(memory_id) if memory_id is not None else None
        return beside.words if beside is not None and beside.is_short else 0.0

    def evidence(one: Spoken) -> Evidence:
        others = (score for score, memory_id in best[one.turn.conversation] if memory_id != one.memory_id)
        beside = (words(one.turn.before), words(one.turn.after)) if one.is_short else (0.0, 0.0)
        return Evidence(*beside, next(others, 0.0))

    return {one.memory_id: evidence(one) for one in candidates}


def _by_meaning(one: Spoken) -> tuple[float, MemoryId]:
    return one.meaning, one.memory_id


def _by_words(one: Spoken) -> tuple[float, MemoryId]:
    return one.words, one.memory_id
