"""Scopes in MongoDB: any name, one of each, gone whole or not at all."""

from __future__ import annotations

import asyncio
import datetime as dt
import unicodedata
from typing import Any

import pytest

from infinite_memory.errors import InfiniteMemoryError, ScopeArchivedError, ScopeExistsError, ScopeNotFoundError
from infinite_memory.models import ScopeId
from infinite_memory.store.mongo import moves

from .conftest import NOW, Place, at, global_scope, make_memory

HOSTILE_NAMES = [
    "$where",
    "a.b",
    "system.users",
    "../../etc",
    "nul\0name",
    "x" * 5000,
    "👩‍👩‍👧",
    "{'$gt': ''}",
    "mem_1",
    "ALL",
]


async def test_the_scope_global_is_there_from_the_start(place: Place) -> None:
    async with place.open() as store, place.open() as other:
        await store.connect()
        [scope] = await other.list_scopes()
        assert (scope.name, scope.description) == ("Global", "Global scope for general memories")


@pytest.mark.parametrize("name", HOSTILE_NAMES)
async def test_a_scope_may_have_any_name(place: Place, name: str) -> None:
    async with place.open() as store:
        scope = await store.create_scope(name, "d\0", NOW)
        memory = make_memory(scope)
        await store.insert([memory])
        found = {one.scope_id: one for one in await store.list_scopes()}
        assert found[scope.scope_id] == scope
        assert (scope.name, scope.description, scope.created_at) == (name, "d\0", NOW)
        assert await store.locate(at(memory)) == at(memory)


async def test_names_that_fold_to_the_same_are_one_scope(place: Place) -> None:
    async with place.open() as store:
        first = await store.create_scope("Straße É", "", NOW)
        for name in ("STRASSE é", unicodedata.normalize("NFD", "straße É"), "  Straße É "):
            with pytest.raises(ScopeExistsError):
                await store.create_scope(name, "", NOW)
        second = await store.create_scope("Other", "", NOW)
        with pytest.raises(ScopeExistsError):
            await store.change_scope(second.scope_id, name="strasse é")
        assert (await store.change_scope(first.scope_id, name="STRASSE É")).name == "STRASSE É"


async def test_of_many_creators_at_once_one_succeeds(place: Place) -> None:
    async with place.open() as store, place.open() as other:
        made = await asyncio.gather(
            *(one.create_scope("Race", "", NOW) for one in (store, other) for _ in range(8)), return_exceptions=True
        )
        assert sum(isinstance(one, ScopeExistsError) for one in made) == 15
        assert len(await store.list_scopes()) == 2


async def test_many_stores_connect_to_a_new_database_at_once(place: Place) -> None:
    async def connect() -> int:
        async with place.open() as store:
            return len(await store.list_scopes())

    assert await asyncio.gather(*(connect() for _ in range(6))) == [1] * 6


async def test_a_scope_is_changed_archived_and_taken_out_again(place: Place) -> None:
    async with place.open() as store:
        made = await store.create_scope("Work", "old", NOW)
        changed = await store.change_scope(made.scope_id, description="new")
        assert (changed.name, changed.description) == ("Work", "new")
        assert (await store.change_scope(made.scope_id)) == changed
        put_away = await store.set_scope_archived(made.scope_id, NOW + dt.timedelta(microseconds=1500))
        assert put_away.archived_at == NOW + dt.timedelta(milliseconds=1)
        assert put_away in await store.list_scopes()
        assert (await store.set_scope_archived(made.scope_id, None)) == changed
        gone = ScopeId("0" * 24)
        for attempt in (store.change_scope(gone, name="x"), store.set_scope_archived(gone, NOW)):
            with pytest.raises(ScopeNotFoundError):
                await attempt


async def test_scopes_are_listed_oldest_first(place: Place) -> None:
    async with place.open() as store:
        await store.create_scope("b", "", NOW)
        await store.create_scope("a", "", NOW - dt.timedelta(days=1))
        assert [scope.name for scope in await store.list_scopes()][:2] == ["a", "b"]


