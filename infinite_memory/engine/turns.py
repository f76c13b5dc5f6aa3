"""What a conversation says for one of its turns: what was said just before and after it, and what else of the conversation fits.

A question is often answered by a turn that has few of its words: the words stand in the turn before ("Where did you go?") or after, and
other turns of the same conversation speak of it too. Pages, as assistants write them, stand for themselves: they take no words from
beside them and lend none. Only candidates of the search speak for each other. Memories of no conversation are ordered as if this
were not there.

The weights are a logistic fit, each listed answer against all other candidates of its question, to a public set of conversations; a fit
to the others orders those of a conversation alike. `scripts/bench order` fits and judges again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from infinite_memory.index.base import Neighbours
from infinite_memory.models import MemoryId

# On the scale on which the best words, and the best nearness and words together, have about 1; half and twice as much are alike.
BEFORE = 0.1  # of the words of the turn before
AFTER = 0.15  # of the words of the turn after
CONVERSATION = 0.3  # of the best other candidate of the conversation

MAX_TURNS = 5000  # of a conversation: a longer one is about everything, and takes milliseconds to put in order
SPEAKING = 50  # candidates nearest in meaning, and as many by words, speak for others, however many are looked at


_BY_MEANING, _BY_WORDS, _BY_SCORE = (attrgetter(name, "memory_id") for name in ("meaning", "words", "score"))


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
        for by in (_BY_MEANING, _BY_WORDS)
        for one in sorted(candidates, key=by, reverse=True)[:SPEAKING]
    }  # fmt: skip
    best: dict[str, list[Spoken]] = defaultdict(list)
    for one in sorted(speaking.values(), key=_BY_SCORE, reverse=True):
        if len(first := best[one.turn.conversation]) < 2:
            first.append(one)

    def words(memory_id: MemoryId | None) -> float:
        beside = speaking.get(memory_id) if memory_id is not None else None
        return beside.words if beside is not None and beside.is_short else 0.0

    def evidence(one: Spoken) -> Evidence:
        first = best[one.turn.conversation]
        others = [other.score for other in first if other is not one]
        beside = (words(one.turn.before), words(one.turn.after)) if one.is_short else (0.0, 0.0)
        return Evidence(*beside, others[0] if others else 0.0)

    return {one.memory_id: evidence(one) for one in candidates}
