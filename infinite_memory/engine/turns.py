"""What a conversation says for one of its turns: what was said just before and after it, and what else of the conversation fits.

A question is often answered by a turn that has few of its words: the words stand in the turn before ("Where did you go?") or after, and
other turns of the same conversation speak of it too. Pages, as assistants write them, stand for themselves: they take no words from
beside them and lend none. Where a user and an assistant spoke, a question goes to what the user said, unless it asks what the
assistant did ("what did you recommend?"). Only candidates of the search speak for each other. Memories of no conversation are ordered
as if this were not there.

The weights are a logistic fit, each listed answer against all other candidates of its question, to a public set of conversations; a fit
to the others orders those of a conversation alike. `scripts/bench order` fits and judges again. `ADDRESSED` stands in a plateau of another
set, of chats with an assistant: half and twice as much give the same recall@10 within .003.
"""

from __future__ import annotations

import re
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
ADDRESSED = 0.15  # for a turn of the one whom the question asks about, of a user and an assistant

MAX_TURNS = 5000  # of a conversation: a longer one is about everything, and takes milliseconds to put in order
SPEAKING = 50  # candidates nearest in meaning, and as many by words, speak for others, however many are looked at


USER, ASSISTANT = "user", "assistant"  # speakers, as hooks and the public sets name them

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
    """A candidate of a conversation: its place there, and what speaks for it alone, each on the scale of the search."""

    memory_id: MemoryId
    turn: Neighbours
    is_short: bool
    meaning: float
    words: float
    score: float
    is_addressed: bool = False


class Evidence(NamedTuple):
    """What the turns before and after a candidate have of the words, how good the best other candidate of its conversation is, and 1
    where the question asks about its speaker."""

    before: float
    after: float
    conversation: float
    addressed: float = 0.0

    @property
    def lift(self) -> float:
        """What this adds to a score."""
        beside = BEFORE * self.before + AFTER * self.after
        return beside + CONVERSATION * self.conversation + ADDRESSED * self.addressed


def find_addressed(question: str) -> str | None:
    """Return which of `USER` and `ASSISTANT` an English question asks about; None where it says "you" and does not ask what was said."""
    if _ASKS_ASSISTANT.search(question):
        return ASSISTANT
    return None if _SAYS_YOU.search(question) else USER


def find_evidence(candidates: Sequence[Spoken]) -> dict[MemoryId, Evidence]:
    """Return what their conversations say for *candidates*."""
    speaking = {
        candidate.memory_id: candidate
        for by in (_BY_MEANING, _BY_WORDS)
        for candidate in sorted(candidates, key=by, reverse=True)[:SPEAKING]
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
        return Evidence(*beside, others[0] if others else 0.0, float(one.is_addressed))

    return {candidate.memory_id: evidence(candidate) for candidate in candidates}
