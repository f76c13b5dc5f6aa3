"""What a client is told of long work, and that cancelled work stops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from infinite_memory.contracts.mcp import Answer, Json
from infinite_memory.contracts.native import tools
from infinite_memory.contracts.native.tools import Told, _with_progress


class Listener:
    """A client that wants progress, and keeps what it was told."""

    wants_progress = True
    can_sample = False

    def __init__(self) -> None:
        self.told: list[tuple[float, float | None, str]] = []
        self.news = asyncio.Event()

    async def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        self.told.append((done, total, message))
        self.news.set()

    async def another(self) -> None:
        """Wait for the next notification."""
        self.news.clear()
        await self.news.wait()

    async def log(self, level: str, data: Any) -> None:
        raise AssertionError(data)

    async def confirm(self, question: str, mark: str) -> Answer:
        raise AssertionError(question)

    async def sample(self, params: Json) -> Json:
        raise AssertionError(params)


def test_the_value_grows_each_time_whatever_is_known() -> None:
    told = Told("Back up")
    assert told.next(0) == (0.0, None, "Back up: 0 s")
    assert told.next(1) == (0.001, None, "Back up: 1 s")
    told.take(500, 2000)
    assert told.next(2) == (500, 2000, "Back up: 500 of 2,000 done, 2 s")
    assert told.next(3) == (500.001, 2000, "Back up: 500 of 2,000 done, 3 s")
    told.take(2000, 2000)
    assert told.next(4) == (2000, 2000, "Back up: 2,000 of 2,000 done, 4 s")
    value, total, _ = told.next(5)  # what still follows has no count
    assert value > 2000
    assert total is None
    told.take(1200, 0)
    assert told.next(6)[0] > value


async def test_long_work_tells_how_much_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "PROGRESS_S", 0.01)

    listener, told = Listener(), Told("Import")

    async def long() -> Json:
        await listener.another()
        told.take(7, 20)
        while (7, 20) not in [one[:2] for one in listener.told]:
            await listener.another()
        return {"status": "OK"}

    assert await _with_progress(long(), told, listener) == {"status": "OK"}
    values = [one[0] for one in listener.told]
    assert values == sorted(set(values))


async def test_long_work_stops_when_its_call_is_cancelled() -> None:
    listener, begun, stopped = Listener(), asyncio.Event(), asyncio.Event()

    async def long() -> Json:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return {}

    call = asyncio.ensure_future(_with_progress(long(), Told("Back up"), listener))
    await begun.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await stopped.wait()
