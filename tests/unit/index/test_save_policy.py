"""When the sidecar's files are written: after a while, soon where asked, and not all day."""

from __future__ import annotations

import pytest

from infinite_memory.index.save_policy import SAVE_SHARE, SavePolicy


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def times(clock: Clock) -> SavePolicy:
    return SavePolicy(60.0, clock)


def test_without_a_change_nothing_is_ever_due(clock: Clock, times: SavePolicy) -> None:
    clock.now += 3600
    times.hasten()
    assert not times.has_changes
    assert not times.is_due


def test_the_first_change_decides_when_a_save_is_due(clock: Clock, times: SavePolicy) -> None:
    times.changed()
    clock.now += 40
    times.changed()
    assert not times.is_due
    clock.now += 21
    assert times.is_due


def test_what_is_hastened_is_due_at_once(times: SavePolicy) -> None:
    times.changed()
    times.hasten()
    assert times.is_due


def test_what_changes_while_a_save_goes_on_waits_for_the_next(times: SavePolicy) -> None:
    times.changed()
    with times.saving():
        pass
    assert not times.has_changes
    with times.saving():
        times.changed()
    assert times.has_changes


def test_a_save_that_failed_leaves_its_changes_waiting(clock: Clock, times: SavePolicy) -> None:
    times.changed()
    with pytest.raises(OSError), times.saving():
        raise OSError("the disk is full")
    assert times.has_changes
    clock.now += 61
    assert times.is_due
    times.postpone()
    assert not times.is_due


def test_after_a_long_save_even_what_is_hastened_waits(clock: Clock, times: SavePolicy) -> None:
    with times.saving():
        clock.now += 5
    times.changed()
    times.hasten()
    clock.now += 5 * SAVE_SHARE
    assert not times.is_due
    clock.now += 1
    assert times.is_due
