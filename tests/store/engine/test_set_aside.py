"""Documents that another program wrote: the start works, the bad ones are set aside and named, everything else works."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from bson import Int64, ObjectId
from bson.datetime_ms import DatetimeMS
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from infinite_memory.store.document_fields import DocumentKind
from infinite_memory.store.mongo.drivers import close_client, make_client
from tests.documents import MISSING, Spoiling, sound_document, sound_memory, spoilings
from tests.store.lifecycle.conftest import Json, Memory, Open

LONG = bool(os.environ.get("INFINITE_MEMORY_TEST_LONG"))

COLLECTIONS = {
    DocumentKind.SCOPE: "scopes", DocumentKind.REVISION: "revisions", DocumentKind.FACT: "facts",
    DocumentKind.LINK: "links", DocumentKind.USE: "uses", DocumentKind.AGENT: "agents", DocumentKind.TOKEN: "tokens",
    DocumentKind.META: "meta",
}  # fmt: skip


@contextlib.asynccontextmanager
async def raw_database(memory: Memory) -> AsyncIterator[Any]:
    """Give the memory's database as another program sees it."""
    settings_ = memory.app.config.mongodb
    client = make_client("pymongo", str(settings_.uri), {})
    try:
        yield client[settings_.database]
    finally:
        await close_client(client)


async def collection_of(memory: Memory, scope: str = "Global") -> str:
    """Name the collection of a scope."""
    return f"mem_{(await memory.engine.scopes.get(scope)).scope_id}"


async def named(memory: Memory) -> dict[str, list[str]]:
    """Return the ids of what is set aside, each with its fields, as `health_check` tells them."""
    health = await memory.ok("health_check")
    assert health["checks"]["mongodb"] == health["checks"]["sidecar"] == "ok"
    return {one["id"]: [fault["field"] for fault in one["faults"]] for one in health["set_aside"]}


async def use_everything(memory: Memory, good: str) -> None:
    """Use every path that reads documents; whatever is set aside, the sound memory *good* is found by each."""
    found: Json = await memory.ok("retrieve_memory", query="the boiler in the cellar", scope="ALL", top_k=50)
    assert good in [one["memory_id"] for one in found["results"]]
    for action, fields in {
        "list_memories": {"scope": "ALL"},
        "search_by_tag": {"tag": "heat"},
        "search_by_scope": {"scope": "Global"},
        "recall_memory_by_time": {"range": {"from": "2000-01-01"}, "scope": "ALL"},
    }.items():
        listed = await memory.ok(action, **fields, limit=1000)
        assert good in [one["memory_id"] for one in listed["results"]], action
    await memory.ok("get_memory", memory_id=good)
    await memory.ok("list_memory_scopes")
    stored = await memory.store("something new is stored")
    await memory.ok("update_memory", memory_id=stored, content="something else")
    await memory.ok("delete_memory", target={"memory_id": stored}, forget_mode="hard")
    await memory.ok("optimize_memory", operations=["check_sidecar", "purge_deleted", "compact"])


async def level(memory: Memory) -> None:
    """Wait until the index and its words have read everything."""
    async with asyncio.timeout(60):
        while memory.services.index.words_state != "ready":
            await asyncio.sleep(0.05)


CASES: dict[str, tuple[str, Any]] = {
    "no text": ("text", MISSING),
    "a text that is a number": ("text", 5),
    "a text in a list": ("text", ["x"]),
    "a revision as text": ("revision", "3"),
    "a revision that cannot rise": ("revision", Int64(2**63 - 1)),
    "tags as integers": ("tags", [1, 2]),
    "tags that are no list": ("tags", "tea"),
    "tag keys as integers": ("tag_keys", [1]),
    "importance that is no number": ("importance", float("nan")),
    "importance without end": ("importance", float("inf")),
    "a date beyond the year 9999": ("occurred_at", DatetimeMS(2**60)),
    "a date before the year 1": ("created_at", DatetimeMS(-(2**60))),
    "a date as text": ("updated_at", "2026-01-01T00:00:00Z"),
    "live as text": ("live", "yes"),
    "live in a list": ("live", [True]),
    "live not said": ("live", MISSING),
    "owners that are numbers": ("owners", {"user_id": 5}),
    "metadata without end": ("metadata", {"a": float("inf")}),
    "metadata that is a list": ("metadata", []),
    "an id that is a text": ("_id", "not an id of ours"),
    "an id that is an object": ("_id", {"a": 1}),
    "a source that is nothing": ("source", None),
    "a speaker that is an object": ("speaker", {"$gt": ""}),
}


