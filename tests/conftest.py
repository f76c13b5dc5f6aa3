"""What holds for all tests."""

from __future__ import annotations

import asyncio
import collections
import gc
import itertools
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from infinite_memory import redaction
from infinite_memory.loop_watchdog import LoopWatchdog, open_watched_loop
from tests.mongo_server import check_holds, drop_databases
from tests.work_units import get_work_unit

# No test here may fail because the machine is busy.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


ORDER = ("unit", "integration", "end_to_end", "store")
"""Folders in the order of their tests: those that take a moment, those with a real model or a program of others, then files that take
minutes, then many of some seconds each, with which processes that share the work come to an end at the same time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests into the order of their folders, and there the files with most tests first; within a file they stay as they are."""
    here = Path(__file__).parent
    count = collections.Counter(item.path for item in items)

    def rank(item: pytest.Item) -> tuple[int, int, Path]:
        folder = item.path.relative_to(here).parts[0]
        return ORDER.index(folder) if folder in ORDER else 0, -count[item.path], item.path

    items.sort(key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave the modules and the tests, which stay, out of every collection of garbage: among a million objects one took half a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Hand the tests to the processes that share the work as `tests.work_units` says."""
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

    if config.getvalue("dist") != "loadfile":
        return None

    class WorkUnits(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return get_work_unit(nodeid)

    return WorkUnits(config, log)


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test calls a secret is a word like any other in the next."""
    monkeypatch.setattr(redaction, "_secrets", set[str]())


_watchdogs: list[LoopWatchdog] = []


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Give asynchronous tests the event loop that the daemon has: a watched one."""
    return {"of the daemon": asyncio.new_event_loop if sys.platform == "win32" else _open_loop}


def _open_loop() -> asyncio.AbstractEventLoop:
    _watchdogs.append(LoopWatchdog())
    return open_watched_loop(_watchdogs[-1])


@pytest.fixture(autouse=True)
def _no_command_holds_the_loop() -> Iterator[None]:
    """A test fails where a command holds up its event loop."""
    yield
    holds = [hold for watchdog in _watchdogs for hold in watchdog.holds if hold.commands]
    _watchdogs.clear()
    check_holds(holds)


_tests = itertools.count(1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """Collect garbage between tests, and drop a file's databases after its last one.

    In a process of thousands of tests a full collection takes as long as a held event loop may.
    """
    yield
    if next(_tests) % 50 == 0:
        gc.collect()
    if nextitem is None or nextitem.path != item.path:
        drop_databases()
