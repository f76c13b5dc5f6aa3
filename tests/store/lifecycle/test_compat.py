"""What 0.1.0 wrote opens for ever: its backup, its database, and both answer as they did then.

`tests/data/compat/README.md` says where the data is from.
"""

from __future__ import annotations

import gzip
import json
import math
from typing import Any

import bson
import pymongo
import pytest

from tests.mongo_server import fresh_database
from tests.processes import ROOT
from tests.store.lifecycle.conftest import Json, Memory, Open

FOLDER = ROOT / "tests" / "data" / "compat" / "0.1.0"
ZONE = {"time.zone": "Europe/Berlin"}  # in which the answers were given
CONFIDENCE_TOLERANCE = 0.1
"""Confidence is a property of the ranking, which may become better; which memories are found, and in which order, stays."""

RECORDED: Json = json.loads((FOLDER / "answers.json").read_text("utf-8"))


def assert_contains(reply: Any, recorded: Any, path: str = "reply") -> None:
    """Assert that every recorded value is there; fields that later versions add may stand beside them."""
    if isinstance(recorded, dict):
        assert isinstance(reply, dict), path
        for name, value in recorded.items():
            assert name in reply, f"{path}.{name} is missing"
            assert_contains(reply[name], value, f"{path}.{name}")
    elif isinstance(recorded, list):
        assert isinstance(reply, list), path
        assert len(reply) == len(recorded), f"{path}: {reply} instead of {recorded}"
        for index, (item, value) in enumerate(zip(reply, recorded, strict=True)):
            assert_contains(item, value, f"{path}[{index}]")
    elif path.endswith(".confidence") and isinstance(recorded, float):
        assert math.isclose(reply, recorded, abs_tol=CONFIDENCE_TOLERANCE), f"{path}: {reply} instead of {recorded}"
    else:
        assert reply == recorded, f"{path}: {reply!r} instead of {recorded!r}"


async def assert_answers_as_then(memory: Memory) -> None:
    """Ask all ten questions."""
    assert len(RECORDED["answers"]) == 10
    for recorded in RECORDED["answers"]:
        request = dict(recorded["request"])
        reply = await memory.ask(request.pop("action"), **request)
        assert_contains(reply, recorded["reply"], json.dumps(recorded["request"], ensure_ascii=False))


def load_collections(uri: str, database: str) -> None:
    """Put the collections of 0.1.0 into a database of this server, document by document as they were."""
    client: pymongo.MongoClient[Json] = pymongo.MongoClient(uri)
    with client:
        for file in sorted((FOLDER / "collections").iterdir()):
            documents = bson.decode_all(gzip.decompress(file.read_bytes()))
            collection = client[database].create_collection(file.name.removesuffix(".bson.gz"))
            if documents:
                collection.insert_many(documents)


async def test_a_backup_of_0_1_0_restores_into_a_new_home(open_memory: Open) -> None:
    async with open_memory("home", ZONE) as memory:
        verified = await memory.ok("verify_backup", file=str(FOLDER / "backup.dump"))
        assert (verified["whole"], verified["counts"]["scopes"]) == (True, 7)
        await memory.ok("restore_backup", file=str(FOLDER / "backup.dump"))
        await assert_answers_as_then(memory)


async def test_a_database_of_0_1_0_is_started_over(open_memory: Open, mongo_uri: str) -> None:
    database = fresh_database()

    load_collections(mongo_uri, database)
    async with open_memory("home", ZONE | {"mongodb.database": database}) as memory:
        await assert_answers_as_then(memory)
        backup = await memory.ok("backup_memory")
    async with open_memory("copy", ZONE) as memory:  # and what is backed up from there today is the same memory
        await memory.ok("restore_backup", file=backup["path"])
        await assert_answers_as_then(memory)


@pytest.mark.parametrize("mode", ["merge", "replace"])
async def test_a_backup_of_0_1_0_restores_over_existing_memories(open_memory: Open, mode: str) -> None:
    async with open_memory("home", ZONE) as memory:
        hard = next(answer for answer in RECORDED["answers"] if answer["request"]["action"] == "get_memory")
        await memory.store("something of today", "Today")
        await memory.ok("restore_backup", file=str(FOLDER / "backup.dump"), mode=mode)
        reply = await memory.ok("get_memory", memory_id=hard["request"]["memory_id"])
        assert_contains(reply, hard["reply"])
        scopes = {scope["scope_name"] for scope in (await memory.ok("list_memory_scopes"))["scopes"]}
        assert ("Today" in scopes) == (mode == "merge")