async def test_a_dropped_scope_leaves_nothing(place: Place) -> None:
    async with place.open() as store:
        scope = await store.create_scope("Work", "", NOW)
        memory = make_memory(scope)
        await store.insert([memory])
        await store.replace(memory, keep_revision=True)
        await store.drop_scope(scope.scope_id)
        await store.drop_scope(scope.scope_id)
        assert await store.fetch(at(memory), deleted=None) == {}
        assert (await store.get_revisions(memory.memory_id)).revisions == ()
        assert [one.name for one in await store.list_scopes()] == ["Global"]
        database = await store._connection.database()
        assert f"mem_{scope.scope_id}" not in await database.list_collection_names()
        assert (await store.create_scope("Work", "", NOW)).scope_id != scope.scope_id


async def test_a_collection_that_an_insert_made_anew_goes_and_one_that_was_made_on_purpose_stays(place: Place) -> None:
    async with place.open() as store:
        lost, kept = [await store.create_scope(name, "", NOW) for name in ("Lost", "Kept")]
        await store.insert([make_memory(kept)])
        await store.drop_scope(lost.scope_id)
        database = await store._connection.database()
        await database[f"mem_{lost.scope_id}"].insert_one({"live": True})
        await database["mem_of_another_program"].insert_one({})
        await database["scopes"].delete_one({"name": "Kept"})  # lost by whatever accident
        await database["meta"].insert_one({"_id": "restore.x", "state": "staging", "at": NOW})
        await store._scopes.prepare()
        assert f"mem_{lost.scope_id}" in await database.list_collection_names(), "somebody restores"
        await database["meta"].delete_one({"_id": "restore.x"})
        await store._scopes.prepare()
        names = await database.list_collection_names()
        assert f"mem_{lost.scope_id}" not in names
        assert {f"mem_{kept.scope_id}", "mem_of_another_program"} <= set(names)


async def test_storing_into_a_scope_that_is_removed_meanwhile_is_no_success(place: Place) -> None:
    async with place.open() as store, place.open() as other:
        for _ in range(5):
            scope = await store.create_scope("Brief", "", NOW)
            memories = [make_memory(scope) for _ in range(20)]
            done = await asyncio.gather(
                other.drop_scope(scope.scope_id), *(store.insert([one]) for one in memories), return_exceptions=True
            )
            assert all(one is None or isinstance(one, InfiniteMemoryError) for one in done)
            with pytest.raises(ScopeNotFoundError):
                await store.insert([make_memory(scope)])


async def test_nothing_comes_into_a_scope_that_is_archived_meanwhile(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever removes the scope has archived it and looked at what is in it; an import alone puts away what was away."""
    apply_step = moves.apply_step

    async with place.open() as store:
        source, target = await global_scope(store), await store.create_scope("Away", "", NOW)
        here, new, imported = make_memory(source), make_memory(target), make_memory(target)
        await store.insert([here])

        async def archive_and_apply(*which: Any) -> None:
            assert (await store.list_contents(target.scope_id)).is_receiving
            await store.set_scope_archived(target.scope_id, NOW)
            await apply_step(*which)

        with monkeypatch.context() as patched:
            if store._is_polled:
                patched.setattr(moves, "apply_step", archive_and_apply)
            else:
                await store.set_scope_archived(target.scope_id, NOW)
            with pytest.raises(ScopeArchivedError):
                await store.move(here, target.scope_id)
        for write in (store.insert([new]), store.write_batch([new], [])):
            with pytest.raises(ScopeArchivedError):
                await write
            assert await store.locate([here.memory_id]) == at(here)
        await store.insert([imported], include_archived=True)
        contents = await store.list_contents(target.scope_id)
        assert (contents.memory_ids, contents.is_receiving) == ({imported.memory_id}, False)


async def test_a_drop_cut_short_is_finished_by_whoever_connects_next(place: Place) -> None:
    async with place.open() as store:
        scope = await store.create_scope("Work", "", NOW)
        memory = make_memory(scope)
        await store.insert([memory, make_memory(await global_scope(store))])
        await store.replace(memory, keep_revision=True)
        scopes = (await store._connection.database())["scopes"]
        mark = {"$set": {"dropping": True, "name_key": f" {scope.scope_id}"}}
        await scopes.update_one({"name": "Work"}, mark)
        assert [one.name for one in await store.list_scopes()] == ["Global"]
        await store.create_scope("work", "", NOW)
    async with place.open() as store:
        assert await store.fetch(at(memory), deleted=None) == {}
        assert (await store.get_revisions(memory.memory_id)).revisions == ()
        assert [one.name for one in await store.list_scopes()] == ["work", "Global"]
        database = await store._connection.database()
        assert await database["scopes"].count_documents({}) == 2
