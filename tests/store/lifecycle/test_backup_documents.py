"""What is in a backup is checked whole before a restore: `verify` and restore say the same, and a refused one changes nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import bson
import pymongo
import pytest
from bson import ObjectId
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infinite_memory.backup.service import verify_file
from infinite_memory.errors import BackupError
from infinite_memory.models import MAX_MEMORY_TAGS
from infinite_memory.store.document_fields import DocumentKind
from tests.documents import MISSING, Spoiling, sound_document, sound_memory, spoilings
from tests.mongo_server import run
from tests.store.lifecycle.backups import (
    COLLECTIONS,
    Document,
    sound_collections,
    sound_scope,
    write_backup,
)
from tests.store.lifecycle.conftest import Json, Memory, Open, staged_names

LONG = bool(os.environ.get("INFINITE_MEMORY_TEST_LONG"))
KINDS = (DocumentKind.SCOPE, DocumentKind.MEMORY, *COLLECTIONS)
SECRET_TEXT = "Ada drinks tea"


async def everything(memory: Memory) -> Json:
    """List all that is there, by the index and by the database."""
    listed = await memory.ok("list_memories", filter={"scope": "ALL"}, limit=100)
    found = await memory.ok("retrieve_memory", query="the first cup", filter={"scope": "ALL"}, mode="text")
    return {"listed": listed["results"], "found": [one["memory_id"] for one in found["results"]]}


def database_of(memory: Memory) -> tuple[pymongo.MongoClient[Json], str]:
    """Open the database behind a memory, as another program would."""
    return pymongo.MongoClient(str(memory.app.config.mongodb.uri)), memory.app.config.mongodb.database


async def test_a_sound_backup_of_every_kind_restores(open_memory: Open, tmp_path: Path) -> None:
    file = write_backup(tmp_path / "sound.dump", sound_collections())
    assert verify_file(file).memories == 1

    async with open_memory() as memory:
        assert (await memory.ok("restore_backup", file=str(file)))["restored_memories"] == 1
        [only] = (await memory.ok("list_memories", filter={"scope": "ALL"}))["results"]
        assert only["text"] == SECRET_TEXT


def spoiled(spoiling: Spoiling) -> tuple[str, dict[str, list[Document]]]:
    """Build a backup of which one field is changed; gives the collection in which that is."""
    scope = sound_scope()
    if spoiling.kind is DocumentKind.SCOPE:
        base = sound_document(DocumentKind.SCOPE, ObjectId())
        changed = spoiling.apply(base)
        collections = sound_collections(base)
        collections["scopes"] = [changed]
        return "scopes", collections
    document = spoiling.apply(sound_document(spoiling.kind, scope["_id"]))
    name = COLLECTIONS.get(spoiling.kind, f"mem_{scope['_id']}")
    return name, sound_collections(scope, **{spoiling.kind.value: document})


@pytest.mark.timeout(3600 if LONG else 300)
@pytest.mark.parametrize("mode", ["merge", "replace"])
def test_whatever_becomes_of_a_field_in_a_backup_restore_takes_it_whole_or_changes_nothing(
    open_memory: Open, tmp_path: Path, mode: str
) -> None:
    loop = asyncio.new_event_loop()
    opening = open_memory("home")

    def do(work: Coroutine[Any, Any, Any]) -> Any:
        return loop.run_until_complete(asyncio.wait_for(work, 120))

    memory: Memory = do(opening.__aenter__())
    do(memory.store("the first cup of the day", "Mornings", tags=["t"]))
    good = do(memory.ok("backup_memory"))["path"]
    before = do(everything(memory))

    @settings(max_examples=1000 if LONG else 15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(KINDS).flatmap(spoilings))
    def check(spoiling: Spoiling) -> None:
        nonlocal before
        name, collections = spoiled(spoiling)
        file = write_backup(tmp_path / "spoiled.dump", collections)
        refusal = ""
        try:
            verify_file(file)
        except BackupError as exc:
            refusal = str(exc)
        reply = do(memory.ask("restore_backup", file=str(file), mode=mode))
        if refusal:
            assert (reply["status"], reply["error"]) == ("ERROR", refusal)
            assert name in refusal or f"mem_{collections['scopes'][0].get('_id')}" in refusal or "scope" in refusal
            assert SECRET_TEXT not in refusal
            assert do(everything(memory)) == before
        else:
            assert reply["status"] == "OK", reply
            assert do(memory.ok("get_memory_stats"))["stats"]["total_memories"] >= 1
            do(memory.ok("restore_backup", file=good, mode="replace"))
            assert do(everything(memory)) == before
        assert do(staged_names(memory)) == []

    try:
        check()
    finally:
        do(opening.__aexit__(None, None, None))
        loop.close()

    async def reopened() -> None:
        async with open_memory("home") as again:
            assert await everything(again) == before

    run(reopened())


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        ("memory", "text", MISSING),
        ("memory", "revision", "3"),
        ("memory", "tags", [1, 2]),
        ("scope", "description", MISSING),
        ("fact", "valid_from", "yesterday"),
        ("link", "from_id", "x"),
        ("revision", "document", MISSING),
        ("use", "count", "many"),
    ],
)
def test_a_refusal_names_collection_id_and_field(tmp_path: Path, kind: str, field: str, value: object) -> None:
    name, collections = spoiled(Spoiling(DocumentKind(kind), (field,), value))
    with pytest.raises(BackupError, match=f"{name} hold a document {collections[name][0]['_id']} .*{field}"):
        verify_file(write_backup(tmp_path / "a.dump", collections))


TWICE = [
    ("scopes", lambda one: one | {"_id": ObjectId()}),
    ("scopes", lambda one: one | {"name": one["name"].upper(), "_id": ObjectId()}),
    ("memories", lambda one: one),
    ("revisions", lambda one: one | {"_id": ObjectId()}),
    ("facts", lambda one: one | {"_id": ObjectId()}),
    ("links", lambda one: one),
    ("agents", lambda one: one),
]


@pytest.mark.parametrize(("where", "change"), TWICE)
def test_what_a_unique_index_would_refuse_is_refused_before_anything_is_written(
    tmp_path: Path, where: str, change: Any
) -> None:
    collections = sound_collections()
    name = next(name for name in collections if name.startswith("mem_")) if where == "memories" else where
    collections[name] = [*collections[name], change(collections[name][0])]
    with pytest.raises(BackupError, match="no other document has"):
        verify_file(write_backup(tmp_path / "a.dump", collections))


def test_what_can_be_stored_by_nobody_is_refused(tmp_path: Path) -> None:
    tags = [f"t{number}" for number in range(MAX_MEMORY_TAGS + 1)]
    for change, said in (
        ({"text": "x" * (17 << 20)}, "which MongoDB does not take"),
        ({"tags": tags}, "tags: at most"),
    ):
        collections = sound_collections(memory=sound_memory() | change)
        with pytest.raises(BackupError, match=said):
            verify_file(write_backup(tmp_path / "a.dump", collections))


async def test_derived_values_of_another_version_are_derived_again(open_memory: Open, tmp_path: Path) -> None:
    scope = sound_scope("Straße") | {"name_key": "straße"}  # folded otherwise than we do
    memory_id = ObjectId()
    stale = sound_memory(memory_id) | {"tag_keys": ["TEA"]}
    file = write_backup(tmp_path / "stale.dump", sound_collections(scope, memory=stale))

    async with open_memory() as memory:
        await memory.ok("restore_backup", file=str(file))
        tagged = await memory.ok("search_by_tag", tag="tea", scope="STRASSE")
        assert [one["memory_id"] for one in tagged["results"]] == [str(memory_id)]


def test_a_document_that_is_nested_too_deep_or_no_bson_is_refused(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(150):
        deep = {"a": deep}
    with pytest.raises(BackupError, match="later_field"):
        verify_file(write_backup(tmp_path / "a.dump", sound_collections(memory=sound_memory() | {"later_field": deep})))
    collections: dict[str, Any] = dict(sound_collections())
    broken = bytearray(bson.encode(sound_memory()))
    broken[4] = 0x77  # no type of BSON
    collections[next(name for name in collections if name.startswith("mem_"))] = [bytes(broken)]
    with pytest.raises(BackupError, match="not BSON"):
        verify_file(write_backup(tmp_path / "b.dump", collections))


BROKEN: list[tuple[str, Document]] = [
    ("memory", {"$unset": {"text": ""}}),
    ("memory", {"$set": {"revision": "x", "embedding": {"space": 1, "windows": 5, "vectors": b"abc"}}}),
    ("memory", {"$set": {"occurred_at": "yesterday", "tags": 5}}),
    ("scope", {"$unset": {"description": "", "name": ""}}),
    ("scope", {"$set": {"name_key": 5, "created_at": "x"}}),
    ("schema", {"$set": {"version": "one"}}),
    ("identity", {"$unset": {"value": ""}}),
]


@pytest.mark.parametrize(
    ("what", "change"), BROKEN, ids=[f"{what}-{number}" for number, (what, _) in enumerate(BROKEN)]
)
async def test_replace_rescues_a_home_whose_data_cannot_be_opened(
    open_memory: Open, what: str, change: Document
) -> None:
    async with open_memory() as memory:
        await memory.store("the first cup of the day", "Mornings")
        good = (await memory.ok("backup_memory"))["path"]
        scope = await memory.services.scopes.get("Mornings")
        client, database = database_of(memory)
    with client:
        data = client[database]
        query: Document = {"_id": ObjectId(scope.scope_id)} if what == "scope" else {"_id": what}
        target = {"memory": f"mem_{scope.scope_id}", "scope": "scopes"}.get(what, "meta")
        data[target].update_one({} if what == "memory" else query, change)
    async with open_memory("home", {"recall.wait_s": "2"}) as memory:
        replaced = await memory.ok("restore_backup", file=good, mode="replace")
        assert "saved_before" in replaced
        found = await everything(memory)
        assert [one["text"] for one in found["listed"]] == ["the first cup of the day"]
        assert len(found["found"]) == 1
        await memory.ok("verify_backup", file=replaced["saved_before"])  # what was broken is beside the rest in it
        assert (await memory.ok("health_check"))["set_aside"] == []
        await memory.store("the second cup", "Mornings")
    async with open_memory() as memory:
        assert len((await everything(memory))["listed"]) == 2


async def test_a_backup_of_a_home_with_a_broken_document_can_be_restored(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("sound")
        broken = await memory.store("broken")
        scope = await memory.services.scopes.get("Global")
        client, database = database_of(memory)
        with client:
            query = {"_id": ObjectId(broken)}
            client[database][f"mem_{scope.scope_id}"].update_one(query, {"$set": {"revision": "x"}})
        backup = await memory.ok("backup_memory")
        assert backup["counts"]["set_aside"] == 1
        await memory.ok("verify_backup", file=backup["backup_file"])
    async with open_memory("other") as memory:
        assert (await memory.ok("restore_backup", file=backup["path"]))["restored_memories"] == 1
        client, database = database_of(memory)
        with client:  # and the other one is not lost
            [aside] = client[database]["set_aside"].find()
        assert (aside["collection"], bson.decode(aside["document"])["text"]) == (f"mem_{scope.scope_id}", "broken")


@pytest.mark.parametrize("mode", ["merge", "replace"])
async def test_a_dry_run_tells_what_would_change_and_changes_nothing(open_memory: Open, mode: str) -> None:
    async with open_memory() as memory:
        for number in range(3):
            await memory.store(f"the first cup of day {number}", f"S{number}")
        backup = await memory.ok("backup_memory")
        await memory.ok("delete_memory", target={"scope": "S0"}, forget_mode="hard")
        await memory.store("a late one", "Late")
        before, files = await everything(memory), (await memory.ok("list_backups"))["backups"]
        promised = await memory.ok("restore_backup", file=backup["backup_file"], mode=mode, dry_run=True)
        assert await everything(memory) == before
        assert (await memory.ok("list_backups"))["backups"] == files
        assert await staged_names(memory) == []
        expected = (1, 2, 0, 0) if mode == "merge" else (3, 0, 2, 1)
        counts = ("restored_memories", "skipped_memories", "replaced_memories", "removed_memories")
        assert tuple(promised[name] for name in counts) == expected
        done = await memory.ok("restore_backup", file=backup["backup_file"], mode=mode)
        done.pop("saved_before", None)
        assert promised == done | {"dry_run": True}


async def test_a_dry_run_refuses_what_a_restore_would(open_memory: Open, tmp_path: Path) -> None:
    _, collections = spoiled(Spoiling(DocumentKind.MEMORY, ("text",), MISSING))
    file = write_backup(tmp_path / "a.dump", collections)

    async with open_memory() as memory:
        await memory.store("there")
        refused = await memory.ask("restore_backup", file=str(file), mode="replace", dry_run=True)
        assert refused["error_code"] == "BACKUP_ERROR"


def test_a_scope_that_is_marked_for_removal_is_refused(tmp_path: Path) -> None:
    """The next start would remove it, and all its memories, after a restore that said they were back."""
    file = write_backup(tmp_path / "dropping.dump", sound_collections({**sound_scope(), "dropping": True}))
    with pytest.raises(BackupError, match="dropping"):
        verify_file(file)


@pytest.mark.parametrize("how", [{"mode": "replace"}, {"mode": "merge"}, {"scope": "Work", "as_scope": "Other"}])
async def test_fields_that_no_version_of_ours_wrote_hinder_no_restore_that_verify_promises(
    open_memory: Open, tmp_path: Path, how: Json
) -> None:
    collections = sound_collections()
    odd: dict[str, list[Document | bytes]] = {}
    for name, [document] in collections.items():
        later = {"later?": 1, "at": bson.DatetimeMS(-(2**60)), "says": {"more?": ["x"]}}
        if name.startswith("mem_"):
            later["changed"] = bson.DatetimeMS(2**60)
        odd[name] = [bson.encode(document | later).replace(b"r?\0", b"r\xce\0").replace(b"e?\0", b"e\xce\0")]
    first = write_backup(tmp_path / "first.dump", collections)
    file = write_backup(tmp_path / "odd.dump", odd)
    assert verify_file(file).memories == 1

    async with open_memory() as memory:
        await memory.ok("restore_backup", file=str(first))
        [there] = (await memory.ok("list_memories", filter={"scope": "ALL"}))["results"]
        await memory.ok("update_memory", memory_id=there["memory_id"], content="said since")
        await memory.ok("restore_backup", file=str(file), **how)
        texts = [one["text"] for one in (await memory.ok("list_memories", filter={"scope": "ALL"}))["results"]]
        assert sorted(texts) == {
            "replace": [SECRET_TEXT], "merge": ["said since"], None: sorted([SECRET_TEXT, "said since"])
        }[how.get("mode")]  # fmt: skip
        assert (await memory.ok("health_check"))["healthy"]
