"""Long texts are cut so that nothing is lost and what stands together stays together."""

from __future__ import annotations

from itertools import pairwise

import pytest

from infinite_memory.text.analyzer import OVERLAP_WORDS, PASSAGE_WORDS, passages

WHOLE = PASSAGE_WORDS * 3 // 2


@pytest.mark.parametrize("count", [0, 1, PASSAGE_WORDS, WHOLE])
def test_a_text_that_is_not_long_is_one_passage(count: int) -> None:
    words = [str(number) for number in range(count)]
    assert passages(words) == [words]


@pytest.mark.parametrize("count", [WHOLE + 1, 350, 500, 1234, 20_000])
def test_passages_are_equally_full_overlap_and_leave_nothing_out(count: int) -> None:
    words = [str(number) for number in range(count)]
    cut = passages(words)
    assert {len(one) for one in cut} == {PASSAGE_WORDS}
    assert (cut[0][0], cut[-1][-1]) == (words[0], words[-1])
    for one, following in pairwise(cut):
        assert len(set(one) & set(following)) >= OVERLAP_WORDS
        assert int(following[0]) > int(one[0])
