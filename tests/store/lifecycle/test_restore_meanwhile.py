"""Scopes that are made, renamed, forgotten or merged while a restore is staged, or at the moment when it is put into place: nothing of
what it says is restored is lost, and the one scope that was to come back alone goes into no other."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import bson
import pytest
from bson import ObjectId

from infinite_memory.errors import BackupError, ScopeExistsError
from infinite_memory.models import Fact, FactId, Scope
from infinite_memory.store.copies import Chunk, Restored, RestoreMode, RestorePlan
from infinite_memory.store.mongo import restore_steps
from infinite_memory.store.mongo.schema import SCHEMA_VERSION
from infinite_memory.store.mongo.store import MongoStore
from tests.mongo_server import StandaloneMongo, fresh_database, shared_mongo
from tests.store.conftest import NOW, Place, make_memory

MERGE = RestorePlan(RestoreMode.MERGE, SCHEMA_VERSION)
Meanwhile = Callable[[MongoStore], Awaitable[object]]


@pytest.fixture(params=["replica set, staged", "standalone, committing", "replica set, before a death"])
def moment(request: pytest.FixtureRequest) -> tuple[Place, str]:
    """A fresh database on a server of one kind, and when something happens."""
    kind, when = request.param.split(", ")
    server = shared_mongo() if kind == "replica set" else shared_mongo(StandaloneMongo)
    return Place(server.uri, fresh_database(), "pymongo"), when


class Died(Exception):
    """The restoring process ended here."""


async def find(store: MongoStore, name: str) -> Scope:
    """Return the scope of a name."""
    [found] = [scope for scope in await store.list_scopes() if scope.name == name]
    return found


async def saved(store: MongoStore, *names: str) -> list[Chunk]:
    """Store three memories, versions of them and a fact in each new scope; gives all that there is."""
    for name in names:
        scope = await store.create_scope(name, "", NOW)
        memories = [make_memory(scope, f"{name} {number}") for number in range(3)]
        await store.insert(memories)
        await store.replace(memories[0], keep_revision=True)
        await store.copies.add_facts([make_fact(scope)])
    async with store.copies.snapshot() as snapshot:
        return [chunk async for chunk in snapshot.chunks()]


def make_fact(scope: Scope) -> Fact:
    """Build a fact that holds."""
    return Fact(FactId(f"{int(scope.scope_id, 16) ^ 1:024x}"), scope.scope_id, scope.name, "is", "tea", NOW)


async def restore(
    store: MongoStore, chunks: list[Chunk], plan: RestorePlan, *, staged: Meanwhile | None = None,
    committing: Meanwhile | None = None, other: MongoStore, patch: pytest.MonkeyPatch, dies_after: int | None = None,
) -> Restored:  # fmt: skip
    """Restore, with something done once all is staged, or after the last look before it is put into place."""
    carry_out = restore_steps._carry_out

    async def meanwhile(database: Any, steps: list[Any], **options: Any) -> None:
        patched.undo()  # what happens meanwhile has steps of its own
        if committing is not None:
            await committing(other)
        await carry_out(database, steps[:dies_after], **options)
        if dies_after is not None:
            raise Died

    job = await store.copies.restore(plan)
    for chunk in chunks:
        await job.take(chunk)
    if staged is not None:
        await staged(other)
    with patch.context() as patched:
        patched.setattr(restore_steps, "_carry_out", meanwhile)
        try:
            async with store.copies.exclusive():
                done = await job.commit()
        finally:
            await job.abort()
    await store.connect()
    return done


async def held(store: MongoStore) -> dict[str, list[str]]:
    """Return the texts in each scope but Global, checking that there is nothing outside of scopes, and no restore under way."""
    scopes = {scope.scope_id: scope.name for scope in await store.list_scopes()}
    found: dict[str, list[str]] = {name: [] for name in scopes.values() if name != "Global"}
    async for memory in store.stream():
        found[scopes[memory.scope_id]].append(memory.text)
    async with store._connection.operation() as database:
        names = set(await database.list_collection_names())
        assert {name for name in names if name.startswith(("mem_", "staged_"))} <= {f"mem_{key}" for key in scopes}
        assert await database["meta"].count_documents({"_id": {"$regex": "^restore"}}) == 0
    return {name: sorted(texts) for name, texts in found.items()}


async def belonging(store: MongoStore, name: str) -> list[int]:
    """Count the earlier versions and the facts of a scope."""
    key = ObjectId((await find(store, name)).scope_id)
    async with store._connection.operation() as database:
        return [await database[kind].count_documents({"scope_id": key}) for kind in ("revisions", "facts")]


async def create(store: MongoStore) -> None:
    """Make a scope X, with something in it."""
    await store.insert([make_memory(await store.create_scope("X", "", NOW), "mine")])


async def rename(store: MongoStore) -> None:
    """Give the scope Y the name X."""
    await store.change_scope((await find(store, "Y")).scope_id, name="X")


async def forget(store: MongoStore) -> None:
    """Remove the scope X."""
    await store.drop_scope((await find(store, "X")).scope_id)


async def merge(store: MongoStore) -> None:
    """Pour the scope X into Y."""
    key = (await find(store, "X")).scope_id
    await store.copies.merge_scopes(key, (await find(store, "Y")).scope_id)
    await store.drop_scope(key)


X = ["X 0", "X 1", "X 2"]
Y = ["Y 0", "Y 1", "Y 2"]
CASES: dict[str, tuple[Meanwhile, bool, dict[str, list[str]]]] = {
    "its name is taken": (create, False, {"X": [*X, "mine"], "Y": Y}),
    "another gets its name": (rename, False, {"X": [*X, *Y]}),
    "it is forgotten": (forget, True, {"X": X, "Y": Y}),
    "it is merged": (merge, True, {"X": X, "Y": [*Y, "left"]}),
}
"""What happens meanwhile to X; whether X is there when the restore begins, emptied but for one memory; and what is there then."""


@pytest.mark.parametrize("case", CASES)
async def test_nothing_of_a_scope_is_lost_that_changes_while_it_is_restored(
    moment: tuple[Place, str], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    place, when = moment
    happens, is_there, after = CASES[case]

    async with place.open() as one, place.open() as other:
        chunks = await saved(one, "X", "Y")
        await forget(one)
        if is_there:
            async with one._connection.operation() as database:  # as another machine had it: the same id
                [document] = [one for one in bson.decode_all(chunks[0].documents) if one["name"] == "X"]
                await database["scopes"].insert_one(document)
            await one.connect()
            await one.insert([make_memory(await find(one, "X"), "left")])
        moments: Any = {"staged" if when == "staged" else "committing": happens}
        if when == "before a death":
            with pytest.raises(Died):
                await restore(one, chunks, MERGE, other=other, patch=monkeypatch, dies_after=1, **moments)
            await other.connect()
        else:
            done = await restore(one, chunks, MERGE, other=other, patch=monkeypatch, **moments)
            assert (done.memories, done.skipped) == (3, 3)
            assert when == "committing" or done.scopes == is_there
        assert await held(other) == after
        versions = [2, 2] if case == "another gets its name" else [1, 1]
        assert await belonging(other, "X") == versions


async def test_a_scope_that_comes_back_alone_goes_into_none_that_took_its_name(
    moment: tuple[Place, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, when = moment

    async with place.open() as one, place.open() as other:
        chunks = await saved(one, "Y")
        plan = dataclasses.replace(MERGE, only_scope="Y", as_scope="X")
        moments: Any = {"staged" if when == "staged" else "committing": create}
        if when == "before a death":
            with pytest.raises(Died):
                await restore(one, chunks, plan, other=other, patch=monkeypatch, dies_after=0, **moments)
            await other.connect()
        else:
            with pytest.raises(ScopeExistsError, match="'X'"):
                await restore(one, chunks, plan, other=other, patch=monkeypatch, **moments)
        assert await held(other) == {"X": ["mine"], "Y": Y}
        assert await belonging(other, "X") == [0, 0]
        done = await restore(one, chunks, dataclasses.replace(plan, as_scope="Z"), other=other, patch=monkeypatch)
        assert (done.scopes, done.memories) == (1, 3)
        assert (await held(other))["Z"] == Y


@pytest.mark.parametrize("alone", [False, True], ids=["all", "one scope"])
async def test_a_memory_that_another_restore_brought_back_and_somebody_moved_is_in_one_scope(
    monkeypatch: pytest.MonkeyPatch, place: Place, alone: bool
) -> None:
    async with place.open() as one, place.open() as other:
        chunks = await saved(one, "X", "Y")
        await forget(one)

        async def restored_and_moved(store: MongoStore) -> None:
            await restore(store, chunks, MERGE, other=store, patch=monkeypatch)
            target = await find(store, "Y")
            [memory] = [found async for found in store.stream() if found.text == "X 0"]
            await store.move(memory, target.scope_id)

        plan = dataclasses.replace(MERGE, only_scope="X", as_scope="Z") if alone else MERGE
        if alone:
            with pytest.raises(BackupError, match="3 memories of it came back meanwhile"):
                await restore(one, chunks, plan, other=other, patch=monkeypatch, staged=restored_and_moved)
        else:
            done = await restore(one, chunks, plan, other=other, patch=monkeypatch, staged=restored_and_moved)
            assert (done.memories, done.skipped) == (0, 6)
        assert await held(other) == {"X": ["X 1", "X 2"], "Y": ["X 0", *Y]}
        assert await belonging(other, "X") == [0, 1]  # its version went along
