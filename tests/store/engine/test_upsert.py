"""Saving by content: one memory however often and by how many it is saved, and nothing of it lost."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
from collections import Counter

import pytest

from infinite_memory.engine.types import ForgetMode, ForgetTarget, MemoryUpdate, NewMemory, ScopedFilter
from infinite_memory.engine.upsert import UpsertOutcome
from infinite_memory.errors import LimitExceededError
from tests.mongo_server import fresh_database
from tests.store.lifecycle.conftest import Open

TEA = NewMemory(
    "tea at four", "Global", "test://1", ("topic:tea",), type="note", confidence=0.4, structured={"text": "tea at four"}
)


async def test_many_who_save_the_same_at_once_in_two_processes_lose_nothing(open_memory: Open) -> None:
    shared = {"mongodb.database": fresh_database()}
    async with open_memory("one", shared) as one, open_memory("two", shared) as two:
        drafts = [dataclasses.replace(TEA, tags=(f"t{n}",), confidence=n / 10) for n in range(8)]
        done = await asyncio.gather(
            *((one, two)[n % 2].engine.memories.upsert(draft) for n, draft in enumerate(drafts))
        )
        assert len({each.result.memory.memory_id for each in done}) == 1
        assert len({each.result.memory.created_at for each in done}) == 1
        assert Counter(each.outcome for each in done)[UpsertOutcome.STORED] == 1
        memory = await two.engine.memories.get(done[0].result.memory.memory_id)
        assert set(memory.tags) == {f"t{n}" for n in range(8)}
        assert memory.confidence == 0.7
        assert (await one.services.store.count_live())[memory.scope_id] == 1


async def test_saving_again_without_news_keeps_no_version_and_refreshes_the_time(open_memory: Open) -> None:
    now = [dt.datetime(2026, 3, 14, 12, tzinfo=dt.UTC)]
    async with open_memory(clock=lambda: now[0]) as memory:
        first = (await memory.engine.memories.upsert(TEA)).result.memory
        now[0] += dt.timedelta(hours=1)
        again = await memory.engine.memories.upsert(dataclasses.replace(TEA, confidence=0.2))
        assert again.outcome is UpsertOutcome.DUPLICATE
        assert (again.result.memory.created_at, again.result.memory.updated_at) == (first.created_at, now[0])
        assert again.result.memory.confidence == 0.4
        assert (await memory.engine.memories.history(first.memory_id)).revisions == ()
        more = await memory.engine.memories.upsert(dataclasses.replace(TEA, tags=("TOPIC:TEA", "new")))
        assert (more.outcome, more.result.memory.tags) == (UpsertOutcome.UPDATED, ("topic:tea", "new"))
        assert [old.tags for old in (await memory.engine.memories.history(first.memory_id)).revisions] == [
            ("topic:tea",)
        ]
        found = await memory.engine.recall.search("when is tea?", ScopedFilter(("Global",)), 5)
        assert [match.memory.memory_id for match in found.matches] == [first.memory_id], "its vectors were kept"


async def test_the_same_content_in_two_scopes_or_of_two_types_is_two_memories(open_memory: Open) -> None:
    async with open_memory() as memory:
        drafts = [TEA, dataclasses.replace(TEA, scope="Other"), dataclasses.replace(TEA, type="todo"),
                  dataclasses.replace(TEA, source="test://2")]  # fmt: skip
        ids = {(await memory.engine.memories.upsert(draft)).result.memory.memory_id for draft in drafts}
        assert len(ids) == 4


async def test_a_memory_that_was_changed_since_is_not_mistaken_for_what_it_was(open_memory: Open) -> None:
    async with open_memory() as memory:
        first = (await memory.engine.memories.upsert(TEA)).result.memory
        changed = await memory.engine.memories.update(first.memory_id, MemoryUpdate(text="tea at five"))
        assert changed.memory.structured is None
        fresh = await memory.engine.memories.upsert(TEA)
        assert fresh.outcome is UpsertOutcome.STORED
        assert fresh.result.memory.memory_id != first.memory_id
        again = await memory.engine.memories.upsert(TEA)
        assert (again.outcome, again.result.memory.memory_id) == (
            UpsertOutcome.DUPLICATE,
            fresh.result.memory.memory_id,
        )
        assert (await memory.engine.memories.get(first.memory_id)).text == "tea at five"


async def test_what_was_forgotten_is_there_again_once_it_is_saved(open_memory: Open) -> None:
    async with open_memory() as memory:
        for mode, outcome in ((ForgetMode.SOFT, UpsertOutcome.UPDATED), (ForgetMode.HARD, UpsertOutcome.STORED)):
            first = (await memory.engine.memories.upsert(TEA)).result.memory
            await memory.engine.forget.matching(ForgetTarget(memory_id=first.memory_id), mode)
            again = await memory.engine.memories.upsert(dataclasses.replace(TEA, tags=(mode.value,)))
            assert (again.outcome, again.result.memory.memory_id) == (outcome, first.memory_id)
            listing = await memory.engine.memories.list_page(ScopedFilter(("Global",)), 10)
            assert [one.memory_id for one in listing.memories] == [first.memory_id]
        await memory.engine.forget.matching(ForgetTarget(memory_id=first.memory_id), ForgetMode.SOFT)
        assert (await memory.engine.memories.upsert(TEA)).outcome is UpsertOutcome.UPDATED, (
            "it says no more, and is seen again"
        )
        assert (await memory.engine.memories.upsert(TEA)).outcome is UpsertOutcome.DUPLICATE


async def test_tags_that_come_together_are_bounded_and_what_is_there_stays(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infinite_memory.engine.records.MAX_MEMORY_TAGS", 3)

    async with open_memory() as memory:
        await memory.engine.memories.upsert(dataclasses.replace(TEA, tags=("a", "b")))
        full = await memory.engine.memories.upsert(dataclasses.replace(TEA, tags=("c",)))
        with pytest.raises(LimitExceededError, match="tags: 4 tags of one memory is more than the limit of 3"):
            await memory.engine.memories.upsert(dataclasses.replace(TEA, tags=("d",)))
        left = await memory.engine.memories.get(full.result.memory.memory_id)
        assert (left.tags, left.revision) == (("a", "b", "c"), 2)
        fewer = await memory.engine.memories.update(left.memory_id, MemoryUpdate(tags=("a",)))
        assert fewer.memory.tags == ("a",)
