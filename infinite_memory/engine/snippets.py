"""Which stretch of a long memory answers a question: the window that is near in meaning and has the question's words.

Meaning alone tells badly among the windows of one text, since all of them are about its subject; the one with the words that were
asked for is where a reader looks first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from infinite_memory.models import MemoryRecord, Window

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

MAX_WINDOWS = 64  # windows, the nearest in meaning first, whose words are looked at: about 50,000 characters


def best_window(
    memory: MemoryRecord, vector: Vectors | None, words_share: Callable[[str], float] | None, meaning_share: float
) -> Window | None:
    """Return the window of *memory* that answers best; None for a text of one window or without a vector.

    Args:
        memory: Read with its vectors.
        vector: The question's, float32 of shape ``(dim,)`` and unit length; None where the model is not there.
        words_share: Tells which share of the question's words a text has, 0 to 1; None where words do not count.
        meaning_share: What meaning weighs against words, 0 to 1.
    """
    import numpy as np  # beside the index, never at the start of a process

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
