"""The newest ids as a slower reader of the store asks for them: only those from since it began count."""

from __future__ import annotations

from infinite_memory.engine.newest import KEPT, Newest
from tests.unit.sidecar.builders import memory_id


def test_only_what_came_since_counts() -> None:
    newest = Newest()
    newest.add([memory_id(1), memory_id(2)])
    began = newest.count
    assert newest.since(began, [memory_id(1), memory_id(2)]) == []
    newest.add([memory_id(2), memory_id(3)])
    assert newest.since(began, map(memory_id, range(5))) == [memory_id(2), memory_id(3)]


def test_what_was_forgotten_does_not_count() -> None:
    newest = Newest()
    newest.add(map(memory_id, range(4)))
    newest.discard([memory_id(1)])
    assert newest.since(0, map(memory_id, range(4))) == [memory_id(0), memory_id(2), memory_id(3)]
    newest.clear()
    assert newest.since(0, map(memory_id, range(4))) == []


def test_the_newest_are_kept() -> None:
    newest = Newest()
    newest.add(map(memory_id, range(KEPT)))
    newest.add([memory_id(0), memory_id(KEPT)])  # the first is the newest but one by now
    assert newest.since(0, map(memory_id, (0, 1, KEPT))) == [memory_id(0), memory_id(KEPT)]
