"""Listings by weight: against plain sorting, with equals, limits and filters."""

from __future__ import annotations

import numpy as np
import pytest

from infinite_memory.models import Filter
from tests.unit.sidecar.builders import make_row, make_sidecar, memory_id, scope_id


def by_importance(importance: np.ndarray, created_ms: np.ndarray) -> np.ndarray:
    return np.nan_to_num(importance, nan=5.0)


@pytest.mark.parametrize("limit", [0, 1, 7, 50, 1000])
def test_the_heaviest_come_first_as_sorting_would_have_it(limit: int) -> None:
    weights = [None if number % 7 == 0 else float(number % 10) for number in range(50)]
    sidecar = make_sidecar(make_row(number, importance=weight) for number, weight in enumerate(weights))
    expected = sorted(range(50), key=lambda n: (5.0 if weights[n] is None else weights[n], n), reverse=True)[:limit]
    assert sidecar.heaviest(Filter(), limit, by_importance) == [memory_id(number) for number in expected]


def test_the_rule_gets_importances_and_creation_times() -> None:
    seen: list[tuple[list[float], list[float]]] = []

    def weigh(importance: np.ndarray, created_ms: np.ndarray) -> np.ndarray:
        seen.append((importance.tolist(), created_ms.tolist()))
        return created_ms

    sidecar = make_sidecar([make_row(1, importance=3.0), make_row(2, importance=4.0)])
    assert sidecar.heaviest(Filter(), 5, weigh) == [memory_id(2), memory_id(1)]
    [(importances, times)] = seen
    assert importances == [3.0, 4.0]
    assert times[1] - times[0] == 1000.0


def test_filters_apply_and_what_was_removed_is_not_weighed() -> None:
    sidecar = make_sidecar(make_row(number, scope=number % 2, importance=float(number)) for number in range(6))
    sidecar.remove([memory_id(5)])
    inside = Filter(scope_ids=frozenset({scope_id(1)}))
    assert sidecar.heaviest(inside, 5, by_importance) == [memory_id(3), memory_id(1)]
    assert sidecar.heaviest(Filter(scope_ids=frozenset()), 5, by_importance) == []
