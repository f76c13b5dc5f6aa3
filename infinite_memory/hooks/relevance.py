"""The relevance of hits to a prompt, as a probability for each; hits below `hooks.min_confidence` are not shown.

Why the engine's confidence is not enough: it separates questions about remembered topics from others, but only about half of the hits
that it is confident in are what was asked for. The right hit stands out by its lead over every other, in cosine and in words: if both
agree there is little doubt. The turn that follows it is not a rival: it is about the same topic. The model is a logistic regression on
both leads, the cosine and the coverage of the prompt's words, fitted to two public sets of conversations and evaluated by leaving one
conversation out (`docs/performance-hooks.md` has the table, `scripts/bench hooks --data` reproduces it). A hit counts as right if it, or
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

JUDGED = 5  # hits; the model was fitted to these
MAX_CHARS = 1500  # of a hit's text are searched for the prompt's words

MIN_CONFIDENCE = 0.5  # of the engine: questions about other topics stay below it

USUAL_COSINE, USUAL_WORDS = 0.3, 0.25
"""Minimum of the best rival in 19 of 20 searches of a large memory; a lead over less means nothing."""
MAX_COSINE_LEAD, MAX_WORDS_LEAD = 0.2, 0.3  # in either direction; a larger lead adds no certainty

_ZERO, _BY_COSINE, _BY_COVERAGE, _BY_COSINE_LEAD, _BY_WORDS_LEAD = -1.57, 1.69, 1.18, 2.29, 7.56
"""Fitted coefficients, but the first is .14 above the fit, as with a bound of .67. Still .81 and .96 of the shown hits are right."""

_ASKS = re.compile(r"[?？؟][\"'”’)\]*_\s]*(?:\[[^\]]*\]\s*)?\Z")


def judge(
    prompt: str,
    matches: Sequence[Match],
    explanations: Mapping[MemoryId, Explanation],
    followers: Mapping[MemoryId, MemoryId],
) -> list[tuple[Match, float]]:
    """Return those of the first hits that pass `MIN_CONFIDENCE`, in order, each with the probability that it answers *prompt*.

    Args:
        matches: The hits that may be shown: a hit's lead is over these only.
        explanations: The explanation of each hit.
        followers: For each hit, the turn right after it.
    """
    prompt_stems = _stems(prompt)
    judged = []
    for match in matches[:JUDGED]:
        if match.confidence < MIN_CONFIDENCE:
            continue
        own = explanations[match.memory.memory_id]
        exchange = {match.memory.memory_id, followers.get(match.memory.memory_id)}
        rivals = [explanations[match.memory.memory_id] for match in matches if match.memory.memory_id not in exchange]
        cosine_lead, words_lead = _leads(own, rivals)
        coverage = len(prompt_stems & _stems(match.memory.text[:MAX_CHARS])) / max(1, len(prompt_stems))
        evidence = _ZERO + _BY_COSINE * (own.cosine or 0.0) + _BY_COVERAGE * coverage
        evidence += _BY_COSINE_LEAD * cosine_lead + _BY_WORDS_LEAD * words_lead
        judged.append((match, 1.0 / (1.0 + math.exp(-evidence))))
    return judged


def _leads(hit: Explanation, rivals: Sequence[Explanation]) -> tuple[float, float]:
    """Return a hit's lead over its best rival in cosine and in words, each separately; negative if it is behind."""
    in_meaning = (hit.cosine or 0.0) - max([USUAL_COSINE, *(rival.cosine or 0.0 for rival in rivals)])
    in_words = hit.parts.words - max([USUAL_WORDS, *(rival.parts.words for rival in rivals)])
    return _within(in_meaning, MAX_COSINE_LEAD), _within(in_words, MAX_WORDS_LEAD)


def _within(value: float, bound: float) -> float:
    return max(-bound, min(bound, value))


def asks(memory: MemoryRecord) -> bool:
    """True if a memory ends in a question."""
    return _ASKS.search(memory.text[-300:]) is not None


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem_words(content_words(tokenize(text))))
