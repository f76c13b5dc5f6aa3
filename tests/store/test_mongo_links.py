"""Links in MongoDB: the same link is one, and it goes with either of its ends; figures by owner follow the documents."""

from __future__ import annotations

import asyncio
import dataclasses

from infinite_memory.models import Link, MemoryRecord

from .conftest import NOW, Place, at, global_scope, make_memory


def make_link(source: MemoryRecord, target: MemoryRecord, relation: str = "related") -> Link:
    return Link(source.memory_id, target.memory_id, relation, NOW)


async def test_linking_twice_even_at_once_makes_one_link(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        tea, pot = make_memory(scope, "tea"), make_memory(scope, "pot")
        link = make_link(tea, pot)
        news = await asyncio.gather(*(store.links.put(link, scope.scope_id) for _ in range(4)))
        assert sorted(news) == [False, False, False, True]
        assert await store.links.of([tea.memory_id]) == await store.links.of([pot.memory_id]) == [link]
        assert await store.links.put(make_link(tea, pot, "needs"), scope.scope_id)
        assert await store.links.put(make_link(pot, tea), scope.scope_id)
        assert len(await store.links.of([tea.memory_id])) == 3


async def test_a_link_goes_with_either_of_its_ends(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        tea, pot, cup = (make_memory(scope, text) for text in ("tea", "pot", "cup"))
        await store.insert([tea, pot, cup])
        for link in (make_link(tea, pot), make_link(pot, cup), make_link(cup, tea)):
            await store.links.put(link, scope.scope_id)
        await store.remove(at(pot))
        assert await store.links.of([tea.memory_id, pot.memory_id, cup.memory_id]) == [make_link(cup, tea)]


async def test_the_links_of_a_scope_go_with_it(place: Place) -> None:
    async with place.open() as store:
        scope = await store.create_scope("kitchen", "", NOW)
        tea, pot = make_memory(scope, "tea"), make_memory(scope, "pot")
        await store.links.put(make_link(tea, pot), scope.scope_id)
        await store.drop_scope(scope.scope_id)
        assert await store.links.of([tea.memory_id]) == []


async def test_what_an_owner_has_is_counted_from_the_documents(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        mine = [make_memory(scope, text, owners={"agent_id": "coder"}) for text in ("one", "two", "three")]
        other = make_memory(scope, owners={"agent_id": "Coder"})
        await store.insert([*mine, other, make_memory(scope), dataclasses.replace(make_memory(scope), status="old")])
        [upper, lower] = await store.owners.tally(scope.scope_id, "agent_id")
        assert (upper.owner, upper.count, lower.owner, lower.count) == ("Coder", 1, "coder", 3)
        await store.soft_delete(at(*mine[:2]), NOW)
        await store.remove(at(other))
        assert [(one.owner, one.count) for one in await store.owners.tally(scope.scope_id, "agent_id")] == [
            ("coder", 1)
        ]
        await store.soft_delete(at(mine[2]), NOW)
        assert [one.count for one in await store.owners.tally(scope.scope_id, "agent_id", owner="coder")] == [0]
        assert await store.owners.tally(scope.scope_id, "agent_id", owner="$coder") == []


async def test_memories_of_some_states_may_be_left_out_of_the_count(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        owned = {"agent_id": "coder"}
        await store.insert([make_memory(scope, owners=owned), make_memory(scope, owners=owned, status="superseded")])
        [found] = await store.owners.tally(scope.scope_id, "agent_id", leave_out_status=["superseded"])
        assert found.count == 1
