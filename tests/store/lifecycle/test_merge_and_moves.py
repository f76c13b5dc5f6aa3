"""Two processes over one database: a memory that one moves while the other merges a scope that it leaves is in one scope afterwards."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.errors import AutoReconnect

from infinite_memory.errors import MemoryChangedError, MemoryNotFoundError, StoreError
from infinite_memory.models import MemoryId, MemoryRecord, Scope
from infinite_memory.store import copies
from infinite_memory.store.mongo import moves, restore_steps
from infinite_memory.store.mongo.store import MongoStore
from tests.mongo_server import StandaloneMongo, fresh_database, shared_mongo
from tests.store.conftest import NOW, Place, make_memory


@pytest.fixture(params=["replica set", "standalone"])
def place(request: pytest.FixtureRequest) -> Place:
    """A fresh database on a server of each kind."""
    server = shared_mongo() if request.param == "replica set" else shared_mongo(StandaloneMongo)
    return Place(server.uri, fresh_database(), "pymongo")


async def prepare(store: MongoStore) -> tuple[Scope, Scope, Scope, MemoryRecord]:
    """Make a scope that is merged into a second, a third that is moved to, and a memory in the first."""
    source, target, third = [await store.create_scope(name, "", NOW) for name in ("Source", "Target", "Third")]
    memory = make_memory(source, "tea")
    await store.insert([memory, make_memory(source, "stays")])
    return source, target, third, memory


async def where(store: MongoStore, memory_id: MemoryId) -> list[str]:
    """List every scope that holds a memory, however often."""
    scopes = await store.list_scopes()
    return [one.name for one in scopes if await store.fetch({memory_id: one.scope_id}, deleted=None)]


@pytest.mark.parametrize(("leaves", "number"), [("Source", 0), ("Source", 1), ("Target", 0)])
async def test_a_move_waits_for_the_merge_of_the_scope_that_the_memory_leaves(
    place: Place, monkeypatch: pytest.MonkeyPatch, number: int, leaves: str
) -> None:
    """It comes after the first or the second time that the merge copies; the other process' index may know the copy in the target."""
    pour, poured, moving = restore_steps._pour, [0], list[asyncio.Task[None]]()

    async with place.open() as one, place.open() as other:
        source, target, third, memory = await prepare(one)

        async def pour_and_move(*ends: Any) -> None:
            await pour(*ends)
            if poured[0] == number:
                at = source if leaves == "Source" else target
                [read] = (await other.fetch({memory.memory_id: at.scope_id}, vectors=True)).values()
                moving.append(asyncio.create_task(other.move(read, third.scope_id)))
                await asyncio.wait(moving, timeout=0.2)  # as far as it gets
            poured[0] += 1

        monkeypatch.setattr(restore_steps, "_pour", pour_and_move)
        await one.copies.merge_scopes(source.scope_id, target.scope_id)
        await one.drop_scope(source.scope_id)
        with contextlib.suppress(MemoryChangedError, MemoryNotFoundError):  # it is looked for again
            await moving[0]
        assert await where(one, memory.memory_id) in ([target.name], [third.name])


async def test_what_a_merge_left_in_the_emptied_scope_is_not_moved(place: Place) -> None:
    """The scope is removed a moment after the merge, and until then its memories lie there as well."""

    async with place.open() as one, place.open() as other:
        source, target, third, memory = await prepare(one)
        await one.copies.merge_scopes(source.scope_id, target.scope_id)
        with pytest.raises(MemoryChangedError):
            await other.move(memory, third.scope_id)
        await one.drop_scope(source.scope_id)
        assert await where(one, memory.memory_id) == [target.name]


