"""Layered recall and the graph, on a real memory: what is weighty comes first, what held is never lost."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from infinite_memory.engine.layered_recall import DEEP, FOUND, IMPORTANT
from infinite_memory.engine.types import NewMemory
from infinite_memory.errors import MemoryNotFoundError, ScopeArchivedError, ScopeNotFoundError
from tests.store.lifecycle.conftest import Open


async def test_what_is_weighty_comes_first_and_age_takes_weight(open_memory: Open) -> None:
    now = [dt.datetime(2026, 3, 14, tzinfo=dt.UTC)]
    async with open_memory(clock=lambda: now[0]) as memory:
        engine = memory.engine
        for text, importance in (("old and weighty", 10), ("old and plain", None)):
            await engine.memories.store(NewMemory(text, "p", importance=importance))
        now[0] += dt.timedelta(days=400)
        for text, importance in (("new and plain", None), ("new and light", 1)):
            await engine.memories.store(NewMemory(text, "p", importance=importance))
        weighed = await engine.layers.most_important("p", 10)
        assert [one.memory.text for one in weighed] == [
            "old and weighty", "new and plain", "old and plain", "new and light",
        ]  # fmt: skip
        assert [one.importance for one in weighed] == sorted((one.importance for one in weighed), reverse=True)
        assert len(await engine.layers.most_important("p", 2)) == 2


@pytest.mark.parametrize("deep", [False, True])
async def test_an_answer_is_in_the_layer_of_answers_also_when_it_is_weighty(open_memory: Open, deep: bool) -> None:
    async with open_memory() as memory:
        for number in range(30):
            await memory.engine.memories.store(NewMemory(f"ledger entry {number}", "p", importance=5))
        await memory.engine.memories.store(NewMemory("The harbour master is called Ingrid.", "p", importance=10))
        await memory.engine.memories.store(NewMemory("The harbour master of another place", "q", importance=10))
        found = await memory.engine.layers.search("Who is the harbour master?", "p", 3, deep=deep)
        layers = [result.layer for result in found.results]
        assert layers == [DEEP if deep else FOUND] * 3 + [IMPORTANT] * layers.count(IMPORTANT)
        assert layers.count(IMPORTANT) == 0 if deep else 12 <= layers.count(IMPORTANT) <= 15
        best = found.results[0]
        assert best.memory.text == "The harbour master is called Ingrid."
        assert best.score == max(result.score for result in found.results)
        assert len({result.memory.memory_id for result in found.results}) == len(found.results)
        with pytest.raises(ScopeNotFoundError):
            await memory.engine.layers.search("x", "nowhere", 3)


async def test_one_memory_is_forgotten_in_its_own_scope_only(open_memory: Open) -> None:
    async with open_memory() as memory:
        kept = await memory.engine.memories.store(NewMemory("tea", "p"))
        await memory.engine.memories.store(NewMemory("coffee", "q"))
        with pytest.raises(MemoryNotFoundError):
            await memory.engine.forget.one(kept.memory.memory_id, "q")
        await memory.engine.memories.get(kept.memory.memory_id)
        for _ in range(2):
            await memory.engine.forget.one(kept.memory.memory_id, "p")
        with pytest.raises(MemoryNotFoundError):
            await memory.engine.memories.get(kept.memory.memory_id)
        assert (await memory.engine.memories.restore(kept.memory.memory_id)).memory.text == "tea"


async def test_facts_survive_a_backup_and_still_one_holds_at_a_time(open_memory: Open) -> None:
    async with open_memory() as memory:
        engine = memory.engine
        await engine.scopes.create("p", "")
        for value in ("a", "b"):
            await engine.graph.assert_fact("p", "Ada", "likes", value)
        backup = await memory.ok("backup_memory")
        await engine.graph.assert_fact("p", "Ada", "likes", "c")
        await memory.ok("restore_backup", file=backup["backup_file"], mode="replace")
        assert [fact.object for fact in await engine.graph.get_facts("p", "ada")] == ["b"]
        await asyncio.gather(*(engine.graph.assert_fact("p", "Ada", "likes", f"v{number}") for number in range(6)))
        [holds] = await engine.graph.get_facts("p", "Ada")
        scope = await engine.scopes.get("p")
        history = await memory.services.store.facts.history(scope.scope_id, "Ada", "likes")
        assert [fact.object for fact in history][:2] == ["a", "b"]
        assert len(history) == 8
        assert [fact.valid_to for fact in history] == [*(fact.valid_from for fact in history[1:]), None]
        assert history[-1] == holds
        assert await engine.graph.count_facts() == await engine.graph.count_facts("p") == 1


async def test_an_archived_scope_takes_no_facts_and_shows_none(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.engine.scopes.create("p", "")
        await memory.engine.graph.assert_fact("p", "Ada", "likes", "tea")
        await memory.ok("delete_memory", target={"scope": "p"})
        with pytest.raises(ScopeArchivedError):
            await memory.engine.graph.assert_fact("p", "Ada", "likes", "coffee")
        with pytest.raises(ScopeNotFoundError):
            await memory.engine.graph.get_facts("p", "Ada")
        await memory.ok("restore_memory", scope="p")
        assert [fact.object for fact in await memory.engine.graph.get_facts("p", "Ada")] == ["tea"]