def spoiled(case: tuple[str, Any]) -> dict[str, Any]:
    """Build the memory of a case."""
    document = sound_memory(text="a spoiled memory of the boiler") | {case[0]: case[1]}
    return {name: value for name, value in document.items() if value is not MISSING}


async def test_a_start_sets_aside_what_another_program_wrote_and_all_else_works(
    open_memory: Open, tmp_path: Path
) -> None:
    documents = {name: spoiled(case) for name, case in CASES.items()}

    async with asyncio.timeout(180):
        async with open_memory() as memory:
            good = await memory.store("the boiler is in the cellar", tags=["heat"])
        async with open_memory() as memory:
            async with raw_database(memory) as database:
                await database[await collection_of(memory)].insert_many(documents.values())
            # Live: the change feed brings them.
            async with asyncio.timeout(30):
                while len(await named(memory)) < len(documents):
                    await asyncio.sleep(0.1)
            await use_everything(memory, good)
        for is_saved in (True, False):
            if not is_saved:
                shutil.rmtree(tmp_path / "home" / "sidecars")
            async with open_memory() as memory:
                await level(memory)
                found = await named(memory)
                for case, document in documents.items():
                    key = document["_id"]
                    shown = f"of type {type(key).__name__}" if isinstance(key, dict) else str(key)
                    field = CASES[case][0]
                    assert any(one.split("[")[0] == field for one in found[shown]), (case, found)
                assert len(found) == len(documents)
                await use_everything(memory, good)
                stats = (await memory.ok("get_memory_stats"))["stats"]
                assert (stats["total_memories"], stats["sidecar"]["count"], stats["set_aside"]) == (1, 1, len(found))
                text = await memory.ok("list_memories", scope="ALL", limit=100)
                assert "spoiled" not in str(text)


async def test_a_mended_memory_comes_back_live(open_memory: Open) -> None:
    async with open_memory() as memory:
        key = await memory.store("Ada drinks tea")
        async with raw_database(memory) as database:
            memories = database[await collection_of(memory)]
            await memories.update_one({"_id": ObjectId(key)}, {"$set": {"text": 5}})
            async with asyncio.timeout(30):
                while key not in await named(memory):
                    await asyncio.sleep(0.05)
            found = await memory.ok("retrieve_memory", query="Ada drinks tea")
            assert found["results"] == []
            assert (await memory.ask("get_memory", memory_id=key))["error_code"] == "NOT_FOUND"
            await memories.update_one({"_id": ObjectId(key)}, {"$set": {"text": "Ada drinks tea"}})
            async with asyncio.timeout(30):
                while not (await memory.ok("retrieve_memory", query="Ada drinks tea"))["results"]:
                    await asyncio.sleep(0.05)
        assert await named(memory) == {}


