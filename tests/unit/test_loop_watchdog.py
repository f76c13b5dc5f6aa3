"""The watchdog of the event loop: what takes the processor is recorded with its command, what waits is not."""

from __future__ import annotations

import asyncio
import logging
import time

import pytest

from infinite_memory.loop_watchdog import MAX_HELD_S, LoopWatchdog, find_watchdog, run_watched, running


def hold_processor(seconds: float) -> None:
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def test_a_command_that_takes_the_processor_is_recorded() -> None:
    watchdog = LoopWatchdog()

    async def work() -> None:
        with running("slow_command"):
            hold_processor(2 * MAX_HELD_S)
        await asyncio.sleep(0)

    run_watched(work(), watchdog)
    [hold] = watchdog.holds
    assert hold.commands == ("slow_command",)
    assert hold.cpu_s >= 2 * MAX_HELD_S
    assert watchdog.count == 1
    assert "slow_command" in str(hold)


def test_a_command_that_takes_the_processor_in_its_last_turn_is_named() -> None:
    watchdog = LoopWatchdog()

    async def work() -> None:
        with running("late_command"):
            await asyncio.sleep(0.01)
            hold_processor(2 * MAX_HELD_S)
        await asyncio.sleep(0)

    run_watched(work(), watchdog)
    assert [hold.commands for hold in watchdog.holds] == [("late_command",)]


def test_what_holds_the_loop_up_while_the_program_starts_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "infinite_memory")
    for start_s in (3600.0, 0.0):
        watchdog = LoopWatchdog(start_s)
        watchdog.turn_ended(MAX_HELD_S * 2, MAX_HELD_S * 2)
        assert watchdog.count == 1
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_work_in_a_thread_and_waiting_hold_up_nobody() -> None:
    watchdog = LoopWatchdog()

    async def work() -> None:
        with running("patient_command"):
            await asyncio.to_thread(hold_processor, 2 * MAX_HELD_S)
            await asyncio.sleep(2 * MAX_HELD_S)

    run_watched(work(), watchdog)
    assert not watchdog.holds


def test_what_happens_before_a_command_in_the_same_turn_is_not_its_fault() -> None:
    watchdog = LoopWatchdog()

    async def work() -> None:
        hold_processor(2 * MAX_HELD_S)
        with running("quick_command"):
            await asyncio.sleep(0)

    run_watched(work(), watchdog)
    assert [hold.commands for hold in watchdog.holds] == [()]


def test_what_happens_after_a_command_in_the_same_turn_is_not_its_fault() -> None:
    watchdog = LoopWatchdog()

    async def work() -> None:
        with running("quick_command"):
            await asyncio.sleep(0)
        hold_processor(2 * MAX_HELD_S)

    run_watched(work(), watchdog)
    assert [hold.commands for hold in watchdog.holds] == [()]


def test_a_loop_that_nobody_watches_runs_commands_as_well() -> None:
    async def work() -> bool:
        with running("any"):
            return find_watchdog() is None

    assert asyncio.run(work())
