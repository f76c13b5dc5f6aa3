"""What of a search surely belongs to a prompt: a probability for each hit, and nothing below `hooks.min_confidence`.

Why the engine's confidence is not enough: it tells a question about something that is remembered from one about something else, and of
what it is sure of about half is what was asked for. The right hit is told from its neighbours by how far it is ahead of the next one,
and by how many of the prompt's words it has. This is a logistic fit of both, of cosine and rank, to half of the questions of two public
sets of conversations; the other half judged it (`docs/hooks.md` has the table, `scripts/bench hooks --data` measures again). A hit
counts as right where it, or the turn that answers it and is shown with it, is listed as evidence.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from infinite_memory.engine.explanation import Explanation
from infinite_memory.hooks.transcript import ASSISTANT
from infinite_memory.models import Match, MemoryId, MemoryRecord
from infinite_memory.text.stemmer import stem_words
from infinite_memory.text.stopwords import content_words
from infinite_memory.text.tokenizer import tokenize

JUDGED = 5  # hits; the fit knows no more
MAX_CHARS = 1500  # of a hit's text are looked at for the prompt's words

MAX_LEAD = 0.2  # scores are shares of the best one: where little is stored, leads are long and tell little
MIN_CONFIDENCE = 0.5  # the engine's: a question about something else stays under it

_ZERO, _BY_COSINE, _BY_COVERAGE, _BY_LEAD, _BY_RANK, _BY_TELLING = -4.16, 3.72, 1.73, 7.68, -0.88, 0.56  # the fit

_ASKS = re.compile(r"[?？؟][\"'”’)\]*_\s]*(?:\[[^\]]*\]\s*)?\Z")


def judge(
    prompt: str, matches: Sequence[Match], explanations: Mapping[MemoryId, Explanation]
) -> list[tuple[Match, float]]:
    """Return those of the first hits that are near at all, in their order, with the probability that each is what *prompt* asks for.

    Args:
        matches: The hits, without those that are not to be shown: a hit's lead is over the next that could be.
        explanations: Of each of them.
    """
    asked = _stems(prompt)
    scores = [explanations[match.memory.memory_id].parts.total for match in matches]
    judged = []
    for rank, match in enumerate(matches[:JUDGED]):
        if match.confidence < MIN_CONFIDENCE:
            continue
        lead = min(MAX_LEAD, scores[rank] - (scores[rank + 1] if rank + 1 < len(scores) else 0.0))
        coverage = len(asked & _stems(match.memory.text[:MAX_CHARS])) / max(1, len(asked))
        cosine = explanations[match.memory.memory_id].cosine or 0.0
        telling = match.memory.speaker != ASSISTANT or asks(match.memory)
        evidence = _ZERO + _BY_COSINE * cosine + _BY_COVERAGE * coverage + _BY_LEAD * lead
        evidence += _BY_RANK * math.log(rank + 1) + _BY_TELLING * telling
        judged.append((match, 1.0 / (1.0 + math.exp(-evidence))))
    return judged


def asks(memory: MemoryRecord) -> bool:
    """True if a memory ends in a question."""
    return _ASKS.search(memory.text[-300:]) is not None


def _stems(text: str) -> frozenset[str]:
    return frozenset(stem_words(content_words(tokenize(text))))
