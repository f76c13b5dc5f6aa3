"""What a match is worth: how sure it is that a memory answers, between 0 and 1, the same in every mode and contract.

Why a curve and no raw cosine: with all-MiniLM-L6-v2 unrelated short texts lie at 0.0 to 0.2, related ones at 0.4 to
0.7 and only rewordings above 0.8, so a raw cosine reads as doubt where there is none.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence

from infinite_memory.embedding.vocabulary import Reading
from infinite_memory.text.tokenizer import tokenize

SAME_TEXT = 0.99  # the question is what the memory says, but for case and white space

_ZERO, _BY_COSINE, _BY_COVERAGE, _BY_RANK = -5.57, 7.18, 1.98, 1.07  # the fit that `confidence_in` tells of
_BY_LETTERS = 2.0  # chosen: the sets have too few codes and quotes to fit it
_EVIDENCE = -8.0, -5.0, -3.0, -1.6, -0.6, 0.5, 1.5, 3.0, 5.5
_CONFIDENCE = 0.0, 0.08, 0.3, 0.52, 0.58, 0.67, 0.8, 0.9, 0.99
_NEAR_BY_WORDS = 0.15, 0.35  # the usual cosine of a hit with a given coverage, where there is no vector

SECOND_TRUST = 0.89
"""What a cosine of the second space is worth, brought to the scale of the first: with it unrelated questions stay under 0.5 in Spanish as
often as in English, in German, Chinese and Arabic more often, and right hits are taken for less sure than they are."""

TRUSTED_CHARS = 10_000  # of a text are looked at for words that the model does not read

_MIDDLE = 0.42  # cosine at which a hit is as likely wanted as not
_STEEPNESS = 8.0


def confidence_of(score: float) -> float:
    """Map a cosine (-1 to 1) to a confidence (0 to 1), rising with it, four decimals; for what has no words to go by."""
    curve = 1.0 / (1.0 + math.exp(-_STEEPNESS * (score - _MIDDLE)))
    top = 1.0 / (1.0 + math.exp(-_STEEPNESS * (1.0 - _MIDDLE)))
    return round(min(1.0, max(0.0, curve / top)), 4)


def trust_in(reading: Reading, text: str) -> float:
    """Return what a cosine is worth, 0 to 1, where the model reads only a part of the question: for the other words, whether *text*
    has them.

    Why: what a model does not read it takes for the same, so two texts of unknown words have a cosine of 1, and letters of a script
    that it only spells .5 to .9, whatever they say.
    """
    asked = _whole_words(" ".join(reading.unread))
    if not asked:
        return reading.share
    own = _whole_words(text[:TRUSTED_CHARS])
    return reading.share + (1 - reading.share) * len(asked & own) / len(asked)


def _whole_words(text: str) -> frozenset[str]:
    """Collect the words of *text* by which it is told from others: of a script without blanks pairs of characters, not single ones."""
    words = frozenset(tokenize(text))
    return frozenset(word for word in words if len(word) > 1) or words


def confidence_in(cosine: float | None, coverage: float, verbatim: float, rank: int) -> float:
    """Return how sure it is that a memory, or what was said right beside it, answers a question; 0 to 1, four decimals.

    The evidence is a logistic fit to two public sets of conversations with judged questions and to questions of one set put to the
    other, where nothing is right; the same for hybrid, semantic and text recalls. Two points of the curve over it have a meaning: a
    question about something else stays under 0.5 with its best hit in 97 of 100 cases, and of hits with 0.8 about four in five are
    right. Between the two it is no share: judges list one answer where several memories speak of it, so right ones lie at 0.5 to 0.7
    among hits of which a quarter to a half were listed. `scripts/bench recall --sure` prints the table.

    Args:
        cosine: Nearness in meaning, discounted for windows; None where it is not known.
        coverage: Share of the question's words that the memory has, 0 to 1.
        verbatim: Weight of what it has of the question letter for letter.
        rank: Its place among the results, from 0: the further down, the likelier that something above is the answer.
    """
    near = _NEAR_BY_WORDS[0] + _NEAR_BY_WORDS[1] * coverage if cosine is None else cosine
    known = _ZERO + _BY_COSINE * near + _BY_COVERAGE * coverage + _BY_LETTERS * verbatim - _BY_RANK * math.log(rank + 1)
    return round(_interpolated(known, _EVIDENCE, _CONFIDENCE), 4)


def _interpolated(at: float, points: Sequence[float], values: Sequence[float]) -> float:
    """Read a value between points, which rise; the first and the last value go on. By hand, for importing NumPy takes 40 ms."""
    right = bisect(points, at)
    if right in (0, len(points)):
        return values[min(right, len(points) - 1)]
    left = right - 1
    share = (at - points[left]) / (points[right] - points[left])
    return values[left] + share * (values[right] - values[left])
