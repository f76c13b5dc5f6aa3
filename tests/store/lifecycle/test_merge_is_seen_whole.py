"""A merge of scopes as others see it meanwhile: each memory is in the one scope or in the other."""

from __future__ import annotations

import asyncio

from tests.mongo_server import run
from tests.store.lifecycle.conftest import Open

COUNT = 600


def test_memories_of_a_scope_that_is_merged_are_listed_and_counted_at_every_moment(open_memory: Open) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            for start in range(0, COUNT, 300):
                notes = [{"content": f"Note {start + n}", "scope": "Source"} for n in range(300)]
                await memory.ok("store_memories", memories=notes)
            await memory.store("here before", "Target")
            merging = asyncio.create_task(memory.ok("merge_memory_scopes", scope="Source", into="Target"))
            seen: list[tuple[int, int]] = []
            while not merging.done():
                source = await memory.ask("list_memories", scope="Source", limit=20)
                if source["status"] != "OK":
                    target = await memory.ok("list_memories", scope="Target", limit=20)
                    seen.append((target["total"], len(target["results"])))
            assert (await merging)["moved"] == COUNT
            assert set(seen) == {(COUNT + 1, 20)}
            assert (await memory.ok("list_memories", scope="Target", limit=1))["total"] == COUNT + 1
            assert (await memory.ok("optimize_memory", operations=["check_sidecar"]))["counts"] == {"check_sidecar": 0}

    run(work())
