"""Confidence of a match: how likely a memory is to answer, from 0 to 1, the same in every mode and contract.

Why a curve and not the raw cosine: with all-MiniLM-L6-v2 unrelated short texts have 0.0 to 0.2, related ones 0.4 to 0.7 and
only paraphrases above 0.8, so a raw cosine would look like doubt where there is none.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Sequence

from infinite_memory.embedding.vocabulary import Reading
from infinite_memory.text.tokenizer import tokenize

SAME_TEXT = 0.99  # the question equals the memory's text, ignoring case and whitespace

# Coefficients of the fit described in `confidence_in`.
_ZERO, _BY_COSINE, _BY_COVERAGE, _BY_RANK = -5.57, 7.18, 1.98, 1.07
_BY_LETTERS = 2.0  # chosen by hand: the data sets have too few codes and quotes to fit it
_EVIDENCE = -8.0, -5.0, -3.0, -1.6, -0.6, 0.5, 1.5, 3.0, 5.5
_CONFIDENCE = 0.0, 0.08, 0.3, 0.52, 0.58, 0.67, 0.8, 0.9, 0.99
_NEAR_BY_WORDS = 0.15, 0.35  # expected cosine of a hit, by coverage, if there is no vector

SECOND_TRUST = 0.89
"""Weight of a cosine from the second space, on the scale of the first: with it unrelated questions stay below 0.5 as often in Spanish as in
English, and more often in German, Chinese and Arabic; the confidence of right hits is underestimated."""

TRUSTED_CHARS = 10_000  # of a text are searched for words that the model cannot read

_MIDDLE = 0.42  # cosine at which a hit is relevant in half of the cases
_STEEPNESS = 8.0


def confidence_of(score: float) -> float:
    """Map a cosine (-1 to 1) to a confidence (0 to 1), monotonically, four decimals; for searches without keyword evidence."""
    curve = 1.0 / (1.0 + math.exp(-_STEEPNESS * (score - _MIDDLE)))
    top = 1.0 / (1.0 + math.exp(-_STEEPNESS * (1.0 - _MIDDLE)))
    return round(min(1.0, max(0.0, curve / top)), 4)


def trust_in(reading: Reading, text: str) -> float:
    """Return the weight of a cosine, 0 to 1, if the model reads only a part of the question.

    The other words count if *text* has them.

    Why: to a model all unknown words are the same, so two texts of unknown words have a cosine of 1, and texts in a script that it
    only spells out .5 to .9, whatever they say.
    """
    unread = _whole_words(" ".join(reading.unread))
    if not unread:
        return reading.share
    available = _whole_words(text[:TRUSTED_CHARS])
    return reading.share + (1 - reading.share) * len(unread & available) / len(unread)


def _whole_words(text: str) -> frozenset[str]:
    """Return the distinctive words of *text*: in scripts without spaces pairs of characters, not single ones."""
    words = frozenset(tokenize(text))
    return frozenset(word for word in words if len(word) > 1) or words


def confidence_in(cosine: float | None, coverage: float, verbatim: float, rank: int) -> float:
    """Return the confidence that a memory, or a turn next to it, answers a question; 0 to 1, four decimals.

    The evidence is a logistic regression, fitted to two public sets of conversations with judged questions, and to questions of one set
    asked of the other, where nothing is right; the same for hybrid, semantic and text recalls. Two points of the curve are calibrated: the
    best hit of an unrelated question stays below 0.5 in 97 % of the cases, and of hits with 0.8 about four in five are right. Values in
    between are not probabilities: judges list one answer where several memories contain it, so right ones are at 0.5 to 0.7 among hits
    of which a quarter to a half were listed. `scripts/bench recall --sure` prints the table.

    Args:
        cosine: Cosine similarity, discounted for windows; None if it is unknown.
        coverage: Share of the question's words that the memory has, 0 to 1.
        verbatim: Weight of the question's parts that it contains verbatim.
        rank: Its rank among the results, from 0: the lower it is, the likelier is an answer above it.
    """
    near = _NEAR_BY_WORDS[0] + _NEAR_BY_WORDS[1] * coverage if cosine is None else cosine
    evidence = (
        _ZERO + _BY_COSINE * near + _BY_COVERAGE * coverage + _BY_LETTERS * verbatim - _BY_RANK * math.log(rank + 1)
    )
    return round(_interpolated(evidence, _EVIDENCE, _CONFIDENCE), 4)


def _interpolated(x: float, points: Sequence[float], values: Sequence[float]) -> float:
    """Return a linear interpolation over ascending points, constant outside them. Done by hand, because importing NumPy takes 40 ms."""
    right_index = bisect(points, x)
    if right_index in (0, len(points)):
        return values[min(right_index, len(points) - 1)]
    left_index = right_index - 1
    share = (x - points[left_index]) / (points[right_index] - points[left_index])
    return values[left_index] + share * (values[right_index] - values[left_index])
