"""Importance decays by half of itself at most."""

from __future__ import annotations

import dataclasses
import datetime as dt

import pytest

from infinite_memory.engine.importance import HALF_LIFE_DAYS, importance_now
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId

NOW = dt.datetime(2026, 3, 14, tzinfo=dt.UTC)
MEMORY = MemoryRecord(MemoryId("a" * 24), ScopeId("b" * 24), "tea", "test", NOW, NOW, NOW)


def aged(days: float, importance: float | None) -> MemoryRecord:
    return dataclasses.replace(MEMORY, created_at=NOW - dt.timedelta(days=days), importance=importance)


@pytest.mark.parametrize(
    ("days", "importance", "weight"),
    [
        (0, None, 0.5),
        (0, 10, 1.0),
        (0, 0, 0.0),
        (HALF_LIFE_DAYS, 10, 0.75),
        (2 * HALF_LIFE_DAYS, None, 0.3125),
        (36_500, 10, 0.5),
        (-5, 8, 0.8),
    ],
)
def test_importance_decays_with_age(days: float, importance: float | None, weight: float) -> None:
    assert importance_now(aged(days, importance), NOW) == weight
