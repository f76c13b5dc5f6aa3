"""What a match is worth: between 0 and 1, rising with what speaks for it, falling with rank."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from infinite_memory.engine import confidence
from infinite_memory.engine.confidence import confidence_in

shares = st.floats(0, 1)


@given(cosine=st.none() | st.floats(-1, 1), coverage=shares, verbatim=shares, rank=st.integers(0, 1000))
def test_confidence_stays_within_its_bounds_and_falls_with_rank(
    cosine: float | None, coverage: float, verbatim: float, rank: int
) -> None:
    first = confidence_in(cosine, coverage, verbatim, rank)
    assert 0 <= confidence_in(cosine, coverage, verbatim, rank + 1) <= first <= 1
    assert confidence_in(cosine, 1.0, verbatim, rank) >= first


@given(at=st.floats(-20, 20))
def test_the_curve_is_read_between_its_points(at: float) -> None:
    read = confidence._interpolated(at, confidence._EVIDENCE, confidence._CONFIDENCE)
    assert np.isclose(read, np.interp(at, confidence._EVIDENCE, confidence._CONFIDENCE))


def test_the_two_points_that_mean_something() -> None:
    assert confidence_in(0.15, 0.1, 0.0, 0) < 0.5, "about something else"
    assert confidence_in(0.75, 0.9, 0.0, 0) > 0.8, "near and of the same words"
