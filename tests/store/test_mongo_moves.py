"""One memory moves to another scope: whole, once, and also where the process dies in the middle or others write."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from infinite_memory.errors import MemoryChangedError, MemoryNotFoundError, ScopeNotFoundError
from infinite_memory.models import Link, MemoryId, MemoryRecord, Scope
from infinite_memory.store.base import ChangeKind
from infinite_memory.store.mongo import memory_writes, moves, schema
from infinite_memory.store.mongo.store import MongoStore
from tests.mongo_server import StandaloneMongo, fresh_database, shared_mongo

from .conftest import NOW, Place, at, changes_until_quiet, global_scope, make_embedding, make_memory

STEPS = ("_keep_version", "write_tombstones", "_risen", "_take_along")
"""What the move of a server without transactions is made of; each is a moment in which its process may die."""


MOMENTS = ("_risen", "_take_along")
"""When the memory is not yet in its new scope, and when it is."""


class Died(Exception):
    """Stands for the end of the process."""


async def prepare(store: MongoStore) -> tuple[MemoryRecord, MemoryRecord, Scope]:
    """Store a memory with a version, a link and a count of use, and another; returns both, and the scope to move to."""
    source, target = await global_scope(store), await store.create_scope("Target", "", NOW)
    old = make_memory(source, "before", embedding=make_embedding([1.0, 0.0, 0.0]))
    other = make_memory(source, "other")
    await store.insert([old, other])
    memory = await store.replace(dataclasses.replace(old, text="tea"), keep_revision=True)
    await store.links.put(Link(memory.memory_id, other.memory_id, "about", NOW), source.scope_id)
    await store.uses.add({memory.memory_id: (source.scope_id, 3)}, NOW)
    return memory, other, target


async def where(store: MongoStore, memory_id: MemoryId) -> list[str]:
    """List every scope that holds a memory, however often."""
    found = []
    for scope in await store.list_scopes():
        if memory_id in await store.fetch({memory_id: scope.scope_id}, deleted=None):
            found.append(scope.name)
    return found


async def check_moved(store: MongoStore, memory: MemoryRecord, target: Scope) -> None:
    """Check that a memory is in *target* alone, as it was, and that all of its own went along."""
    assert await where(store, memory.memory_id) == [target.name]
    [moved] = (await store.fetch({memory.memory_id: target.scope_id}, vectors=True)).values()
    assert moved.embedding is not None
    assert memory.embedding is not None
    assert moved.embedding.vectors.tolist() == memory.embedding.vectors.tolist()
    same = dataclasses.replace(moved, embedding=memory.embedding)
    assert same == dataclasses.replace(memory, scope_id=target.scope_id, revision=memory.revision + 1)
    versions = (await store.get_revisions(memory.memory_id)).revisions
    assert [(one.text, one.revision, one.scope_id) for one in versions] == [
        ("before", 1, memory.scope_id), ("tea", 2, memory.scope_id)
    ]  # fmt: skip
    assert len(await store.links.of([memory.memory_id])) == 1
    use = await store.uses.find(memory.memory_id)
    assert use is not None
    assert use.count == 3
    assert await store.uses.of_scope(target.scope_id) == {memory.memory_id: 3}
    assert await store.find_moved([memory.memory_id]) == {memory.memory_id: target.scope_id}


async def test_a_memory_moves_with_all_that_is_its_own_and_goes_with_its_new_scope(place: Place) -> None:
    async with place.open() as store:
        memory, other, target = await prepare(store)
        await store.move(memory, target.scope_id)
        await check_moved(store, memory, target)
        assert await store.find_moved([other.memory_id]) == {}
        await store.drop_scope(target.scope_id)
        assert await where(store, memory.memory_id) == []
        assert (await store.get_revisions(memory.memory_id)).revisions == ()
        assert await store.links.of([other.memory_id]) == []
        assert await store.find_moved([memory.memory_id]) == {}


async def test_a_memory_that_moves_on_and_back_tells_where_it_was(place: Place) -> None:
    async with place.open() as store:
        memory, _, target = await prepare(store)
        third = await store.create_scope("Third", "", NOW)
        for scope in (target, third):
            await store.move(memory, scope.scope_id)
            memory = dataclasses.replace(memory, scope_id=scope.scope_id, revision=memory.revision + 1)
        await store.move(memory, (await global_scope(store)).scope_id)
        versions = (await store.get_revisions(memory.memory_id)).revisions
        names = {scope.scope_id: scope.name for scope in await store.list_scopes()}
        assert [names[one.scope_id] for one in versions] == ["Global", "Global", "Target", "Third"]
        assert await where(store, memory.memory_id) == ["Global"]
        for number in range(1, 5):  # a page that begins later knows where it was, too
            page = await store.get_revisions(memory.memory_id, number)
            assert [one.scope_id for one in page.revisions] == [one.scope_id for one in versions[: number - 1]]


async def test_what_changed_or_went_is_not_moved(place: Place) -> None:
    async with place.open() as store:
        memory, other, target = await prepare(store)
        with pytest.raises(MemoryChangedError):
            await store.move(dataclasses.replace(memory, revision=1), target.scope_id)
        await store.soft_delete(at(other), NOW)
        with pytest.raises(MemoryNotFoundError):
            await store.move(other, target.scope_id)
        await store.drop_scope(target.scope_id)
        with pytest.raises(ScopeNotFoundError):
            await store.move(memory, target.scope_id)
        assert await where(store, memory.memory_id) == ["Global"]
        assert [one.revision for one in (await store.get_revisions(memory.memory_id)).revisions] == [1]


async def test_the_change_feed_tells_the_old_place_before_the_new_one(place: Place) -> None:
    async with place.open() as store:
        memory, _, target = await prepare(store)
        token = await store.change_token()
        await store.move(memory, target.scope_id)
        told = [one for one in await changes_until_quiet(store, token) if one.memory_id == memory.memory_id]
        last = [(one.kind, one.scope_id) for one in told][-2:]
        assert last == [(ChangeKind.REMOVED, memory.scope_id), (ChangeKind.WRITTEN, target.scope_id)]


@pytest.mark.parametrize("step", STEPS)
async def test_a_move_that_dies_in_the_middle_is_finished_or_has_not_begun(
    place: Place, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    async with place.open() as store:
        memory, _, target = await prepare(store)

        def die(*_: Any, **__: Any) -> Any:
            raise Died

        with monkeypatch.context() as dying:
            dying.setattr(moves, step, die)
            if step != "write_tombstones" or store._is_polled:  # these are for who polls
                with pytest.raises(Died):
                    await store.move(memory, target.scope_id)
    async with place.open() as store:
        if store._is_polled:
            await check_moved(store, memory, target)
        else:
            assert await where(store, memory.memory_id) == ["Global"]
            assert [one.revision for one in (await store.get_revisions(memory.memory_id)).revisions] == [1]
        async with store._connection.operation() as database:
            assert await database[schema.META].count_documents({"_id": {"$regex": "^restore"}}) == 0


async def test_what_is_written_while_a_move_is_finished_late_is_not_lost(place: Place) -> None:
    """The process died between the new place and the old one, and others changed what they found in either."""

    async with place.open() as store:
        memory, _, target = await prepare(store)
        step = moves.make_step(memory, target.scope_id)
        for text, scope in (("changed there", target), ("changed here", await global_scope(store))):
            there = dataclasses.replace(memory, scope_id=target.scope_id, revision=3)
            await store.insert([there])
            [now] = (await store.fetch({memory.memory_id: scope.scope_id}, vectors=True)).values()
            for _ in range(2):
                now = await store.replace(dataclasses.replace(now, text=text), keep_revision=True)
            async with store._connection.operation() as database:
                await moves.apply_step(database, step)
            assert await where(store, memory.memory_id) == ["Target"]
            [found] = (await store.fetch({memory.memory_id: target.scope_id}, vectors=True)).values()
            assert found.text == text
            await store.remove(at(found))
            await store.insert([memory])


async def test_an_edit_at_the_moment_of_a_move_takes_no_version_away(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_version = memory_writes._keep_version

    async with place.open() as store, place.open() as other:
        memory, _, target = await prepare(store)

        async def keep_and_move(*which: Any) -> Any:
            is_kept = await keep_version(*which)
            await other.move(memory, target.scope_id)
            return is_kept

        with monkeypatch.context() as patched:
            patched.setattr(memory_writes, "_keep_version", keep_and_move)
            with pytest.raises(MemoryNotFoundError):
                await store.replace(dataclasses.replace(memory, text="coffee"), keep_revision=True)
        await check_moved(store, memory, target)


async def test_an_edit_at_the_moment_of_a_removal_leaves_no_version(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_version = memory_writes._keep_version

    async with place.open() as store:
        memory, _, _ = await prepare(store)

        async def remove_and_keep(*which: Any) -> Any:
            await store.remove(at(memory))
            return await keep_version(*which)

        with monkeypatch.context() as patched:
            patched.setattr(memory_writes, "_keep_version", remove_and_keep)
            with pytest.raises(MemoryNotFoundError):
                await store.replace(dataclasses.replace(memory, text="coffee"), keep_revision=True)
        assert (await store.get_revisions(memory.memory_id)).revisions == ()


async def test_what_is_forgotten_while_it_is_moved_is_forgotten_where_it_is_now(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One moves while it is removed, another just before it is hidden."""
    note_removed = memory_writes.note_removed

    async with place.open() as store, place.open() as other:
        memory, there, target = await prepare(store)

        async def move_and_note(*which: Any) -> None:
            if await where(other, memory.memory_id) == ["Global"]:
                await other.move(memory, target.scope_id)
            await note_removed(*which)

        with monkeypatch.context() as patched:
            patched.setattr(memory_writes, "note_removed", move_and_note)
            assert await store.remove(at(memory)) == [memory.memory_id]
        assert await where(store, memory.memory_id) == []
        assert (await store.get_revisions(memory.memory_id)).revisions == ()
        await other.move(there, target.scope_id)
        assert await store.soft_delete(at(there), NOW) == [there.memory_id]
        assert await store.fetch({there.memory_id: target.scope_id}) == {}
        assert await store.remove(at(there)) == [there.memory_id]


@pytest.mark.parametrize("moment", MOMENTS)
async def test_what_is_removed_in_the_middle_of_a_move_without_transactions_stays_gone(
    monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    place = Place(shared_mongo(StandaloneMongo).uri, fresh_database(), "pymongo")
    apply_step = moves.apply_step

    async with place.open() as store, place.open() as other:
        memory, _, target = await prepare(store)

        async def apply_while_it_is_removed(database: Any, step: Any) -> None:
            source, into = (database[schema.collection_name(step[end])] for end in ("from", "to"))
            document = await source.find_one({"_id": step["memory"]})
            if moment == "_take_along":
                await into.insert_one(moves._risen(document))
            await other.remove(at(memory))
            if moment == "_risen":
                await into.insert_one(moves._risen(document))
            await apply_step(database, step)

        with monkeypatch.context() as patched:
            patched.setattr(moves, "apply_step", apply_while_it_is_removed)
            await store.move(memory, target.scope_id)
        assert await where(store, memory.memory_id) == []