async def test_a_broken_vector_is_made_again(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.services.embeddings.ready()
        key = await memory.store("Ada drinks tea")
        async with raw_database(memory) as database:
            memories = database[await collection_of(memory)]
            change = {"$set": {"embedding.vectors": b"abc"}, "$inc": {"revision": 1}}
            await memories.update_one({"_id": ObjectId(key)}, change)
            async with asyncio.timeout(30):
                while len((await memories.find_one({"_id": ObjectId(key)}))["embedding"]["vectors"]) == 3:
                    await asyncio.sleep(0.1)
        found = await memory.ok("retrieve_memory", query="Ada drinks tea")
        assert [one["memory_id"] for one in found["results"]] == [key]
        assert await named(memory) == {}


SCOPES = {
    "no description": {"description": MISSING},
    "a name that is a number": {"name": 5},
    "no name and no key": {"name": MISSING, "name_key": MISSING},
    "a date that is a text": {"created_at": "today"},
}


@pytest.mark.parametrize("change", SCOPES.values(), ids=SCOPES)
async def test_a_bad_scope_hides_its_own_memories_alone_until_it_is_mended(open_memory: Open, change: Json) -> None:
    async with asyncio.timeout(180):
        async with open_memory() as memory:
            good = await memory.store("the boiler is in the cellar", tags=["heat"])
            hidden = await memory.store("the harvest begins in May", scope="Work")
            [work] = [one for one in memory.services.scopes.all() if one.name == "Work"]
            async with raw_database(memory) as database:
                gone = {"$unset": {name: "" for name, value in change.items() if value is MISSING}}
                put = {"$set": {name: value for name, value in change.items() if value is not MISSING}}
                update = {name: fields for name, fields in (gone | put).items() if fields}
                await database["scopes"].update_one({"_id": ObjectId(work.scope_id)}, update)
            async with asyncio.timeout(30):
                while work.scope_id not in await named(memory):
                    await asyncio.sleep(0.05)
        for attempt in (1, 2):
            async with open_memory() as memory:
                await use_everything(memory, good)
                assert list(await named(memory)) == [work.scope_id]
                found = await memory.ok("retrieve_memory", query="harvest in May", scope="ALL")
                assert hidden not in [one["memory_id"] for one in found["results"]]
                assert (await memory.ask("get_memory", memory_id=hidden))["error_code"] == "NOT_FOUND"
                if attempt == 2:
                    done = await memory.ok("repair_documents", mend=True, dry_run=False)
                    assert done["mended"] == 1
                    found = await memory.ok("retrieve_memory", query="harvest in May", scope="ALL")
                    assert hidden in [one["memory_id"] for one in found["results"]]
                    assert await named(memory) == {}


async def test_a_spoiled_global_is_read_as_mended(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("the boiler is in the cellar", tags=["heat"])
        async with raw_database(memory) as database:
            await database["scopes"].update_one({"name": "Global"}, {"$unset": {"description": ""}})
    async with open_memory() as memory:
        assert len(await named(memory)) == 1
        good = await memory.store("another boiler is in the cellar", tags=["heat"])
        await use_everything(memory, good)


async def test_spoiled_meta_and_duplicate_scopes_stop_no_start(open_memory: Open) -> None:
    async with open_memory() as memory:
        good = await memory.store("the boiler is in the cellar", tags=["heat"])
        async with raw_database(memory) as database:
            await database["meta"].update_one({"_id": "schema"}, {"$set": {"version": "one"}})
            await database["meta"].update_one({"_id": "identity"}, {"$set": {"value": 5}})
            await database["meta"].insert_many(
                [
                    {"_id": "restore.x", "state": "committing"},
                    {
                        "_id": f"restore.{ObjectId()}",
                        "state": "committing",
                        "at": dt.datetime.now(dt.UTC),
                        "steps": [5],
                    },
                    {"_id": "value.job.other", "value": {"done_until": "x"}},
                    {"_id": "value.last_backup", "value": 5},
                    {"_id": "lease.job.x", "holder": 5, "until": "x"},
                    {"_id": 5},
                ]
            )
            await database["scopes"].drop_indexes()
            copy = await database["scopes"].find_one({"name": "Global"})
            await database["scopes"].insert_one(copy | {"_id": ObjectId(), "created_at": dt.datetime(2100, 1, 1)})
    async with open_memory() as memory:
        await use_everything(memory, good)
        found = await named(memory)
        assert {
            "schema",
            "identity",
            "restore.x",
            "value.job.other",
            "value.last_backup",
            "lease.job.x",
        } <= found.keys()
        assert len(found) == 9
        done = await memory.ok("repair_documents", mend=True, remove=True, dry_run=False)
        assert done["left"] == 0
        assert await named(memory) == {}
    async with open_memory() as memory:
        await use_everything(memory, good)


async def test_a_spoiled_journal_of_a_restore_stops_no_backup(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("the boiler is in the cellar")
        async with raw_database(memory) as database:
            await database["meta"].insert_one({"_id": "restore.zz", "state": "committing", "steps": 5})
        await memory.ok("backup_memory")
    async with open_memory() as memory:
        assert "restore.zz" in await named(memory)
        backup = await memory.ok("backup_memory")
        await memory.ok("restore_backup", file=backup["path"], mode="replace")


async def test_history_links_and_facts_leave_out_what_cannot_be_read(open_memory: Open) -> None:
    async with open_memory() as memory:
        good = await memory.store("the boiler is in the cellar", tags=["heat"])
        await memory.ok("update_memory", memory_id=good, content="the boiler is in the attic")
        engine = memory.engine
        await engine.graph.assert_fact("Global", "boiler", "made by", "Viessmann")
        [scope] = memory.services.scopes.all()
        async with raw_database(memory) as database:
            for kind, change in (
                (DocumentKind.REVISION, {"memory_id": ObjectId(good), "revision": "x"}),
                (DocumentKind.REVISION, {"memory_id": ObjectId(good), "document": {"text": "x"}}),
                (DocumentKind.LINK, {"from_id": ObjectId(good), "relation": 5}),
                (DocumentKind.FACT, {"subject": "boiler", "subject_key": "boiler", "object": 5}),
                (DocumentKind.FACT, {"subject": "boiler", "subject_key": "boiler", "predicate_key": "made by",
                                     "active": 1, "valid_from": "x"}),
                (DocumentKind.USE, {"count": "x"}),
            ):  # fmt: skip
                document = sound_document(kind, ObjectId(scope.scope_id)) | change
                await database[COLLECTIONS[kind]].insert_one(document)
        assert len((await memory.ok("get_memory", memory_id=good))["revisions"]) == 1
        assert [one.text for one in (await engine.memories.history(good)).revisions] == ["the boiler is in the cellar"]  # type: ignore[arg-type]
        assert await engine.graph.get_links(good) == []  # type: ignore[arg-type]
        assert [one.object for one in await engine.graph.get_facts("Global", "boiler")] == ["Viessmann"]
        await engine.graph.assert_fact("Global", "boiler", "made by", "Buderus")
        assert [one.object for one in await engine.graph.get_facts("Global", "boiler")] == ["Buderus"]
        assert await memory.services.store.uses.of_scope(scope.scope_id) == {}
        assert len(await named(memory)) == 6
        assert await engine.graph.count_facts() == 1
        await memory.ok("backup_memory")
        await memory.ok("export_memory", include_deleted=True)


async def test_repair_tells_first_and_then_exports_mends_and_removes(open_memory: Open) -> None:
    async with open_memory() as memory:
        good = await memory.store("the boiler is in the cellar", tags=["heat"])
        mendable = spoiled(("tag_keys", 5)) | {"source": 5}
        foreign = spoiled(("_id", "x" * 12))
        lost = spoiled(("text", MISSING))
        async with raw_database(memory) as database:
            memories = database[await collection_of(memory)]
            await memories.insert_many([mendable, foreign, lost])
            before = await memories.find({}).sort("_id", 1).to_list(None)
            told = await memory.ok("repair_documents", mend=True, remove=True, export=True)
            assert (told["mended"], told["removed"], told["dry_run"]) == (2, 1, True)
            assert len(told["exported"]) == 3
            assert await memories.find({}).sort("_id", 1).to_list(None) == before
            assert (await memory.ask("repair_documents", dry_run=False))["error_code"] == "INVALID_REQUEST"
            done = await memory.ok("repair_documents", mend=True, dry_run=False)
            assert (done["mended"], done["left"]) == (2, 1)
            found = await memory.ok("search_by_tag", tag="tea")
            assert found["total"] == 2
            done = await memory.ok("repair_documents", remove=True, dry_run=False)
            assert done["removed"] == 1
            assert await memories.find_one({"_id": lost["_id"]}) is None
        assert await named(memory) == {}
        await use_everything(memory, good)


@pytest.mark.timeout(3600 if LONG else 300)
@settings(
    max_examples=17 if LONG else 2,
    deadline=None,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(
    st.lists(
        st.sampled_from(DocumentKind).flatmap(spoilings),
        min_size=120 if LONG else 40,
        max_size=120 if LONG else 40,
    )
)
async def test_whatever_another_program_makes_of_documents_the_memory_starts_and_works(
    make_open: Any, tmp_path_factory: pytest.TempPathFactory, changes: list[Spoiling]
) -> None:
    """Many changed documents a start: each is set aside by its name, or harmless; everything else works, live and after a start."""
    open_memory = make_open(tmp_path_factory.mktemp("spoiled"))

    async with asyncio.timeout(1200):
        async with open_memory() as memory:
            good = await memory.store("the boiler is in the cellar", tags=["heat"])
            [scope] = memory.services.scopes.all()
            async with raw_database(memory) as database:
                for change in changes:
                    document = change.apply(sound_document(change.kind, ObjectId(scope.scope_id)))
                    name = COLLECTIONS.get(change.kind, f"mem_{scope.scope_id}")
                    with contextlib.suppress(Exception):  # what MongoDB itself refuses
                        await database[name].insert_one(document)
            await use_everything(memory, good)
        async with open_memory() as memory:
            await level(memory)
            await use_everything(memory, good)
            count = len(await named(memory))
            for one in memory.services.scopes.all():
                await memory.ok("list_memories", scope=one.name, limit=1000)
            await memory.ok("backup_memory")
            await memory.ok("export_memory", include_deleted=True)
            told = await memory.ok("repair_documents", mend=True, remove=True, limit=1000)
            assert count <= len(told["documents"])
            done = await memory.ok("repair_documents", mend=True, remove=True, dry_run=False, limit=1000)
            assert done["left"] == 0
            assert await named(memory) == {}
            await use_everything(memory, good)
        async with open_memory() as memory:
            assert await named(memory) == {}
            await use_everything(memory, good)
