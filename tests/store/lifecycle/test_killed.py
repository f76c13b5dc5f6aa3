"""kill -9 at any moment of whatever takes long: nothing lost, no half state, and the next run finishes.

The moments are chosen by a seeded generator over the time that the work takes here: one of each operation, twenty with
``scripts/test --long``.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.store.mongo import restore_steps
from tests.processes import ROOT
from tests.store.lifecycle.conftest import Json, Memory, Open, staged_names
from tests.store.lifecycle.operations import PREPARE, Case, as_json, check_soundness

LONG = bool(os.environ.get("INFINITE_MEMORY_TEST_LONG"))
MOMENTS = 20 if LONG else 1


class Victim:
    """A process that carries out one request."""

    def __init__(self, uri: str, database: str, home: Path, flags: dict[str, str], request: Json) -> None:
        arguments = [uri, database, str(home), as_json(flags), as_json(request)]
        command = [sys.executable, "-m", "tests.store.lifecycle.killed", *arguments]
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        assert self._process.stdout is not None
        self._said = self._process.stdout
        assert self._said.readline() == b"ready\n"

    def finish(self) -> float:
        """Let it do its work; gives the seconds that it took."""
        with self._said:
            status, took = self._said.readline().split()
            assert status == b"OK"
            assert self._process.wait() == 0
        return float(took)

    def kill(self, after_s: float) -> None:
        """End it after a while."""
        with self._said:
            time.sleep(after_s)
            self._process.kill()
            self._process.wait()


async def database_of(open_memory: Open) -> tuple[str, str]:
    """Give URI and database of a memory."""
    async with open_memory() as memory:
        return str(memory.app.config.mongodb.uri), memory.app.config.mongodb.database


@pytest.mark.parametrize("what", PREPARE)
async def test_what_is_killed_has_lost_nothing_and_is_finished_by_the_next_run(
    make_open: Callable[[Path], Open], tmp_path: Path, what: str
) -> None:
    chance = random.Random(what)
    took = 0.0
    for moment in range(MOMENTS + 1):  # the first is let live, to learn how long the work takes
        folder = tmp_path / str(moment)
        open_memory = make_open(folder)
        case = await PREPARE[what](open_memory, folder)
        uri, database = await database_of(open_memory)
        victim = Victim(uri, database, folder / "home", case.flags, case.request)
        if moment == 0:
            took = victim.finish()
        else:
            victim.kill(chance.uniform(0, took))

        async def check(open_memory: Open = open_memory, case: Case = case, was_killed: bool = moment > 0) -> None:
            async with open_memory("home", case.flags) as memory:
                await memory.ok("get_memory_stats")
                await check_soundness(memory)
                await case.check(memory, not was_killed)
                if was_killed:
                    again = await memory.ask(
                        case.request["action"], **{k: v for k, v in case.request.items() if k != "action"}
                    )
                    assert again["status"] == "OK" or again["error_code"] in case.done_already, again
                    await case.check(memory, True)
                    await check_soundness(memory)

        await check()


async def texts(memory: Memory) -> set[str]:
    """List the texts of all live memories, by the store and not by the index."""
    return {one.text async for one in memory.services.store.stream()}


async def fill(memory: Memory, name: str, count: int) -> set[str]:
    """Store memories in two scopes."""
    wanted = [f"{name} {number}" for number in range(count)]
    memories = [{"content": text, "metadata": {"scope": f"S{number % 2}"}} for number, text in enumerate(wanted)]
    await memory.ok("store_memories", memories=memories)
    return set(wanted)


@pytest.mark.parametrize("mode", ["replace", "merge"])
async def test_a_restore_that_dies_between_two_steps_is_finished_at_the_next_start(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """A kill hits these moments too seldom, so the process is made to stop after each step in turn."""
    carry_out = restore_steps._carry_out

    class Died(Exception):
        pass

    async def prepare(name: str) -> tuple[set[str], str]:
        async with open_memory(name) as memory:
            old = await fill(memory, "in the backup", 10)
            await memory.ok("store_memory", content="revised")
            made = await memory.ok("backup_memory")
            await memory.ok("delete_memory", target={"scope": "S1"}, forget_mode="hard")
            await memory.store("stored later", "Later")
            later = await texts(memory)
            return (old | {"revised"} if mode == "replace" else old | later), made["path"]

    async def die(name: str, path: str, after: int) -> int:
        seen: list[int] = []

        async def some_steps(database: Any, steps: list[Any], **options: Any) -> None:
            seen.append(len(steps))
            await carry_out(database, steps[:after], **options)
            raise Died

        async with open_memory(name) as memory:
            with monkeypatch.context() as dying:
                dying.setattr(restore_steps, "_carry_out", some_steps)
                assert (await memory.ask("restore_backup", file=path, mode=mode))["error_code"] == "INTERNAL_ERROR"
        return seen[0]

    async def check(name: str, after: set[str]) -> None:
        async with open_memory(name) as memory:
            await memory.ok("get_memory_stats")
            assert await texts(memory) == after
            assert await staged_names(memory) == []
            listed = await memory.ok("list_memories", filter={"scope": "ALL"}, limit=100)
            assert {one["text"] for one in listed["results"]} == after

    step, steps = 0, 1
    while step <= steps:
        name = f"{mode}-{step}"
        after, path = await prepare(name)
        steps = await die(name, path, step)
        await check(name, after)
        step += 1 if LONG else 3
