"""Where a long text is cut for the text index: a question is answered by a passage, whatever else the text says.

Why: BM25 divides by the length, so among short memories a page of minutes was as good as not there, though it alone had
all the words that were asked for. Passages are of the length of other memories, overlap, and are evenly spread, so that
the last is as full as the others.
"""

from __future__ import annotations

from collections.abc import Sequence

PASSAGE_WORDS = 200
"""Words of a passage; a text that is half as long again stays whole."""

OVERLAP_WORDS = 50
"""What stands together within so many words is together in one passage at least."""


def passages(words: Sequence[str]) -> list[Sequence[str]]:
    """Cut the words of a text into overlapping stretches; one for a text that is short enough, even an empty one."""
    if len(words) <= PASSAGE_WORDS * 3 // 2:
        return [words]
    last = len(words) - PASSAGE_WORDS
    count = 1 + -(-last // (PASSAGE_WORDS - OVERLAP_WORDS))
    starts = [last * number // (count - 1) for number in range(count)]
    return [words[start : start + PASSAGE_WORDS] for start in starts]
