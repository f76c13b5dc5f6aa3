"""The newest ids as a slower reader of the store asks for them: only those from since it began count."""

from __future__ import annotations

from infinite_memory.index.recent_ids import CAPACITY, RecentIds
from tests.unit.index.builders import memory_id


def test_only_what_came_since_counts() -> None:
    newest = RecentIds()
    newest.add([memory_id(1), memory_id(2)])
    began = newest.count
    assert newest.since(began, [memory_id(1), memory_id(2)]) == []
    newest.add([memory_id(2), memory_id(3)])
    assert newest.since(began, map(memory_id, range(5))) == [memory_id(2), memory_id(3)]


def test_what_was_forgotten_does_not_count() -> None:
    newest = RecentIds()
    newest.add(map(memory_id, range(4)))
    newest.discard([memory_id(1)])
    assert newest.since(0, map(memory_id, range(4))) == [memory_id(0), memory_id(2), memory_id(3)]
    newest.clear()
    assert newest.since(0, map(memory_id, range(4))) == []


def test_the_newest_are_kept() -> None:
    newest = RecentIds()
    newest.add(map(memory_id, range(CAPACITY)))
    newest.add([memory_id(0), memory_id(CAPACITY)])  # the first is the newest but one by now
    assert newest.since(0, map(memory_id, (0, 1, CAPACITY))) == [memory_id(0), memory_id(CAPACITY)]
