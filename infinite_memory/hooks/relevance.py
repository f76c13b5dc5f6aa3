"""What of a search surely belongs to a prompt: a probability for each hit, and nothing below `hooks.min_confidence`.

Why the engine's confidence is not enough: it tells a question about something that is remembered from one about something else, and of
what it is sure of about half is what was asked for. The right hit is told from its neighbours by how far it is ahead of every other, in
meaning and in words: where both agree there is little doubt. Its exchange is no rival: the turn that follows it is about the same. This is
a logistic fit of both leads, of cosine and of the prompt's words, to two public sets of conversations, each conversation judged by a fit
to the others (`docs/performance-hooks.md` has the table, `scripts/bench hooks --data` measures again). A hit counts as right where it, or
the other turn of its exchange that is shown with it, is listed as evidence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from infinite_memory.engine.explanation import Explanation
from infinite_memory.models import Match, MemoryId, MemoryRecord
from infinite_memory.text.stemmer import stem_words
from infinite_memory.text.stopwords import content_words
from infinite_memory.text.tokenizer import tokenize

JUDGED = 5  # hits; the fit knows no more
MAX_CHARS = 1500  # of a hit's text are looked at for the prompt's words

MIN_CONFIDENCE = 0.5  # the engine's: a question about something else stays under it

USUAL_COSINE, USUAL_WORDS = 0.3, 0.25
"""What the best rival has at least, in nineteen of twenty searches where much is stored; a lead over less tells nothing."""
MAX_COSINE_LEAD, MAX_WORDS_LEAD = 0.2, 0.3  # either way; a longer lead is no surer

_ZERO, _BY_COSINE, _BY_COVERAGE, _BY_COSINE_LEAD, _BY_WORDS_LEAD = -1.57, 1.69, 1.18, 2.29, 7.56
"""The fit, but for the first: the fit's own is .14 less, which is a bound of .67. Of what is shown, .81 and .96 are right all the same."""

_ASKS = re.compile(r"[?？؟][\"'”’)\]*_\s]*(?:\[[^\]]*\]\s*)?\Z")


def judge(
    prompt: str,
    matches: Sequence[Match],
    explanations: Mapping[MemoryId, Explanation],
    followers: Mapping[MemoryId, MemoryId],
) -> list[tuple[Match, float]]:
    """Return those of the first hits that are near at all, in their order, with the probability that each is what *prompt* asks for.

    Args:
        matches: The hits, without those that are not to be shown: a hit's lead is over those that could be.
        explanations: Of each of them.
        followers: Which hit was said right after which.
    """
    asked = _stems(prompt)
    judged = []
    for match in matches[:JUDGED]:
        if match.confidence < MIN_CONFIDENCE:
            continue
        own = explanations[match.memory.memory_id]
        exchange = {match.memory.memory_id, followers.get(match.memory.memory_id)}
        rivals = [explanations[match.memory.memory_id] for match in matches if match.memory.memory_id not in exchange]
        cosine_lead, words_lead = _leads(own, rivals)
        coverage = len(asked & _stems(match.memory.text[:MAX_CHARS])) / max(1, len(asked))
        evidence = _ZERO + _BY_COSINE * (own.cosine or 0.0) + _BY_COVERAGE * coverage
        evidence += _BY_COSINE_LEAD * cosine_lead + _BY_WORDS_LEAD * words_lead
        judged.append((match, 1.0 / (1.0 + math.exp(-evidence))))
    return judged


def _leads(own: Explanation, rivals: Sequence[Explanation]) -> tuple[float, float]:
    """Return how far a hit is ahead of the best of its rivals in meaning and in words, each for itself; below 0 where it is behind."""
    in_meaning = (own.cosine or 0.0) - max([USUAL_COSINE, *(rival.cosine or 0.0 for rival in rivals)])
    in_words = own.parts.words - max([USUAL_WORDS, *(rival.parts.words for rival in rivals)])
    return _within(in_meaning, MAX_COSINE_LEAD), _within(in_words, MAX_WORDS_LEAD)


def _within(value: float, most: float) -> float:
    return max(-most, min(most, value))


def asks(memory: MemoryRecord) -> bool:
    """True if a memory ends in a question."""
    return _ASKS.search(memory.text[-300:]) is not None


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem_words(content_words(tokenize(text))))
