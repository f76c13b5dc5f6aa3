"""The part of a long memory that answers a question: the window that is similar to it and has its words.

Similarity alone separates the windows of one text badly, because all of them are about its subject; readers look first at the one
with the words of the question.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from infinite_memory.models import MemoryRecord, Window

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

MAX_WINDOWS = 64  # windows whose words are compared, most similar first: about 50,000 characters


def best_window(
    memory: MemoryRecord, vector: Vectors | None, words_share: Callable[[str], float] | None, meaning_share: float
) -> Window | None:
    """Return the window of *memory* that answers best; None for a text with one window or without a vector.

    Args:
        memory: Read with its vectors.
        vector: The question's, float32 of shape ``(dim,)`` and unit length; None if the model is unavailable.
        words_share: Returns the share of the question's words that a text has, 0 to 1; None if words do not count.
        meaning_share: The weight of similarity against words, 0 to 1.
    """
    import numpy as np  # lazy, like the index: never at process start

    if memory.embedding is None or len(windows := memory.embedding.windows) < 2:
        return None
    near = np.zeros(len(windows)) if vector is None else memory.embedding.vectors @ vector.reshape(-1)
    order = np.argsort(-near, kind="stable")[:MAX_WINDOWS]
    if words_share is None:
        return windows[int(order[0])]

    def score(index: int) -> float:
        text = memory.text[windows[index].start : windows[index].end]
        return meaning_share * float(near[index]) + (1 - meaning_share) * words_share(text)

    return windows[max(map(int, order), key=score)]
