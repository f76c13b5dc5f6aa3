"""What others write while a scope moves into another, or a backup puts one into place, is not lost."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from pymongo import MongoClient

from infinite_memory.errors import InfiniteMemoryError, MemoryChangedError
from infinite_memory.models import MemoryId
from infinite_memory.store.copies import RestoreMode, RestorePlan
from infinite_memory.store.mongo import moves, schema
from infinite_memory.store.mongo import restore_steps as staging
from tests.mongo_server import fresh_database, shared_mongo

from .conftest import NOW, Place, global_scope, make_memory


async def test_what_another_daemon_stores_and_changes_while_scopes_merge_is_in_the_target(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other daemon writes between the copying and the removal: the moment is held open, everything else is real."""

    async with place.open() as one, place.open() as other:
        target = await global_scope(one)
        source = await one.create_scope("Source", "", NOW)
        kept, changed = make_memory(source, "kept"), make_memory(source, "before")
        await one.insert([kept, changed])
        late, acknowledged = make_memory(source, "late"), set[MemoryId]()
        carried_out = staging._pour

        async def pour_and_let_others_write(*ends: object, **options: object) -> None:
            await carried_out(*ends, **options)  # type: ignore[arg-type]
            if late.memory_id in acknowledged:
                return
            await other.insert([late])
            await other.replace(dataclasses.replace(changed, text="after"), keep_revision=True)
            acknowledged.add(late.memory_id)

        monkeypatch.setattr(staging, "_pour", pour_and_let_others_write)
        await one.copies.merge_scopes(source.scope_id, target.scope_id)
        await one.drop_scope(source.scope_id)
        assert acknowledged
        everything = [late.memory_id, kept.memory_id, changed.memory_id]
        found = await one.fetch(await one.locate(everything))
        assert {memory.text for memory in found.values()} == {"late", "kept", "after"}
        assert {memory.scope_id for memory in found.values()} == {target.scope_id}


async def test_whatever_is_acknowledged_while_scopes_merge_is_there_afterwards(place: Place) -> None:
    async with place.open() as one, place.open() as other:
        target = await global_scope(one)
        source = await one.create_scope("Source", "", NOW)
        await one.insert([make_memory(source, f"memory {number}") for number in range(500)])
        acknowledged: list[MemoryId] = []

        async def store_until_gone() -> None:
            while True:
                memory = make_memory(source, "late")
                try:
                    await other.insert([memory])
                except InfiniteMemoryError:
                    return
                acknowledged.append(memory.memory_id)

        storing = asyncio.create_task(store_until_gone())
        while len(acknowledged) < 3:
            await asyncio.sleep(0)
        await one.copies.merge_scopes(source.scope_id, target.scope_id)
        await one.drop_scope(source.scope_id)
        await storing
        located = await one.locate(acknowledged)
        assert set(located) == set(acknowledged)
        assert set(located.values()) == {target.scope_id}


@pytest.mark.parametrize("moves_first", [False, True])
async def test_what_another_daemon_moves_out_of_a_scope_that_is_merged_is_in_one_place(
    monkeypatch: pytest.MonkeyPatch, moves_first: bool
) -> None:
    """The move comes after the first copying, or the merge in the middle of the move; one waits for the other."""
    place = Place(shared_mongo().uri, fresh_database(), "pymongo")

    async with place.open() as one, place.open() as other:
        target = await global_scope(one)
        source, third = await one.create_scope("Source", "", NOW), await one.create_scope("Third", "", NOW)
        memory = make_memory(source, "tea")
        await one.insert([memory])
        beside: list[asyncio.Task[None]] = []
        module, name = (moves, "_take_along") if moves_first else (staging, "_pour")
        carried_out = getattr(module, name)

        async def merge() -> None:
            await one.copies.merge_scopes(source.scope_id, target.scope_id)
            await one.drop_scope(source.scope_id)

        async def and_the_other_begins(*ends: object, **options: object) -> None:
            await carried_out(*ends, **options)
            if not beside:
                begins = merge() if moves_first else other.move(memory, third.scope_id)
                beside.append(asyncio.create_task(begins))
                await asyncio.wait(beside, timeout=0.3)

        monkeypatch.setattr(module, name, and_the_other_begins)
        if moves_first:
            await other.move(memory, third.scope_id)
            await beside[0]
        else:
            await merge()
            with pytest.raises(MemoryChangedError):
                await beside[0]
        async with one._connection.operation() as database:
            held = {
                scope.name: await database[schema.collection_name(scope.scope_id)].count_documents({})
                for scope in await one.list_scopes()
            }
        assert held == ({"Global": 0, "Third": 1} if moves_first else {"Global": 1, "Third": 0})


async def test_a_merged_backup_leaves_memories_whose_scope_had_gone(place: Place) -> None:
    """Another program removed the scope's document; a backup that has it brings it back with what was stored since."""

    async with place.open() as store:
        scope = await store.create_scope("Work", "", NOW)
        old, new = make_memory(scope, "in the backup"), make_memory(scope, "stored since")
        await store.insert([old])
        async with store.copies.snapshot() as snapshot:
            chunks = [chunk async for chunk in snapshot.chunks()]
        await store.insert([new])
        with MongoClient(place.uri) as program:
            program[place.database]["scopes"].delete_one({"name": "Work"})
        restore = await store.copies.restore(RestorePlan(RestoreMode.MERGE, schema.SCHEMA_VERSION))
        for chunk in chunks:
            await restore.take(chunk)
        await restore.commit()
        await store.connect()
        found = await store.fetch(await store.locate([old.memory_id, new.memory_id]))
        assert {memory.text for memory in found.values()} == {"in the backup", "stored since"}
