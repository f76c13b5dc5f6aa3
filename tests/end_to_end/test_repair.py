"""`infinite-memory repair` and `doctor` on a database into which another program wrote."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from bson import ObjectId, json_util
from pymongo import MongoClient

from tests.documents import sound_memory
from tests.mongo_server import fresh_database, shared_mongo
from tests.processes import Installation, need_parts, until


def test_documents_that_cannot_be_read_are_named_exported_mended_and_removed(tmp_path: Path) -> None:
    need_parts()
    uri, database = shared_mongo().uri, fresh_database()
    environ = {"INFINITE_MEMORY_MONGODB__URI": uri, "INFINITE_MEMORY_MONGODB__DATABASE": database}
    with MongoClient(uri) as client, Installation(tmp_path / "home", environ) as home:
        good = home.call("store_memory", content="the boiler is in the cellar")["memory_id"]
        scope = client[database]["scopes"].find_one({"name": "Global"})
        assert scope is not None
        memories = client[database][f"mem_{scope['_id']}"]
        mendable, lost = sound_memory() | {"revision": "3"}, sound_memory() | {"text": 5}
        memories.insert_many([mendable, lost])

        until(lambda: len(home.call("health_check").get("set_aside", [])) == 2, "the daemon reads what was written")
        doctor = home.command("doctor", "--json")
        [documents] = [one for one in json.loads(doctor.stdout)["checks"] if one["check"] == "documents"]
        assert not documents["ok"]
        for key, field in ((mendable["_id"], "revision"), (lost["_id"], "text")):
            assert f"{memories.name} {key} ({field})" in documents["says"]

        listed = home.command("repair").stdout
        assert f"{mendable['_id']}: revision: " in listed and "2 documents cannot be read" in listed
        assert listed.count("can be mended") == 2 and listed.count("cannot be mended") == 2  # a line each, and the sums
        told = home.command("repair", "--mend", "--remove", "--export", str(tmp_path / "documents.jsonl"))
        assert told.returncode == 1, told.stderr
        assert "nothing was changed" in told.stdout
        assert memories.count_documents({}) == 3
        assert stat.S_IMODE((tmp_path / "documents.jsonl").stat().st_mode) == 0o600
        exported = [json_util.loads(line) for line in (tmp_path / "documents.jsonl").read_text().splitlines()]
        assert {one["document"]["_id"] for one in exported} == {mendable["_id"], lost["_id"]}
        assert (
            home.command("repair", "--export", str(tmp_path / "documents.jsonl")).returncode == 1
        )  # never overwritten
        assert home.command("repair", "--yes").returncode == 2

        mended = json.loads(home.command("repair", "--mend", "--yes", "--json").stdout)
        assert (mended["mended"], mended["left"]) == (1, 1)
        removed = home.command("repair", "--remove", "--yes")
        assert removed.returncode == 0, removed.stdout
        assert {one["_id"] for one in memories.find()} == {mendable["_id"], ObjectId(good)}
        assert home.command("repair").stdout == "every document can be read\n"
        found = home.call("retrieve_memory", query="Ada drinks tea")
        assert str(mendable["_id"]) in [one["memory_id"] for one in found["results"]]
