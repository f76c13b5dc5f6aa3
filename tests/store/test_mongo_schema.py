"""The schema: old data is brought up to date, data from the future is left alone."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from bson import ObjectId

from infinite_memory import __version__
from infinite_memory.errors import SchemaTooNewError
from infinite_memory.models import MemoryId, ScopeId
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.drivers import close_client, make_client

from .conftest import NOW, Place


async def test_data_from_before_versions_is_upgraded(place: Place) -> None:
    client = make_client(place.driver, place.uri, {})
    raw = client[place.database]
    scope, live, hidden = ObjectId(), ObjectId(), ObjectId()
    await raw["scopes"].insert_one({"_id": scope, "name": "GLOBAL", "description": "d", "created_at": NOW})
    old = {"source": "conversation", "created_at": NOW}
    await raw[f"mem_{scope}"].insert_many(
        [
            {"_id": live, "text": "tea", "tags": ["Person:Ada"], **old},
            {"_id": hidden, "text": "rum", "deleted_at": NOW, "revision": 7, **old},
        ]
    )
    await close_client(client)
    located = {MemoryId(str(key)): ScopeId(str(scope)) for key in (live, hidden)}
    for _ in range(2):
        async with place.open() as store:
            assert [one.name for one in await store.list_scopes()] == ["GLOBAL"]
            found = await store.fetch(located, deleted=None)
            first, second = found[MemoryId(str(live))], found[MemoryId(str(hidden))]
            assert (first.text, first.tags, first.revision, first.occurred_at) == ("tea", ("Person:Ada",), 1, NOW)
            assert (second.deleted_at, second.revision) == (NOW, 7)
            assert await store.count_live() == {ScopeId(str(scope)): 1}
            database = await store._connection.database()
            document = await database[f"mem_{scope}"].find_one({"_id": live})
            assert document is not None
            assert document["tag_keys"] == ["speaker:ada"]
            assert await database["meta"].find_one({"_id": "schema"}) == {"_id": "schema", "version": 1}


async def test_an_upgrade_cut_short_is_done_again(place: Place) -> None:
    async with place.open() as store:
        database = await store._connection.database()
        await database["meta"].delete_one({"_id": "schema"})
        scope = await database["scopes"].find_one({})
        assert scope is not None
        old = {"text": "tea", "source": "s", "created_at": NOW}
        await database[f"mem_{scope['_id']}"].insert_many([dict(old) for _ in range(1203)])
        await database[f"mem_{scope['_id']}"].insert_one({**old, "live": True, "revision": 4, "updated_at": NOW})
        await schema.upgrade(database)
        assert sorted([one.revision async for one in store.versions()])[-2:] == [1, 4]
        assert sum((await store.count_live()).values()) == 1204


async def test_data_of_a_newer_version_is_refused_and_left_alone(place: Place) -> None:
    async with place.open() as store:
        database = await store._connection.database()
        await database["meta"].update_one({"_id": "schema"}, {"$set": {"version": 99}})
        with pytest.raises(SchemaTooNewError, match=f"99.*; install infinite-memory {re.escape(__version__)} or newer"):
            async with place.open():
                pass
        await database["meta"].delete_one({"_id": "program"})
        with pytest.raises(SchemaTooNewError, match=r"99.*; install a newer infinite-memory"):
            async with place.open():
                pass
        assert await database["meta"].find_one({"_id": "schema"}) == {"_id": "schema", "version": 99}


async def test_a_scope_without_indexes_gets_them(place: Place) -> None:
    async with place.open() as store:
        scope = await store.create_scope("Work", "", dt.datetime.now(dt.UTC))
        database = await store._connection.database()
        memories = database[f"mem_{scope.scope_id}"]
        assert "live" in await memories.index_information()
        await memories.drop()
        await database["scopes"].update_one({"name": "Work"}, {"$unset": {"indexes": ""}})
        async with place.open():
            assert "live" in await memories.index_information()


async def test_versions_are_read_from_the_index_alone(place: Place) -> None:
    async with place.open() as store:
        [scope] = await store.list_scopes()
        database = await store._connection.database()
        find = {"find": f"mem_{scope.scope_id}", "filter": {"live": True}, "sort": {"_id": 1}, "limit": 100}
        plan = await database.command(
            {"explain": {**find, "projection": {"_id": 1, "revision": 1}}, "verbosity": "queryPlanner"}
        )
        assert "FETCH" not in str(plan["queryPlanner"]["winningPlan"])
