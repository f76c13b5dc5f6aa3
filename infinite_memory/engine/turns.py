"""Evidence for a turn from its conversation: the turns just before and after it, and other matching turns.

A question is often answered by a turn with few of its words: they are in the turn before ("Where did you go?") or after, and other turns
of the same conversation are about it too. Long texts, as assistants write them, neither use nor provide neighbouring words. Between a
user and an assistant, a question is about what the user said, unless it asks what the assistant did ("what did you recommend?"). Only
candidates of the search support each other. Memories without a conversation are ranked as if this did not exist.

The weights are a logistic regression, each listed answer against all other candidates of its question, fitted to a public set of
conversations; leaving out one conversation gives the same order for it. `scripts/bench order` repeats fit and evaluation. `ADDRESSED`
is on a plateau of another set, of chats with an assistant: half or twice the value change recall@10 by at most .003.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from infinite_memory.index.base import Neighbours
from infinite_memory.models import MemoryId

# On a scale where the best keyword score, and the best combined score, are about 1; half or twice these values perform alike.
BEFORE = 0.1  # of the keyword score of the turn before
AFTER = 0.15  # of the keyword score of the turn after
CONVERSATION = 0.3  # of the score of the best other candidate in the conversation
ADDRESSED = 0.15  # for a turn of the speaker whom the question asks about, user or assistant

MAX_TURNS = 5000  # of a conversation: a longer one is about everything, and takes milliseconds to sort
SPEAKING = 50  # the best candidates by vector, and as many by keyword, support others, whatever the pool size


USER, ASSISTANT = "user", "assistant"  # speakers, as named by hooks and public data sets

_SAY = "advise|answer|explain|give|list|mention|offer|outline|propose|provide|recommend|say|show|suggest|tell|write"
_SAID = (
    "advised|answered|explained|gave|given|listed|mentioned|offered|outlined|proposed|provided|recommended|said|showed|shown|"
    "suggested|told|written|wrote"
)
_ASKS_ASSISTANT = re.compile(
    rf"\bdid you (?:\w+ )?(?:{_SAY})\b|\byou(?:['’]ve| have| had)? (?:\w+ )?(?:{_SAID})\b"
    r"|\byour (?:advice|answers?|explanations?|proposals?|recommendations?|suggestions?)\b|\bthe assistant\b",
    re.IGNORECASE,
)
_SAYS_YOU = re.compile(r"\b(?:you|your|yours|yourself)\b", re.IGNORECASE)

_BY_MEANING, _BY_WORDS, _BY_SCORE = (attrgetter(name, "memory_id") for name in ("meaning", "words", "score"))


class Spoken(NamedTuple):
    """A candidate in a conversation: its position there, and its own scores on the scale of the search."""

    memory_id: MemoryId
    turn: Neighbours
    is_short: bool
    meaning: float
    words: float
    score: float
    is_addressed: bool = False


class Evidence(NamedTuple):
    """What the conversation of a candidate says for it.

    Keyword scores of the turns before and after it, the score of the best other candidate in its conversation, and 1 if the question
    asks about its speaker.
    """

    before: float
    after: float
    conversation: float
    addressed: float = 0.0

    @property
    def lift(self) -> float:
        """The boost that this adds to a score."""
        from_neighbours = BEFORE * self.before + AFTER * self.after
        return from_neighbours + CONVERSATION * self.conversation + ADDRESSED * self.addressed


def find_addressed(question: str) -> str | None:
    """Return which of `USER` and `ASSISTANT` an English question asks about; None if it says "you" but does not ask what was said."""
    if _ASKS_ASSISTANT.search(question):
        return ASSISTANT
    return None if _SAYS_YOU.search(question) else USER


def find_evidence(candidates: Sequence[Spoken]) -> dict[MemoryId, Evidence]:
    """Return the evidence from their conversations for *candidates*."""
    speaking = {
        candidate.memory_id: candidate
        for by in (_BY_MEANING, _BY_WORDS)
        for candidate in sorted(candidates, key=by, reverse=True)[:SPEAKING]
    }  # fmt: skip
    by_conversation: dict[str, list[Spoken]] = defaultdict(list)
    for spoken in sorted(speaking.values(), key=_BY_SCORE, reverse=True):
        if len(first := by_conversation[spoken.turn.conversation]) < 2:
            first.append(spoken)

    def words(memory_id: MemoryId | None) -> float:
        neighbour = speaking.get(memory_id) if memory_id is not None else None
        return neighbour.words if neighbour is not None and neighbour.is_short else 0.0

    def evidence(turn: Spoken) -> Evidence:
        first = by_conversation[turn.turn.conversation]
        others = [other.score for other in first if other is not turn]
        neighbours = (words(turn.turn.before), words(turn.turn.after)) if turn.is_short else (0.0, 0.0)
        return Evidence(*neighbours, others[0] if others else 0.0, float(turn.is_addressed))

    return {candidate.memory_id: evidence(candidate) for candidate in candidates}
