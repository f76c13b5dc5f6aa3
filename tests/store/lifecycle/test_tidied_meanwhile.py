"""What somebody changes while memories are tidied stays: only what is still as it was read is hidden."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.store.lifecycle.conftest import Memory, Open
from tests.store.lifecycle.planting import LONG_AGO, plant

NEW = "the PIN is 4711"
FLAGS = {"retention.max_memories": "1", "retention.summary_hides": "true"}


async def tidy_while(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, operation: str, change: Callable[[], Awaitable[Any]]
) -> dict[str, Any]:
    """Tidy up, and make a change once the memories were read."""
    store, is_changed = memory.services.store, False
    stream = store.stream

    async def stream_and_change(*scopes: Any) -> AsyncIterator[Any]:
        nonlocal is_changed
        async for one in stream(*scopes):
            yield one
        if not is_changed:
            is_changed = True
            await change()

    with monkeypatch.context() as patched:
        patched.setattr(store, "stream", stream_and_change)
        return await memory.ok("optimize_memory", operations=[operation])


async def listed(memory: Memory) -> list[str]:
    """List the texts of the scope."""
    return sorted(one["text"] for one in (await memory.ok("list_memories", scope="S"))["results"])


async def found(memory: Memory) -> list[str]:
    """List what a search for the new words finds."""
    hits = await memory.ok("retrieve_memory", query=NEW, scope="S", top_k=10)
    return [one["text"] for one in hits["results"] if one["text"] == NEW]


@pytest.mark.parametrize("operation", ["deduplicate", "merge_similar", "prune"])
@pytest.mark.parametrize("which", [0, 1])
async def test_what_is_edited_meanwhile_is_neither_a_duplicate_nor_old(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, operation: str, which: int
) -> None:
    """The first of two is the one that stays of duplicates: where it says something else by then, the other one stays too."""

    async with open_memory(flags=FLAGS) as memory:
        ids = await plant(memory, "S", ["the dentist at nine"] * 2, speaker="Ada", occurred_at=LONG_AGO)
        done = await tidy_while(
            memory, monkeypatch, operation,
            lambda: memory.ok("update_memory", memory_id=ids[which], content=NEW),
        )  # fmt: skip
        is_hidden = operation == "prune" and which == 1  # the older one, which nobody touched
        assert done["counts"] == {operation: int(is_hidden)}
        assert len(done["details"][operation]) == int(is_hidden)
        left = (await memory.ok("list_memories", scope="S"))["results"]
        assert sorted(one["text"] for one in left) == sorted([NEW] + ["the dentist at nine"] * (not is_hidden))
        assert await found(memory) == [NEW]


async def test_what_stays_after_all_is_listed_at_once_though_the_feed_told_that_it_went(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory() as memory, contextlib.AsyncExitStack() as stack:
        ids = await plant(memory, "S", ["the dentist at nine"] * 2, speaker="Ada", occurred_at=LONG_AGO)
        store, undelete = memory.services.store, memory.services.store.undelete
        index = await memory.services.index.sidecar()

        async def undelete_late(located: Any) -> Any:
            while index.locate(list(located)):  # until the feed has told of the removal
                await asyncio.sleep(0.02)
            await stack.enter_async_context(memory.services.index.paused())  # it tells nothing more
            return await undelete(located)

        with monkeypatch.context() as patched:
            patched.setattr(store, "undelete", undelete_late)
            await tidy_while(
                memory, monkeypatch, "merge_similar",
                lambda: memory.ok("update_memory", memory_id=ids[1], content=NEW),
            )  # fmt: skip
        assert await listed(memory) == sorted([NEW, "the dentist at nine"])


@pytest.mark.parametrize("mode", ["soft", "hard"])
async def test_the_double_of_what_is_forgotten_meanwhile_is_not_hidden_for_it(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    async with open_memory() as memory:
        ids = await plant(memory, "S", [NEW, NEW], speaker="Ada")
        done = await tidy_while(
            memory, monkeypatch, "deduplicate",
            lambda: memory.ok("delete_memory", target={"memory_id": ids[0]}, forget_mode=mode),
        )  # fmt: skip
        assert done["counts"] == {"deduplicate": 0}
        assert await found(memory) == [NEW]


async def test_a_turn_that_is_to_be_remembered_meanwhile_or_edited_since_is_not_hidden_by_a_summary(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory(flags=FLAGS) as memory:
        ids = await plant(memory, "S", [f"saying {number}" for number in range(14)], conversation_id="c1")
        done = await tidy_while(
            memory, monkeypatch, "summarize",
            lambda: memory.ok("update_memory", memory_id=ids[3], tags=["remember"]),
        )  # fmt: skip
        [detail] = done["details"]["summarize"]
        assert detail["hidden"] == [one for one in ids if one != ids[3]]
        for one in ids:
            if one != ids[3]:
                await memory.ok("restore_memory", memory_id=one)
        await memory.ok("update_memory", memory_id=ids[5], content=NEW)
        await memory.ok("optimize_memory", operations=["summarize"])
        assert await found(memory) == [NEW]
