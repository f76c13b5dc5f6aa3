"""A memory moves to another scope: who sees it, where it is found, what it says of itself, and what saves the same again."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest

from infinite_memory.engine.types import NewMemory
from infinite_memory.engine.visibility import ANYBODYS, OwnerRule, Visibility
from infinite_memory.errors import MemoryNotFoundError, ScopeArchivedError, ScopeNotFoundError
from infinite_memory.models import MemoryId
from tests.store.lifecycle.conftest import Memory, Open
from tests.store.lifecycle.operations import check_soundness


async def found_in(memory: Memory, scope: str, query: str) -> list[str]:
    """List the ids that a search finds in a scope."""
    reply = await memory.ok("retrieve_memory", query=query, scope=scope)
    return [one["memory_id"] for one in reply["results"]]


async def test_a_moved_memory_is_found_where_it_is_with_its_history_and_links(open_memory: Open) -> None:
    async with open_memory() as memory:
        one = MemoryId(await memory.store("The pear tree is pruned in winter", tags=["pear"]))
        other = await memory.store("The shears are in the shed")
        await memory.ok("create_memory_scope", scope_name="Garden")
        await memory.ok("update_memory", memory_id=one, content="The pear tree is pruned in February")
        engine = memory.engine
        await engine.graph.link(await engine.memories.get(one), await engine.memories.get(MemoryId(other)), "needs")
        moved = await engine.memories.move(one, "garden")
        assert (moved.is_moved, moved.scope.name, moved.former.name) == (True, "Garden", "Global")
        assert moved.same_text == ()
        for _ in range(2):  # at once, and when the change feed has told of it
            reply = await memory.ok("get_memory", memory_id=one)
            assert (reply["memory"]["scope"], reply["memory"]["revision"]) == ("Garden", 3)
            assert [(v["scope"], v["text"]) for v in reply["revisions"]] == [
                ("Global", "The pear tree is pruned in winter"), ("Global", "The pear tree is pruned in February")
            ]  # fmt: skip
            assert ["moved_at" in v for v in reply["revisions"]] == [False, True]
            assert await found_in(memory, "Garden", "when is the pear tree pruned") == [one]
            assert one not in await found_in(memory, "Global", "when is the pear tree pruned")
            assert (await memory.ok("search_by_tag", tag="pear"))["total"] == 1
            assert len(await engine.graph.get_links(one)) == 1
            await asyncio.sleep(1)
        await memory.ok("update_memory", memory_id=one, content="The pear tree is pruned in March")
        await engine.memories.move(one, "Global")
        assert await found_in(memory, "Garden", "pear") == []
        await check_soundness(memory)


async def test_moving_into_its_own_scope_changes_nothing(open_memory: Open) -> None:
    async with open_memory() as memory:
        one = MemoryId(await memory.store("tea"))
        moved = await memory.engine.memories.move(one, "GLOBAL")
        assert (moved.is_moved, moved.memory.revision) == (False, 1)
        assert (await memory.engine.memories.history(one)).revisions == ()


@pytest.mark.parametrize("embedded", [True, False])
async def test_the_same_text_that_is_there_already_is_told(open_memory: Open, embedded: bool) -> None:
    async with open_memory() as memory:
        there = await memory.store("The key is under the mat", "House")
        await memory.store("The key is under the pot", "House")
        one = MemoryId(await memory.store("the key  is under the mat"))
        if not embedded:
            store: Any = memory.services.store
            async with store._connection.operation() as database:
                for name in await database.list_collection_names(filter={"name": {"$regex": "^mem_"}}):
                    await database[name].update_many({}, {"$unset": {"embedding": ""}})
        assert (await memory.engine.memories.move(one, "House")).same_text == (there,)


async def test_where_it_cannot_go_it_stays(open_memory: Open) -> None:
    async with open_memory() as memory:
        one = MemoryId(await memory.store("tea"))
        await memory.store("coffee", "Old")
        await memory.ok("delete_memory", target={"scope": "Old"})
        engine = memory.engine
        for scope, error in (("Nowhere", ScopeNotFoundError), ("Old", ScopeArchivedError)):
            with pytest.raises(error):
                await engine.memories.move(one, scope)
        with pytest.raises(MemoryNotFoundError):
            await engine.memories.move(MemoryId("0" * 24), "Global")
        await memory.ok("delete_memory", target={"memory_id": one})
        with pytest.raises(MemoryNotFoundError):
            await engine.memories.move(one, "Global")


async def test_who_does_not_see_either_scope_is_told_what_is_told_of_a_missing_one(open_memory: Open) -> None:
    async with open_memory() as memory:
        whole = memory.engine
        stored = {
            scope: (await whole.memories.store(NewMemory("tea", scope, owners={"user_id": "ada"}))).memory.memory_id
            for scope in ("A", "B", "Secret")
        }
        both = whole.restricted(Visibility(scope_names=("A", "B"), owners=ANYBODYS))
        nobodys = whole.restricted(Visibility(scope_names=("A", "B"), owners=((OwnerRule.equals("user_id", "eve"),),)))

        async def refusal(engine: Any, memory_id: str, scope: str) -> str:
            with pytest.raises((MemoryNotFoundError, ScopeNotFoundError)) as caught:
                await engine.memories.move(MemoryId(memory_id), scope)
            return str(caught.value).replace(memory_id, "ID").replace(scope, "SCOPE")

        missing = "0" * 24
        assert await refusal(both, stored["Secret"], "A") == await refusal(both, missing, "A")
        assert await refusal(nobodys, stored["A"], "B") == await refusal(nobodys, missing, "B")
        assert await refusal(both, stored["A"], "Secret") == await refusal(both, stored["A"], "Secrex")
        assert await refusal(both, stored["Secret"], "Secret") == await refusal(both, missing, "Secret")
        assert (await both.memories.move(stored["A"], "B")).is_moved
        await whole.memories.move(stored["Secret"], "A")
        page = await both.memories.history(stored["Secret"])
        [version] = page.revisions
        assert page.moved_at == {}
        [at] = (await both.memories.history(stored["A"])).moved_at.values()
        assert abs(at - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=10)
        assert both.scopes.find_by_id(version.scope_id) == await whole.scopes.get("A")  # and not where it was


async def test_what_is_saved_by_its_content_again_is_another_memory(open_memory: Open) -> None:
    """Its id is made of scope and content, and stays that of the memory that moved, hidden or not."""

    async with open_memory() as memory:
        engine = memory.engine
        await memory.ok("create_memory_scope", scope_name="Elsewhere")
        new = NewMemory("tea", "Global", source="x", structured={"a": 1})
        first = (await engine.memories.upsert(new)).result.memory.memory_id
        await engine.memories.move(first, "Elsewhere")
        assert set(await engine.memories.find_taken(await engine.scopes.get("Global"), [first])) == {first}
        await memory.ok("delete_memory", target={"memory_id": first})
        second = (await engine.memories.upsert(new)).result.memory.memory_id
        assert second != first
        assert (await engine.memories.upsert(new)).result.memory.memory_id == second
        await engine.memories.restore(first)
        assert (await engine.memories.get(first)).scope_id == (await engine.scopes.get("Elsewhere")).scope_id
        await check_soundness(memory)


async def test_a_memory_that_moves_while_others_change_and_read_it_is_never_missing(open_memory: Open) -> None:
    async with open_memory() as memory:
        one = MemoryId(await memory.store("tea"))
        await memory.ok("create_memory_scope", scope_name="Other")
        engine, moving = memory.engine, True

        async def move() -> None:
            nonlocal moving
            for number in range(10):
                await engine.memories.move(one, "Global" if number % 2 else "Other")
            moving = False

        async def read() -> None:
            while moving:
                await engine.memories.get(one)
                await memory.ok("update_memory", memory_id=one, tags=["read"])
                await asyncio.sleep(0.005)  # who changes it without a pause lets nobody else at it

        await asyncio.gather(move(), read())
        await asyncio.sleep(1)
        assert (await memory.ok("get_memory", memory_id=one))["memory"]["scope"] == "Global"
        await check_soundness(memory)
