"""Two processes over one database: what one removes or hides while the other merges its scope stays so, whoever dies in between."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from infinite_memory.errors import MemoryChangedError
from infinite_memory.models import MemoryId, ScopeId
from infinite_memory.store.mongo import restore_steps
from infinite_memory.store.mongo.store import MongoStore
from tests.mongo_server import StandaloneMongo, fresh_database, shared_mongo
from tests.store.conftest import NOW, Place, global_scope, make_memory

STEPS = 6


@pytest.fixture(params=["replica set", "standalone"])
def place(request: pytest.FixtureRequest) -> Place:
    """A fresh database on a server of each kind."""
    server = shared_mongo() if request.param == "replica set" else shared_mongo(StandaloneMongo)
    return Place(server.uri, fresh_database(), "pymongo")


class Died(Exception):
    """The merging process ended here."""


async def merge(
    one: MongoStore, source: ScopeId, target: ScopeId, between: Callable[[int], Awaitable[None]],
    patch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Merge a scope as `engine.scopes` does, with something done before each step, and after the last."""
    carry_out = restore_steps._carry_out

    async def one_by_one(database: Any, steps: list[Any], **options: Any) -> None:
        assert len(steps) == STEPS
        for number, step in enumerate(steps):
            await between(number)
            await carry_out(database, [step], **options)
        await between(len(steps))

    with patch.context() as patched:
        patched.setattr(restore_steps, "_carry_out", one_by_one)
        await one.copies.merge_scopes(source, target)
        await one.drop_scope(source)


@pytest.mark.parametrize("dies", [False, True])
async def test_what_another_process_removes_for_good_while_its_scope_is_merged_does_not_come_back(
    place: Place, monkeypatch: pytest.MonkeyPatch, dies: bool
) -> None:
    async def test(one: MongoStore, other: MongoStore, step: int) -> None:
        target = await one.create_scope(f"Target {step}", "", NOW)
        source = await one.create_scope(f"Source {step}", "", NOW)
        gone, kept, hidden = (make_memory(source, text) for text in ("gone", "kept", "hidden"))
        await one.insert([gone, kept, hidden])
        await one.replace(gone, keep_revision=True)

        async def remove(number: int) -> None:
            if number == step:
                assert await other.remove({gone.memory_id: source.scope_id}) == [gone.memory_id]
                assert await other.soft_delete({hidden.memory_id: source.scope_id}, NOW) == [hidden.memory_id]
                if dies:
                    raise Died

        if dies:
            with pytest.raises(Died):
                await merge(one, source.scope_id, target.scope_id, remove, monkeypatch)
            await one.connect()
        else:
            await merge(one, source.scope_id, target.scope_id, remove, monkeypatch)
        every: list[MemoryId] = [gone.memory_id, kept.memory_id, hidden.memory_id]
        located = await other.locate(every)
        assert located == dict.fromkeys([kept.memory_id, hidden.memory_id], target.scope_id)
        assert list(await other.fetch(located, deleted=False)) == [kept.memory_id]
        assert (await other.get_revisions(gone.memory_id)).revisions == ()

    async with place.open() as one, place.open() as other:
        for step in range(STEPS + 1):
            await test(one, other, step)


async def test_what_is_removed_in_the_target_before_it_is_copied_again_does_not_come_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other process' index may know the copy already."""

    async with place.open() as one, place.open() as other:
        target = await global_scope(one)
        source = await one.create_scope("Source", "", NOW)
        gone = make_memory(source, "gone")
        await one.insert([gone, make_memory(source, "kept")])

        async def remove(number: int) -> None:
            if number == 2:
                assert await other.remove({gone.memory_id: target.scope_id}) == [gone.memory_id]

        await merge(one, source.scope_id, target.scope_id, remove, monkeypatch)
        assert await other.locate([gone.memory_id]) == {}


async def test_a_merge_that_was_closed_is_not_carried_out_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies after its last step, somebody removes a memory where it is now, and the next start comes."""

    async with place.open() as one, place.open() as other:
        target = await global_scope(one)
        source = await one.create_scope("Source", "", NOW)
        gone, kept = make_memory(source, "gone"), make_memory(source, "kept")
        await one.insert([gone, kept])

        async def die(number: int) -> None:
            if number == STEPS:
                raise Died

        with pytest.raises(Died):
            await merge(one, source.scope_id, target.scope_id, die, monkeypatch)
        assert await other.remove({gone.memory_id: source.scope_id}) == [gone.memory_id]
        await one.connect()
        assert await other.locate([gone.memory_id, kept.memory_id]) == {kept.memory_id: target.scope_id}
        assert [scope.name for scope in await one.list_scopes()] == ["Global"]


async def test_an_edit_that_comes_after_the_last_copy_is_not_acknowledged(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with place.open() as one, place.open() as other:
        target = await global_scope(one)
        source = await one.create_scope("Source", "", NOW)
        memory = make_memory(source, "before")
        await one.insert([memory])

        async def edit(number: int) -> None:
            if number == STEPS:
                with pytest.raises(MemoryChangedError):
                    await other.replace(dataclasses.replace(memory, text="after"), keep_revision=True)

        await merge(one, source.scope_id, target.scope_id, edit, monkeypatch)
        [found] = (await other.fetch(await other.locate([memory.memory_id]))).values()
        assert found.text == "before"
