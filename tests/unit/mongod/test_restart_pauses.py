"""Pauses before a server that died is started again: none at first, then longer ones."""

from __future__ import annotations

from infinite_memory.mongod.restart_pauses import STEADY_S, RestartPauses


class Clock:
    """Time that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def live(pauses: RestartPauses, clock: Clock, for_s: float) -> float:
    """Start a server that lives for so long; give the pause after its death."""
    pauses.on_start()
    clock.now += for_s
    pauses.on_exit()
    return pauses.remaining_s


def test_the_first_restart_is_at_once_and_the_pauses_double_up_to_half_a_minute() -> None:
    clock = Clock()
    pauses = RestartPauses(clock)
    assert pauses.remaining_s == 0
    told = []
    for _ in range(10):
        told.append(live(pauses, clock, 1.4))
        clock.now += told[-1]
        assert pauses.remaining_s == 0
    assert told == [0, 0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    assert pauses.short_runs == 10
    for _ in range(2000):
        live(pauses, clock, 1.4)
    assert pauses.remaining_s == 30


def test_a_server_that_ran_for_a_while_begins_anew() -> None:
    clock = Clock()
    pauses = RestartPauses(clock)
    for _ in range(5):
        live(pauses, clock, 1.4)
    assert live(pauses, clock, STEADY_S) == 0
    assert live(pauses, clock, 1.4) == 0.5


def test_a_death_counts_once() -> None:
    clock = Clock()
    pauses = RestartPauses(clock)
    live(pauses, clock, 1.4)
    for _ in range(3):
        pauses.on_exit()
    assert pauses.short_runs == 1
