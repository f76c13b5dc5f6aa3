"""What was removed a moment ago is remembered, until it is written again or many others were removed."""

from __future__ import annotations

import pytest

from infinite_memory.engine import removals as module
from infinite_memory.engine.removals import Removals
from infinite_memory.models import MemoryId

A, B, C, D = (MemoryId(f"{number:024x}") for number in range(4))


def test_a_removal_is_known_until_the_memory_is_written_again() -> None:
    removals = Removals()
    assert not removals
    removals.add([A, B])
    removals.discard([A, C])
    assert [one in removals for one in (A, B, C)] == [False, True, False]
    removals.clear()
    assert not removals


def test_the_count_rises_with_every_removal_and_never_falls() -> None:
    removals = Removals()
    removals.add([A, B])
    removals.discard([A, B])
    removals.add([A])
    removals.clear()
    assert removals.count == 3


def test_of_very_many_removals_the_newest_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REMOVALS_KEPT", 2)
    removals = Removals()
    removals.add([A, B, C])
    removals.add([D])
    assert [one in removals for one in (A, B, C, D)] == [False, False, True, True]
