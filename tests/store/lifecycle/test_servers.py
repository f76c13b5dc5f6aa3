"""The same lifecycle over every driver, and on a server that is no replica set, which says what it cannot promise."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from infinite_memory.models import Fact, FactId
from tests.mongo_server import StandaloneMongo, shared_mongo
from tests.processes import LONG
from tests.store.lifecycle.conftest import Open, opening
from tests.store.lifecycle.operations import check_soundness, texts
from tests.store.lifecycle.planting import LONG_AGO, plant

Place = Callable[[Path], Open]

EACH, MANY = (700, 2000) if LONG else (300, 1000)
"""Memories of each scope, and so many that a backup of them takes a while."""


@pytest.fixture(params=["pymongo", "motor", "standalone"] if LONG else ["pymongo", "standalone"])
def place(request: pytest.FixtureRequest) -> Place:
    """Give what opens memories by one driver, or on a standalone server."""
    if request.param == "standalone":
        return lambda folder: opening(shared_mongo(StandaloneMongo).uri, folder)
    return lambda folder: opening(shared_mongo().uri, folder, request.param)


async def test_out_and_in_again(place: Place, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    open_memory = place(tmp_path)

    async with asyncio.timeout(300):
        async with open_memory("old") as old:
            for scope in ("S0", "S1"):
                await plant(old, scope, [f"{scope} {number}" for number in range(EACH)], tags=("k",))
            await plant(old, "S0", ["hidden"], deleted_at=LONG_AGO)
            changed = await old.store("first form", "S1")
            await old.ok("update_memory", memory_id=changed, content="second form")
            scope_id = (await old.services.scopes.get("S1")).scope_id
            await old.services.store.facts.put(Fact(FactId(""), scope_id, "Ada", "is", "here", old.services.clock()))
            before = await texts(old)
            made = await old.ok("backup_memory")
            assert ("note" in made) == ("standalone" in request.node.name)
            assert made["counts"] | {"meta": 0} == {
                "memories": 2 * EACH + 2,
                "scopes": 3,
                "revisions": 1,
                "facts": 1,
                "meta": 0,
            }
            written = await old.ok("export_memory", include_deleted=True)
        async with open_memory("restored") as new:
            await plant(new, "There", ["before"])
            refused = await new.ask("restore_backup", file=made["path"])
            assert refused["error_code"] == "INVALID_REQUEST"
            merged = await new.ok("restore_backup", file=made["path"], mode="merge")
            assert merged["restored_memories"] == 2 * EACH + 2
            assert await texts(new) == before + Counter(["before"])
            replaced = await new.ok("restore_backup", file=made["path"], mode="replace")
            assert await texts(new) == before
            assert (await new.ok("get_memory", memory_id=changed))["revisions"][0]["text"] == "first form"
            copied = await new.ok("restore_backup", file=made["path"], scope="S1", as_scope="Copy")
            assert copied["restored_memories"] == EACH + 1
            await check_soundness(new)
            await new.ok("restore_backup", file=replaced["saved_before"], mode="replace")
            assert await texts(new) == before + Counter(["before"])
            await check_soundness(new)
        async with open_memory("imported") as third:
            done = await third.ok("import_memory", path=written["path"])
            assert (done["added"], done["skipped"]) == (2 * EACH + 2, 0)
            assert await texts(third) == before
            assert (await third.ok("import_memory", path=written["path"]))["added"] == 0


async def test_tidying_and_undoing_it(place: Place, tmp_path: Path) -> None:
    open_memory = place(tmp_path)

    async with open_memory("home", {"retention.max_memories": "5"}) as memory:
        await plant(memory, "S", ["bins go out", "BINS go out"] * 3 + [f"note {number}" for number in range(8)])
        for operation, count in (("deduplicate", 4), ("merge_similar", 1), ("prune", 4), ("purge_deleted", 0)):
            done = await memory.ok("optimize_memory", operations=[operation])
            assert done["counts"] == {operation: count}
        back = await memory.ok("restore_memory", scope="S")
        assert back["restored_count"] == 9
        await memory.ok("merge_memory_scopes", scope="S", into="Global")
        assert (await memory.ok("get_memory_stats"))["stats"]["scopes"] == {"Global": 14}
        await check_soundness(memory)


async def test_memories_stored_while_a_backup_is_read_do_no_harm(place: Place, tmp_path: Path) -> None:
    """Without snapshots a backup may hold some of them and not others; each that it holds is whole."""
    open_memory = place(tmp_path)

    async with asyncio.timeout(200):
        async with open_memory("old") as old:
            await plant(old, "S", [f"note {number}" for number in range(MANY)])
            making = asyncio.create_task(old.ok("backup_memory"))
            late = 0
            while not making.done():
                await old.store(f"late {late}", "S")
                late += 1
            made = await making
            assert (await old.ok("verify_backup", file=made["backup_file"]))["whole"]
        async with open_memory("new") as new:
            await new.ok("restore_backup", file=made["path"])
            found = await texts(new)
            assert {f"note {number}" for number in range(MANY)} <= found.keys()
            assert {one for one in found if one.startswith("late")} <= {f"late {number}" for number in range(late)}
            await check_soundness(new)
