"""Notices when many memories are in a language that the embedding model does not know: found by words, hardly by meaning."""

from __future__ import annotations

from collections.abc import Sequence

NEWEST = 200  # memories looked at
TEXT_CHARS = 400  # characters of each
LEAST = 20  # memories below which nothing is said
FOREIGN_WORDS = 0.25  # share of words spelled out from which a memory counts as foreign
MANY = 0.2  # share of such memories from which it is said


def language_hint(shares: Sequence[float | None], model: str) -> str | None:
    """Word the hint for the statistics; None where there is nothing to say.

    Args:
        shares: For each memory looked at, the share of its words that the model's vocabulary lacks; None where it tells nothing.
    """
    told = [share for share in shares if share is not None]
    foreign = sum(share > FOREIGN_WORDS for share in told)
    if len(told) < LEAST or foreign < MANY * len(told):
        return None
    return (
        f"{foreign} of the {len(told)} newest memories that tell are in words that the vocabulary of {model} lacks, as another"
        " language is: they are found by their words, hardly by meaning. A model for several languages (embedding.model)"
        " embeds them anew in the background."
    )
