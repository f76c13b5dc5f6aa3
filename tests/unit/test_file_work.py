"""Long work on files: in threads of its own, a few of one client at a time, and others' beside them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from infinite_memory.file_work import PLACES, file_work, in_file_thread, set_owner

PACKAGE = Path(__file__).resolve().parents[2] / "infinite_memory"


class Files:
    """Work that holds a thread until *go* is set."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.running = 0
        self._lock = threading.Lock()

    def read(self) -> str:
        with self._lock:
            self.running += 1
        self.go.wait()
        return threading.current_thread().name


async def as_owner(owner: str, work: Callable[[], Awaitable[str]]) -> str:
    set_owner(owner)
    return await work()


async def until_running(files: Files, count: int) -> None:
    while files.running < count:
        await asyncio.sleep(0.001)


async def test_one_clients_work_on_files_leaves_threads_to_others_and_to_everything_else() -> None:
    files = Files()
    try:
        greedy = [asyncio.create_task(as_owner("a", lambda: in_file_thread(files.read))) for _ in range(100)]
        await until_running(files, PLACES)
        name = await asyncio.create_task(as_owner("b", lambda: in_file_thread(lambda: threading.current_thread().name)))
        assert name.startswith("files")
        assert await asyncio.to_thread(lambda: 1) == 1
        assert files.running == PLACES
    finally:
        files.go.set()
    assert all(name.startswith("files") for name in await asyncio.gather(*greedy))
    assert files.running == 100


async def test_a_work_that_was_cancelled_keeps_its_place_until_its_thread_has_ended() -> None:
    files = Files()
    try:
        for _ in range(5 * PLACES):
            task = asyncio.create_task(as_owner("a", lambda: in_file_thread(files.read)))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert files.running <= PLACES
    finally:
        files.go.set()
    assert (await as_owner("a", lambda: in_file_thread(lambda: "free"))) == "free"


async def test_the_steps_of_a_work_and_a_work_within_it_need_one_place() -> None:
    async def work() -> str:
        async with file_work():
            async with file_work():
                await in_file_thread(lambda: None)
            return await in_file_thread(lambda: "done")

    assert await asyncio.gather(*(as_owner("a", work) for _ in range(10 * PLACES))) == ["done"] * 10 * PLACES


async def test_a_task_that_outlives_a_work_holds_no_place_of_it() -> None:
    files, is_left = Files(), asyncio.Event()

    async def later() -> str:
        await is_left.wait()
        return await in_file_thread(files.read)

    async with file_work():
        tasks = [asyncio.create_task(later()) for _ in range(3 * PLACES)]
    is_left.set()
    try:
        await until_running(files, PLACES)
        await asyncio.sleep(0.02)
        assert files.running == PLACES
    finally:
        files.go.set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("part", ["backup", "transfer"])
def test_backups_exports_and_imports_take_no_thread_in_which_memories_are_searched(part: str) -> None:
    files = list((PACKAGE / part).rglob("*.py"))
    assert files
    assert not [
        file.name
        for file in files
        if "to_thread(" in file.read_text("utf-8") or "run_in_executor(None" in file.read_text("utf-8")
    ]
