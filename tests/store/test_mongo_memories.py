"""Memories in MongoDB: what goes in comes out, and only what was asked is changed."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import datetime as dt

import numpy as np
import pytest
from bson import ObjectId

from infinite_memory.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    MemoryNotFoundError,
    ScopeNotFoundError,
    StoreError,
)
from infinite_memory.index.batches import in_columns
from infinite_memory.models import IndexBatch, IndexRow, MemoryId, MemoryRecord, ScopeId
from infinite_memory.store.mongo.store import MongoStore

from .conftest import NOW, Place, at, global_scope, make_embedding, make_memory


async def test_a_memory_comes_back_as_it_was_stored(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        memory = make_memory(
            scope,
            "grün\0\u202e 👩‍👩‍👧 \x1b[0m",
            tags=("Blue", "$where", "a.b", "", "session:7"),
            type="note",
            title="",
            importance=0.5,
            confidence=1.0,
            status="open",
            speaker="Ada",
            conversation_id="c1",
            owners={"user": "u.1", "$agent": "a"},
            metadata={
                "a.b": 1,
                "$ne": {"$gt": ""},
                "": {"": [None, True, 1.5, -(2**63), 2**63 - 1]},
                "nul\0key": "nul\0value",
                "%2E": "%",
                "deep": [[{"x.y": [{}]}]],
            },
            structured={"rows": [{"$set": 1}]},
            occurrences=(NOW, NOW + dt.timedelta(days=1)),
            content_hash="abc",
            embedding=make_embedding([1, 0, 0], [0.6, 0.8, 0]),
        )
        await store.insert([memory])
        [found] = (await store.fetch(at(memory), vectors=True)).values()
        assert dataclasses.replace(found, embedding=None) == dataclasses.replace(memory, embedding=None)
        assert found.occurred_at.tzinfo is dt.UTC
        assert found.embedding is not None
        assert found.embedding.space == "model/3/fp32"
        assert found.embedding.windows == memory.embedding.windows  # type: ignore[union-attr]
        np.testing.assert_array_equal(found.embedding.vectors, memory.embedding.vectors)  # type: ignore[union-attr]
        assert found.embedding.vectors.dtype == np.float32
        [without] = (await store.fetch(at(memory))).values()
        assert without.embedding is None


async def test_a_text_of_a_mebibyte_with_many_windows_is_kept_whole(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        rows = np.eye(384, dtype=np.float32)[np.arange(1500) % 384]
        memory = make_memory(scope, "ß" * (1 << 19), embedding=make_embedding(*rows.tolist()))
        await store.insert([memory])
        [found] = (await store.fetch(at(memory), vectors=True)).values()
        assert found.text == memory.text
        assert found.embedding is not None
        assert found.embedding.vectors.shape == (1500, 384)


async def test_what_mongodb_cannot_hold_is_refused_by_name(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        with pytest.raises(InvalidRequestError, match=r"metadata\.n\[1\]: .*64 bits"):
            await store.insert([make_memory(scope, metadata={"n": [1, 2**63]})])
        nested: list[object] = []
        for _ in range(200):
            nested = [nested]
        with pytest.raises(InvalidRequestError, match="metadata: nested deeper"):
            await store.insert([make_memory(scope, metadata={"n": nested})])
        with pytest.raises(InvalidRequestError):
            await store.insert([make_memory(scope, "\ud800")])
        with pytest.raises(InvalidRequestError):
            await store.insert([make_memory(scope, "x" * (17 << 20))])
        assert await store.count_live() == {scope.scope_id: 0}


async def test_several_memories_are_stored_all_or_none(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        other = await store.create_scope("Work", "", NOW)
        first, second = make_memory(scope), make_memory(other)
        await store.insert([first, second])
        assert (await store.fetch(at(first, second))).keys() == at(first, second).keys()
        new, newer = make_memory(scope), make_memory(other)
        with pytest.raises(AlreadyExistsError):
            await store.insert([new, newer, second])
        assert await store.fetch(at(new, newer)) == {}
        assert await store.count_live() == {scope.scope_id: 1, other.scope_id: 1}
        await store.insert([])


async def test_a_memory_is_not_stored_into_a_scope_that_is_gone(place: Place) -> None:
    async with place.open() as store:
        with pytest.raises(ScopeNotFoundError):
            await store.insert([make_memory(ScopeId("0" * 24))])
        with pytest.raises(AlreadyExistsError):
            memory = make_memory(await global_scope(store))
            await store.insert([memory])
            await store.insert([memory])


async def test_ids_that_cannot_be_are_not_found(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        located = {MemoryId("nonsense"): scope.scope_id, MemoryId("0" * 24): ScopeId("nonsense")}
        assert await store.fetch(located) == {}
        assert await store.remove(located) == []
        assert await store.soft_delete(located, NOW) == []
        assert await store.locate(located) == {}
        assert (await store.get_revisions(MemoryId("nonsense"))).revisions == ()


async def test_a_change_raises_the_revision_and_keeps_the_old_version(place: Place) -> None:
    async with place.open() as store:
        memory = make_memory(await global_scope(store), "one", embedding=make_embedding([1, 0, 0]))
        await store.insert([memory])
        second = await store.replace(dataclasses.replace(memory, text="two"), keep_revision=True)
        third = await store.replace(dataclasses.replace(second, title="t"), keep_revision=False)
        fourth = await store.replace(dataclasses.replace(third, text="four", embedding=None), keep_revision=True)
        assert (second.revision, third.revision, fourth.revision) == (2, 3, 4)
        assert (await store.fetch(at(memory), vectors=True))[memory.memory_id] == fourth
        earlier = (await store.get_revisions(memory.memory_id)).revisions
        assert [(one.text, one.title, one.revision) for one in earlier] == [("one", None, 1), ("two", "t", 3)]
        assert all(one.embedding is None and one.scope_id == memory.scope_id for one in earlier)


async def test_a_change_over_somebody_elses_change_is_refused(place: Place) -> None:
    async with place.open() as store:
        memory = make_memory(await global_scope(store))
        for revise in (True, False):
            with pytest.raises(MemoryNotFoundError):
                await store.replace(memory, keep_revision=revise)
        await store.insert([memory])
        await store.replace(dataclasses.replace(memory, text="theirs"), keep_revision=True)
        for revise in (True, False):
            with pytest.raises(StoreError, match="changed meanwhile"):
                await store.replace(dataclasses.replace(memory, text="mine"), keep_revision=revise)
        assert (await store.fetch(at(memory)))[memory.memory_id].text == "theirs"
        assert len((await store.get_revisions(memory.memory_id)).revisions) == 1


async def test_vectors_are_put_to_the_version_they_were_made_of(place: Place) -> None:
    async with place.open() as store:
        memory = make_memory(await global_scope(store))
        await store.insert([memory])
        vectors = make_embedding([0, 1, 0])
        assert await store.set_embedding(memory.memory_id, memory.scope_id, 1, vectors)
        assert not await store.set_embedding(memory.memory_id, memory.scope_id, 1, vectors)
        assert not await store.set_embedding(MemoryId("0" * 24), memory.scope_id, 1, vectors)
        [found] = (await store.fetch(at(memory), vectors=True)).values()
        assert found.revision == 2
        assert found.embedding is not None
        np.testing.assert_array_equal(found.embedding.vectors, vectors.vectors)


async def test_a_forgotten_memory_is_hidden_and_can_be_taken_back(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        kept, hidden = make_memory(scope), make_memory(scope)
        await store.insert([kept, hidden])
        assert await store.soft_delete(at(hidden), NOW) == [hidden.memory_id]
        assert await store.soft_delete(at(hidden), NOW) == []
        assert (await store.fetch(at(kept, hidden))).keys() == at(kept).keys()
        assert (await store.fetch(at(kept, hidden), deleted=True)).keys() == at(hidden).keys()
        both = await store.fetch(at(kept, hidden), deleted=None)
        assert both.keys() == at(kept, hidden).keys()
        assert (both[hidden.memory_id].deleted_at, both[hidden.memory_id].revision) == (NOW, 2)
        assert [one.memory_id async for one in store.stream()] == [kept.memory_id]
        assert [(one.memory_id, one.revision) async for one in store.versions()] == [(kept.memory_id, 1)]
        assert await store.count_live() == {scope.scope_id: 1}
        assert await store.count_deleted() == 1
        assert await store.deleted_ids(None, None) == at(hidden)
        assert await store.deleted_ids([scope.scope_id], NOW) == {}
        assert await store.deleted_ids([scope.scope_id], NOW + dt.timedelta(milliseconds=1)) == at(hidden)
        assert await store.undelete(at(kept, hidden)) == [hidden.memory_id]
        [found] = (await store.fetch(at(hidden))).values()
        assert (found.deleted_at, found.revision) == (None, 3)
        assert await store.count_deleted() == 0


async def test_a_removed_memory_takes_its_revisions_along(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        live, hidden = make_memory(scope), make_memory(scope)
        await store.insert([live, hidden])
        await store.replace(live, keep_revision=True)
        await store.soft_delete(at(hidden), NOW)
        assert set(await store.remove(at(live, hidden, make_memory(scope)))) == at(live, hidden).keys()
        assert await store.remove(at(live, hidden)) == []
        assert await store.fetch(at(live, hidden), deleted=None) == {}
        assert (await store.get_revisions(live.memory_id)).revisions == ()


async def test_a_memory_removed_while_it_is_changed_leaves_no_version_behind(place: Place) -> None:
    """Found while looking for ways in which a word could survive: the version was kept after the others had been removed."""

    async def change(store: MongoStore, memory: MemoryRecord) -> None:
        with contextlib.suppress(MemoryNotFoundError):
            for number in range(5):
                memory = await store.replace(dataclasses.replace(memory, text=f"text {number}"), keep_revision=True)

    async with place.open(timeout_s=60) as store:  # eighty requests at once wait for twenty connections
        scope = await global_scope(store)
        memories = [make_memory(scope) for _ in range(40)]
        await store.insert(memories)
        await asyncio.gather(*(change(store, one) for one in memories), *(store.remove(at(one)) for one in memories))
        for one in memories:
            assert await store.fetch(at(one), deleted=None) == {}
            assert (await store.get_revisions(one.memory_id)).revisions == ()


async def test_a_memory_is_located_whatever_its_scope_and_state(place: Place) -> None:
    async with place.open() as store:
        scopes = [await store.create_scope(f"s{number}", "", NOW) for number in range(12)]
        memories = [make_memory(scope) for scope in scopes]
        await store.insert(memories)
        await store.soft_delete(at(memories[3]), NOW)
        await store.set_scope_archived(scopes[5].scope_id, NOW)
        wanted = [*at(*memories), make_memory(scopes[0]).memory_id]
        assert await store.locate(wanted) == at(*memories)


async def test_everything_is_read_page_by_page(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        work = await store.create_scope("Work", "", NOW)
        memories = [make_memory(scope, f"m{number}", embedding=make_embedding([1, 0, 0])) for number in range(1203)]
        await store.insert(memories)
        away = make_memory(work)
        await store.insert([away])
        await store.set_scope_archived(work.scope_id, NOW)
        streamed = [memory async for memory in store.stream([scope.scope_id])]
        assert sorted(memory.text for memory in streamed) == sorted(memory.text for memory in memories)
        assert all(memory.embedding is not None for memory in streamed)
        assert len([memory async for memory in store.stream()]) == 1204
        assert {one.memory_id: one.scope_id async for one in store.versions()} == at(away, *memories)
        assert await store.fetch(at(*memories)) == {
            memory.memory_id: dataclasses.replace(memory, embedding=None) for memory in memories
        }
        assert set(await store.remove(at(*memories))) == at(*memories).keys()


async def test_what_a_sidecar_keeps_is_read_in_the_columns_that_the_memories_make(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        full = make_memory(
            scope,
            "all",
            occurred_at=dt.datetime(1931, 5, 6, 7, 8, 9, 123456, dt.UTC),
            tags=("Blue", "session:7"),
            type="note",
            importance=0.5,
            confidence=1.0,
            speaker="Ada",
            conversation_id="c1",
            embedding=make_embedding([1, 0, 0], [0.6, 0.8, 0]),
        )
        bare = make_memory(scope, "bare", source="letter")
        gone = make_memory(scope, "gone")
        await store.insert([full, bare, gone])
        await store.soft_delete(at(gone), NOW)
        [read] = [rows async for rows in store.rows()]
        [made] = in_columns([IndexRow.of(full), IndexRow.of(bare)], 10)
        for column in dataclasses.fields(IndexBatch):
            assert repr(getattr(read, column.name)) == repr(getattr(made, column.name)), column.name


async def test_ids_made_here_grow_even_when_the_clock_is_set_back(place: Place) -> None:
    async with place.open() as store:
        made = [store.new_id() for _ in range(1000)]
        store._last_id = ObjectId("f" * 8 + made[-1][8:])
        made += [store.new_id() for _ in range(1000)]
        assert sorted(set(made)) == made


async def test_small_values_are_kept(place: Place) -> None:
    async with place.open() as store:
        assert await store.get_meta("kept") is None
        value = {"at": NOW, "a.b": {"$x": [1, 2]}}
        await store.set_meta("kept", {"old": 1})
        await store.set_meta("kept", value)
        assert await store.get_meta("kept") == value


async def test_the_server_tells_of_itself(place: Place) -> None:
    async with place.open() as store:
        await store.ping()
        info = await store.info()
        assert info.deployment in ("replica set", "standalone")
        assert info.server_version.count(".") == 2
        assert info.size_bytes > 0
        assert info.database == place.database


async def test_new_and_changed_memories_are_written_together_or_not_at_all(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        tea, pot, cup = (make_memory(scope, text) for text in ("tea", "pot", "cup"))
        await store.insert([tea, pot])
        wanted = [dataclasses.replace(tea, text="green tea"), dataclasses.replace(pot, text="big pot")]
        with pytest.raises(AlreadyExistsError):
            await store.write_batch([cup, tea], wanted)
        stale = [wanted[0], dataclasses.replace(wanted[1], revision=7)]
        with pytest.raises(StoreError):
            await store.write_batch([cup], stale)
        found = await store.fetch(at(tea, pot, cup))
        assert {memory.text for memory in found.values()} == {"tea", "pot"}
        after = await store.write_batch([cup], [dataclasses.replace(found[tea.memory_id], text="green tea")])
        found = await store.fetch(at(tea, pot, cup))
        assert {memory.text for memory in found.values()} == {"green tea", "pot", "cup"}
        assert after[0].revision == found[tea.memory_id].revision
        assert "tea" in [revision.text for revision in (await store.get_revisions(tea.memory_id)).revisions]


async def test_what_is_brought_back_before_it_is_purged_stays_with_its_versions(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        gone, back, again = (make_memory(scope, text) for text in ("gone", "back", "again"))
        await store.insert([gone, back, again])
        for memory in (gone, back):
            await store.replace(dataclasses.replace(memory, text="changed"), keep_revision=True)
        hidden = at(gone, back, again)
        await store.soft_delete(hidden, NOW - dt.timedelta(days=40))
        expired = await store.deleted_ids(None, NOW - dt.timedelta(days=30))
        assert expired == hidden
        await store.undelete(at(back, again))
        await store.soft_delete(at(again), NOW)
        assert await store.purge(expired, NOW - dt.timedelta(days=30)) == [gone.memory_id]
        assert await store.locate(list(hidden)) == at(back, again)
        assert len((await store.get_revisions(back.memory_id)).revisions) == 1
        assert (await store.get_revisions(gone.memory_id)).revisions == ()
