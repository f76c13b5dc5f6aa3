"""Layered recall and the graph, on a real memory: what is weighty comes first, what held is never lost."""

from __future__ import annotations

import asyncio
import datetime as dt

import pytest

from infinite_memory.engine.layers import DEEP, FOUND, IMPORTANT
from infinite_memory.engine.parts import Draft
from infinite_memory.errors import MemoryNotFoundError, ScopeArchivedError, ScopeNotFoundError
from tests.mongo_server import run
from tests.store.lifecycle.conftest import Open


def test_what_is_weighty_comes_first_and_age_takes_weight(open_memory: Open) -> None:
    async def work() -> None:
        now = [dt.datetime(2026, 3, 14, tzinfo=dt.UTC)]
        async with open_memory(clock=lambda: now[0]) as memory:
            engine = memory.engine
            for text, importance in (("old and weighty", 10), ("old and plain", None)):
                await engine.remember(Draft(text, "p", importance=importance))
            now[0] += dt.timedelta(days=400)
            for text, importance in (("new and plain", None), ("new and light", 1)):
                await engine.remember(Draft(text, "p", importance=importance))
            weighed = await engine.weightiest("p", 10)
            assert [one.memory.text for one in weighed] == [
                "old and weighty", "new and plain", "old and plain", "new and light",
            ]  # fmt: skip
            assert [one.importance for one in weighed] == sorted((one.importance for one in weighed), reverse=True)
            assert len(await engine.weightiest("p", 2)) == 2

    run(work())


@pytest.mark.parametrize("deep", [False, True])
def test_an_answer_is_in_the_layer_of_answers_also_when_it_is_weighty(open_memory: Open, deep: bool) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            for number in range(30):
                await memory.engine.remember(Draft(f"ledger entry {number}", "p", importance=5))
            await memory.engine.remember(Draft("The harbour master is called Ingrid.", "p", importance=10))
            await memory.engine.remember(Draft("The harbour master of another place", "q", importance=10))
            found = await memory.engine.recall_layers("Who is the harbour master?", "p", 3, deep=deep)
            layers = [one.layer for one in found.results]
            assert layers == [IMPORTANT] * layers.count(IMPORTANT) + [DEEP if deep else FOUND] * 3
            assert 12 <= layers.count(IMPORTANT) <= 15
            best = next(one for one in found.results if one.layer != IMPORTANT)
            assert best.memory.text == "The harbour master is called Ingrid."
            assert best.score == max(one.score for one in found.results)
            assert len({one.memory.memory_id for one in found.results}) == len(found.results)
            with pytest.raises(ScopeNotFoundError):
                await memory.engine.recall_layers("x", "nowhere", 3)

    run(work())


def test_one_memory_is_forgotten_in_its_own_scope_only(open_memory: Open) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            kept = await memory.engine.remember(Draft("tea", "p"))
            await memory.engine.remember(Draft("coffee", "q"))
            with pytest.raises(MemoryNotFoundError):
                await memory.engine.forget_one(kept.memory.memory_id, "q")
            await memory.engine.get(kept.memory.memory_id)
            for _ in range(2):
                await memory.engine.forget_one(kept.memory.memory_id, "p")
            with pytest.raises(MemoryNotFoundError):
                await memory.engine.get(kept.memory.memory_id)
            assert (await memory.engine.restore(kept.memory.memory_id)).text == "tea"

    run(work())


def test_facts_survive_a_backup_and_still_one_holds_at_a_time(open_memory: Open) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            engine = memory.engine
            await engine.create_scope("p", "")
            for value in ("a", "b"):
                await engine.assert_fact("p", "Ada", "likes", value)
            backup = await memory.ok("backup_memory")
            await engine.assert_fact("p", "Ada", "likes", "c")
            await memory.ok("restore_backup", file=backup["backup_file"], mode="replace")
            assert [fact.object for fact in await engine.facts_of("p", "ada")] == ["b"]
            await asyncio.gather(*(engine.assert_fact("p", "Ada", "likes", f"v{number}") for number in range(6)))
            [holds] = await engine.facts_of("p", "Ada")
            scope = await engine.get_scope("p")
            history = await engine.parts.store.facts.history(scope.scope_id, "Ada", "likes")
            assert [fact.object for fact in history][:2] == ["a", "b"]
            assert len(history) == 8
            assert [fact.valid_to for fact in history] == [*(fact.valid_from for fact in history[1:]), None]
            assert history[-1] == holds
            assert await engine.count_facts() == await engine.count_facts("p") == 1

    run(work())


def test_an_archived_scope_takes_no_facts_and_shows_none(open_memory: Open) -> None:
    async def work() -> None:
        async with open_memory() as memory:
            await memory.engine.create_scope("p", "")
            await memory.engine.assert_fact("p", "Ada", "likes", "tea")
            await memory.ok("delete_memory", target={"scope": "p"})
            with pytest.raises(ScopeArchivedError):
                await memory.engine.assert_fact("p", "Ada", "likes", "coffee")
            with pytest.raises(ScopeNotFoundError):
                await memory.engine.facts_of("p", "Ada")
            await memory.ok("restore_memory", scope="p")
            assert [fact.object for fact in await memory.engine.facts_of("p", "Ada")] == ["tea"]

    run(work())
