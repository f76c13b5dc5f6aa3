"""kill -9 at any moment of a backup, restore, import or compaction: nothing lost, no half state, the next run finishes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.lifecycle.backup import verify_file
from infinite_memory.store import staging
from tests.mongo_server import run
from tests.processes import ROOT
from tests.store.lifecycle.conftest import Memory, Open, staged_names

LONG = bool(os.environ.get("INFINITE_MEMORY_TEST_LONG"))
MOMENTS = 20 if LONG else 1
SOME = 400  # memories: enough that each piece of work takes some hundred milliseconds
LONGEST_S = {"backup": 0.3, "replace": 1.5, "merge": 1.5, "import": 4.0, "compact": 0.3}


def kill_in_the_middle(what: str, uri: str, database: str, home: Path, file: str, after_s: float) -> None:
    """Run `killed` and end it after a while."""
    command = [sys.executable, "-m", "tests.store.lifecycle.killed", what, uri, database, str(home), file]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        time.sleep(after_s)
        process.kill()
        process.wait()


async def texts(memory: Memory) -> set[str]:
    """List the texts of all live memories, by the store and not by the index."""
    return {one.text async for one in memory.engine.parts.store.stream()}


async def fill(memory: Memory, name: str, count: int) -> set[str]:
    """Store memories in two scopes."""
    wanted = [f"{name} {number}" for number in range(count)]
    for at in range(0, count, 100):
        memories = [
            {"content": text, "metadata": {"scope": f"S{number % 2}"}}
            for number, text in enumerate(wanted[at : at + 100])
        ]
        await memory.ok("store_memories", memories=memories)
    return set(wanted)


@pytest.mark.parametrize("moment", range(MOMENTS))
@pytest.mark.parametrize("what", ["replace", "merge"])
def test_a_restore_is_whole_or_not_at_all(open_memory: Open, tmp_path: Path, what: str, moment: int) -> None:
    chance = random.Random(f"{what} {moment}")

    async def first() -> tuple[set[str], set[str], str, str, str]:
        async with open_memory() as memory:
            old = await fill(memory, "in the backup", SOME)
            made = await memory.ok("backup_memory")
            await memory.ok("delete_memory", target={"scope": "S1"}, forget_mode="hard")
            await fill(memory, "stored later", 50)
            now = await texts(memory)
            config = memory.app.config.mongodb
            return old, now, made["path"], str(config.uri), config.database

    async def then(old: set[str], now: set[str], path: str) -> None:
        async with open_memory() as memory:
            await memory.ok("get_memory_stats")
            found = await texts(memory)
            after = old if what == "replace" else old | now
            assert found in (now, after)
            assert (await memory.ok("optimize_memory", operations=["check_sidecar"]))["counts"] == {"check_sidecar": 0}
            await memory.ok("restore_backup", file=path, mode=what)
            assert await texts(memory) == after
            near = await memory.ok("retrieve_memory", query="in the backup 1", filter={"scope": "ALL"}, top_k=1)
            assert near["results"][0]["text"] in after

    old, now, path, uri, database = run(first())
    kill_in_the_middle(what, uri, database, tmp_path / "home", path, chance.uniform(0, LONGEST_S[what]))
    run(then(old, now, path))


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_backup_is_whole_or_not_there(open_memory: Open, tmp_path: Path, moment: int) -> None:
    chance = random.Random(f"backup {moment}")

    async def first() -> tuple[str, str]:
        async with open_memory() as memory:
            await fill(memory, "note", SOME)
            config = memory.app.config.mongodb
            return str(config.uri), config.database

    async def then() -> None:
        async with open_memory() as memory:
            for one in (await memory.ok("list_backups"))["backups"]:
                await memory.ok("verify_backup", file=one["backup_file"])
            last = (await memory.ok("get_memory_stats"))["stats"]["last_backup"]
            made = await memory.ok("backup_memory")
            assert last is None or last < made["created_at"]
            assert verify_file(Path(made["path"])).memories == SOME

    uri, database = run(first())
    kill_in_the_middle("backup", uri, database, tmp_path / "home", "-", chance.uniform(0, LONGEST_S["backup"]))
    run(then())


@pytest.mark.parametrize("moment", range(MOMENTS))
@pytest.mark.parametrize("what", ["import", "compact"])
def test_imports_and_compactions_go_on_where_they_were(
    open_memory: Open, tmp_path: Path, what: str, moment: int
) -> None:
    chance = random.Random(f"{what} {moment}")

    async def first() -> tuple[set[str], str, str, str]:
        async with open_memory("other") as other:
            wanted = await fill(other, "imported", 200)
            written = await other.ok("export_memory")
        async with open_memory() as memory:
            wanted |= await fill(memory, "there", 100)
            config = memory.app.config.mongodb
            return wanted, written["path"], str(config.uri), config.database

    async def then(wanted: set[str], path: str) -> None:
        async with open_memory() as memory:
            done = await memory.ok("import_memory", path=path)
            assert done["added"] + done["present"] == 200
            assert await texts(memory) == wanted
            assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == 300
            assert (await memory.ok("optimize_memory", operations=["check_sidecar"]))["counts"] == {"check_sidecar": 0}

    wanted, path, uri, database = run(first())
    kill_in_the_middle(what, uri, database, tmp_path / "home", path, chance.uniform(0, LONGEST_S[what]))
    run(then(wanted, path))


@pytest.mark.parametrize("mode", ["replace", "merge"])
def test_a_restore_that_dies_between_two_steps_is_finished_at_the_next_start(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """A kill hits these moments too seldom, so the process is made to stop after each step in turn."""
    carry_out = staging._carry_out

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

        async def some_steps(database: Any, steps: list[Any], *, polled: bool) -> None:
            seen.append(len(steps))
            await carry_out(database, steps[:after], polled=polled)
            raise Died

        async with open_memory(name) as memory:
            with monkeypatch.context() as dying:
                dying.setattr(staging, "_carry_out", some_steps)
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
        after, path = run(prepare(name))
        steps = run(die(name, path, step))
        run(check(name, after))
        step += 1 if LONG else 3
