"""A merge of scopes as others see it meanwhile: each memory is in the one scope or in the other."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.store.lifecycle.conftest import Open

COUNT = 600


async def test_memories_of_a_scope_that_is_merged_are_listed_and_counted_at_every_moment(open_memory: Open) -> None:
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


async def test_what_is_moved_between_being_found_and_being_read_is_read_where_it_is(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory() as memory:
        ids = {await memory.store(f"A lantern of the {place}", "Source") for place in ("shed", "cellar", "boat")}
        await memory.ok("create_memory_scope", scope_name="Target")
        store, ends = memory.services.store, ["Source", "Target"]
        fetch = store.fetch

        async def fetch_after_merge(*arguments: Any, **options: Any) -> Any:
            monkeypatch.setattr(store, "fetch", fetch)
            await memory.ok("merge_memory_scopes", scope=ends[0], into=ends[1])
            return await fetch(*arguments, **options)

        for action, fields in (
            ("list_memories", {}),
            ("retrieve_memory", {"query": "lantern"}),
            ("search_by_tag", {"tag": "light"}),
        ):
            for memory_id in ids:
                await memory.ok("update_memory", memory_id=memory_id, tags=["light"])
            monkeypatch.setattr(store, "fetch", fetch_after_merge)
            reply = await memory.ok(action, scope="ALL", **fields)
            assert {one["memory_id"] for one in reply["results"]} == ids, action
            await memory.ok("create_memory_scope", scope_name=ends[0])
            ends.reverse()
