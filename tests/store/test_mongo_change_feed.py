"""The change feed: what one store does, another is told, by change stream and by polling."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import bson
import pytest

from infinite_memory.errors import StoreError, StoreUnavailableError
from infinite_memory.models import MemoryRecord
from infinite_memory.mongod.server import LocalMongo
from infinite_memory.store.base import Change, ChangeKind
from infinite_memory.store.mongo.change_feed import write_tombstones
from infinite_memory.store.mongo.store import MongoStore

from .conftest import NOW, Place, at, changes_until_quiet, global_scope, make_embedding, make_memory


def newest_revisions(told: Sequence[Change], *memories: MemoryRecord) -> list[int]:
    """Give the newest revision that was told of each memory, 0 for one never told."""
    return [
        max(
            (one.revision for one in told if one.memory_id == memory.memory_id and one.kind is ChangeKind.WRITTEN),
            default=0,
        )
        for memory in memories
    ]


async def next_change(store: MongoStore, token: bytes) -> Change:
    async for change in store.changes(token):
        if change is not None and change.kind is not ChangeKind.SCOPES_CHANGED:
            return change
    raise AssertionError("the feed ended")


async def test_two_stores_see_each_others_writes_and_deletions(place: Place) -> None:
    async with place.open() as ours, place.open() as theirs:
        scope = await global_scope(ours)
        token = await ours.change_token()
        kept, changed, hidden, gone = (make_memory(scope, name) for name in ("k", "c", "h", "g"))
        await theirs.insert([kept, changed, hidden, gone])
        await theirs.replace(changed, keep_revision=True)
        await theirs.set_embedding(kept.memory_id, scope.scope_id, 1, make_embedding([1, 0, 0]))
        await theirs.soft_delete(at(hidden), NOW)
        await theirs.remove(at(gone))
        told = await changes_until_quiet(ours, token)
        assert newest_revisions(told, kept, changed, hidden) == [2, 2, 2]
        assert [one.memory_id for one in told if one.kind is ChangeKind.REMOVED] == [gone.memory_id]
        assert {one.scope_id for one in told if one.memory_id} == {scope.scope_id}


async def test_a_store_is_told_of_scopes(place: Place) -> None:
    async with place.open() as ours, place.open() as theirs:
        made = await theirs.create_scope("Work", "", NOW)
        token = await ours.change_token()
        await theirs.change_scope(made.scope_id, description="new")
        told = await changes_until_quiet(ours, token)
        assert {one.kind for one in told} == {ChangeKind.SCOPES_CHANGED}
        await theirs.drop_scope(made.scope_id)
        told = await changes_until_quiet(ours, told[-1].token)
        assert [one.scope_id for one in told if one.kind is ChangeKind.SCOPE_REMOVED] == [made.scope_id]


async def test_the_feed_goes_on_after_the_entry_whose_token_is_given(place: Place) -> None:
    async with place.open() as store:
        scope = await global_scope(store)
        token = await store.change_token()
        memories = [make_memory(scope) for _ in range(5)]
        for memory in memories:
            await store.insert([memory])
        told = [one for one in await changes_until_quiet(store, token) if one.kind is ChangeKind.WRITTEN]
        later = make_memory(scope)
        await store.insert([later])
        again = await changes_until_quiet(store, told[2].token)
        assert newest_revisions(again, *memories[3:], later) == [1, 1, 1]


async def test_a_change_is_told_while_the_reader_waits(place: Place) -> None:
    async with place.open() as ours, place.open() as theirs:
        memory = make_memory(await global_scope(ours))
        quiet = asyncio.Event()

        async def follow() -> Change:
            async for change in ours.changes(await ours.change_token()):
                if change is None:
                    quiet.set()
                elif change.memory_id:
                    return change
            raise AssertionError("the feed ended")

        reader = asyncio.create_task(follow())
        await quiet.wait()
        await theirs.insert([memory])
        change = await reader
        assert (change.memory_id, change.scope_id, change.revision) == (memory.memory_id, memory.scope_id, 1)


async def test_own_small_values_and_revisions_are_not_told(place: Place) -> None:
    async with place.open() as store:
        memory = make_memory(await global_scope(store))
        await store.insert([memory])
        token = await store.change_token()
        await store.set_meta("key", {"value": 1})
        await store.replace(memory, keep_revision=True)
        told = [one for one in await changes_until_quiet(store, token) if one.memory_id and one.revision != 1]
        assert [(one.memory_id, one.revision) for one in told] == [(memory.memory_id, 2)]


async def test_a_token_that_is_foreign_broken_or_too_new_is_refused(place: Place) -> None:
    elsewhere = dataclasses.replace(place, database=place.database + "_other")
    async with place.open() as store, elsewhere.open() as other:
        own = bson.decode(await store.change_token())
        later = {key: bson.Timestamp(value.time + 9999, 1) for key, value in own.items() if key in ("at", "polled")}
        tokens = {
            "another database": await other.change_token(),
            "no change token": b"nonsense",
            "later state": bson.encode({**own, **later}),
        }
        for problem, token in tokens.items():
            with pytest.raises(StoreError, match=problem):
                await changes_until_quiet(store, token)


class ForgetfulMongo(LocalMongo):
    """A server that cuts its operation log every second and not every minute."""

    def _replication_arguments(self) -> list[str]:
        return [*super()._replication_arguments(), "--syncdelay", "1"]


async def test_a_token_that_the_operation_log_has_forgotten_is_refused(tmp_path: Path) -> None:
    mongo = ForgetfulMongo(tmp_path, log_dir=tmp_path / "logs", oplog_mb=1)
    try:
        async with Place(await mongo.start(), "rolled", "pymongo").open() as store:
            scope = await global_scope(store)
            token = await store.change_token()
            for _ in range(1000):
                told = await next_change_or_refusal(store, token)
                if isinstance(told, StoreError):
                    break
                await store.insert([make_memory(scope, "x" * (1 << 20)) for _ in range(8)])
            assert isinstance(told, StoreError)
            assert not isinstance(told, StoreUnavailableError)
            await changes_until_quiet(store, await store.change_token())
    finally:
        await mongo.stop()


async def next_change_or_refusal(store: MongoStore, token: bytes) -> Change | StoreError | None:
    try:
        async for change in store.changes(token):
            return change
    except StoreError as exc:
        return exc
    raise AssertionError("the feed ended")


async def test_a_token_older_than_the_tombstones_is_refused(standalone_uri: str, database: str) -> None:
    async with Place(standalone_uri, database, "pymongo").open() as store:
        own = bson.decode(await store.change_token())
        week_ago = bson.Timestamp(own["polled"].time - 7 * 86400, 1)
        with pytest.raises(StoreError, match="too old"):
            await changes_until_quiet(store, bson.encode({**own, "polled": week_ago}))


async def test_a_dropped_database_ends_the_feed(mongo_uri: str, database: str) -> None:
    async with Place(mongo_uri, database, "pymongo").open() as store:
        token = await store.change_token()
        await store._connection.client.drop_database(database)
        with pytest.raises(StoreError, match="dropped"):
            await changes_until_quiet(store, token)


async def test_a_tombstone_set_before_a_crash_hides_no_memory(standalone_uri: str, database: str) -> None:
    async with Place(standalone_uri, database, "pymongo").open() as store:
        memory = make_memory(await global_scope(store))
        await store.insert([memory])
        token = await store.change_token()
        keys = [bson.ObjectId(memory.memory_id)]
        await write_tombstones(await store._connection.database(), bson.ObjectId(memory.scope_id), keys)
        assert ChangeKind.REMOVED not in {one.kind for one in await changes_until_quiet(store, token)}
        await store.remove(at(memory))
        change = await next_change(store, token)
        while change.kind is not ChangeKind.REMOVED:
            change = await next_change(store, change.token)
        assert change.memory_id == memory.memory_id


async def test_a_scope_that_is_put_away_and_brought_back_between_two_looks_is_told(place: Place) -> None:
    """Else who read it while it was away would never hear that it is back."""

    async with place.open() as store:
        made = await store.create_scope("Work", "", NOW)
        changes = store.changes(await store.change_token())
        while await anext(changes) is not None:
            pass
        await store.set_scope_archived(made.scope_id, NOW)
        await store.set_scope_archived(made.scope_id, None)
        change = await anext(changes)
        assert change is not None
        assert change.kind is ChangeKind.SCOPES_CHANGED