async def test_a_merge_waits_for_a_move_that_is_under_way(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_version, kept, go_on = moves._keep_version, asyncio.Event(), asyncio.Event()

    async def hold(*which: Any) -> None:
        await keep_version(*which)
        kept.set()
        await go_on.wait()

    async with place.open() as one, place.open() as other:
        source, target, third, memory = await prepare(one)
        monkeypatch.setattr(moves, "_keep_version", hold)
        moving = asyncio.create_task(other.move(memory, third.scope_id))
        await kept.wait()
        merging = asyncio.create_task(one.copies.merge_scopes(source.scope_id, target.scope_id))
        await asyncio.wait([merging], timeout=0.3)  # as far as it gets
        go_on.set()
        await moving
        await merging
        assert await where(one, memory.memory_id) == [third.name]


async def test_a_merge_that_does_not_end_lets_a_move_fail_and_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.open() as one, place.open(timeout_s=0.3) as other:
        source, target, third, memory = await prepare(one)
        pour = restore_steps._pour

        async def pour_and_move(*ends: Any) -> None:
            with pytest.raises(StoreError, match="merged with another at this moment"):
                await other.move(memory, third.scope_id)
            await pour(*ends)

        monkeypatch.setattr(restore_steps, "_pour", pour_and_move)
        await one.copies.merge_scopes(source.scope_id, target.scope_id)
        assert await where(one, memory.memory_id) == [target.name]


async def test_a_move_out_of_a_scope_that_is_removed_meanwhile_does_not_say_that_it_moved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a server without transactions, where the removal may come between its look and its step."""
    check = moves.check_movable

    place = Place(shared_mongo(StandaloneMongo).uri, fresh_database(), "pymongo")
    async with place.open() as one, place.open() as other:
        source, _, third, memory = await prepare(one)

        async def check_and_drop(*given: Any) -> None:
            await check(*given)
            await one.drop_scope(source.scope_id)

        monkeypatch.setattr(moves, "check_movable", check_and_drop)
        with pytest.raises(MemoryChangedError):  # it is looked for again, and not found
            await other.move(memory, third.scope_id)
        assert await where(one, memory.memory_id) == []


async def test_a_merge_whose_plan_did_not_reach_the_server_is_done_all_the_same(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it counted as done, the scope was removed after it with all its memories."""
    update, lost = AsyncCollection.update_one, list[str]()

    async def lose_the_first(collection: Any, query: Any, *rest: Any, **options: Any) -> Any:
        if str(query.get("_id")).startswith("restore.") and not lost:
            lost.append(query["_id"])
            raise AutoReconnect("the server was killed")
        return await update(collection, query, *rest, **options)

    async with place.open() as store:
        source, target, _, memory = await prepare(store)
        monkeypatch.setattr(copies, "_RETRY_S", 0.01)
        monkeypatch.setattr(AsyncCollection, "update_one", lose_the_first)
        await store.copies.merge_scopes(source.scope_id, target.scope_id)
        await store.drop_scope(source.scope_id)
        assert lost
        assert await where(store, memory.memory_id) == [target.name]


async def test_nothing_is_merged_into_a_scope_that_another_process_is_about_to_remove(place: Place) -> None:
    """Who removes a scope archives it, looks into it, and then removes what it saw and all else."""

    async with place.open() as one, place.open() as other:
        source, target, _, memory = await prepare(one)
        await other.set_scope_archived(target.scope_id, NOW)
        assert not (await other.list_contents(target.scope_id)).is_receiving
        with pytest.raises(StoreError, match="nothing was merged"):
            await one.copies.merge_scopes(source.scope_id, target.scope_id)
        await other.drop_scope(target.scope_id)
        assert await where(one, memory.memory_id) == [source.name]


async def test_of_two_merges_into_each_other_that_died_at_once_the_next_start_finishes_one(place: Place) -> None:
    async with place.open() as store:
        source, target, _, memory = await prepare(store)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(restore_steps, "check_merge", _die)
            for ends in ((source, target), (target, source)):
                with pytest.raises(ConnectionError):
                    await store.copies.merge_scopes(*(scope.scope_id for scope in ends))
    async with place.open() as store:
        assert await where(store, memory.memory_id) in ([source.name], [target.name])


async def _die(*_: Any) -> None:
    raise ConnectionError
