"""Removals as a slower reader of the store asks for them: only those from since it began count."""

from __future__ import annotations

from infinite_memory.engine.removals import REMOVALS_KEPT, Removals
from tests.unit.sidecar.builders import memory_id


def test_only_what_was_removed_since_counts() -> None:
    removals = Removals()
    removals.add([memory_id(1), memory_id(2)])
    began = removals.count
    assert removals.since(began, [memory_id(1), memory_id(2)]) == []
    removals.add([memory_id(2), memory_id(3)])
    assert removals.since(began, map(memory_id, range(5))) == [memory_id(2), memory_id(3)]


def test_what_was_written_again_is_no_removal() -> None:
    removals = Removals()
    removals.add(map(memory_id, range(4)))
    removals.discard([memory_id(1)])
    assert removals.since(0, map(memory_id, range(4))) == [memory_id(0), memory_id(2), memory_id(3)]
    removals.clear()
    assert removals.since(0, map(memory_id, range(4))) == []


def test_the_newest_removals_are_kept() -> None:
    removals = Removals()
    removals.add(map(memory_id, range(REMOVALS_KEPT)))
    removals.add([memory_id(0), memory_id(REMOVALS_KEPT)])  # the first is the newest but one by now
    assert removals.since(0, map(memory_id, (0, 1, REMOVALS_KEPT))) == [memory_id(0), memory_id(REMOVALS_KEPT)]
