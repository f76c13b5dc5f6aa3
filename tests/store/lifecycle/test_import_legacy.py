"""The MongoDB database of an older InfiniteMemoryMCP comes in: by URI and name, once, with a report of what was left out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pymongo
import pytest
from bson import ObjectId

from infinite_memory.errors import InvalidRequestError
from infinite_memory.store.mongo.legacy_mongodb import check_hosts
from tests.mongo_server import fresh_database
from tests.store.lifecycle.conftest import Memory, Open

# The documents have the shapes that the older product's documentation and code describe (its collections by either spelling).

MADE_AT = dt.datetime(2025, 5, 3, 10, 0, tzinfo=dt.UTC)


@pytest.fixture
def older(mongo_uri: str) -> Iterator[pymongo.database.Database[dict[str, Any]]]:
    """A database for an older product's documents."""
    with pymongo.MongoClient(mongo_uri) as client:
        database: pymongo.database.Database[dict[str, Any]] = client[fresh_database()]
        yield database
        client.drop_database(database.name)


def made_at(minutes: int) -> ObjectId:
    """Make an id as MongoDB makes it at an instant."""
    return ObjectId.from_datetime(MADE_AT + dt.timedelta(minutes=minutes))


def fill(database: pymongo.database.Database[dict[str, Any]]) -> dict[str, Any]:
    """Write what an older product keeps."""
    naive = (MADE_AT + dt.timedelta(minutes=1, hours=2, milliseconds=250)).replace(tzinfo=None)  # a clock in UTC+2
    messages = [
        {"_id": made_at(1), "text": "My favorite color is blue", "speaker": "user", "conversation_id": "c-1",
         "scope": "Personal", "tags": ["preferences", "colors"], "timestamp": naive, "embedding": [0.1] * 384},
        {"_id": made_at(2), "text": "Noted: blue.", "speaker": "assistant", "conversation_id": "c-1", "scope": "Personal",
         "tags": [], "timestamp": MADE_AT + dt.timedelta(minutes=2)},
        {"_id": "3f0c-own", "text": "Der Schlüssel hängt am Brett — 鍵", "speaker": "user", "scope": "Global",
         "timestamp": dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)},
        {"_id": made_at(4), "text": "  ", "speaker": "user", "scope": "Personal"},
        {"_id": made_at(5), "speaker": "user"},
    ]  # fmt: skip
    database["conversation_history"].insert_many(messages)
    database["summaries"].insert_one(
        {"_id": made_at(6), "conversation_id": "c-1", "summary_text": "They spoke of colours.", "scope": "Personal",
         "message_refs": [made_at(1)], "time_range": {"from": MADE_AT, "to": MADE_AT}, "tags": ["summary"]}
    )  # fmt: skip
    database["user_profile"].insert_many(
        [
            {"_id": "default_user", "name": "Jane Doe", "preferences": {"tone": "casual"},
             "facts": {"favorite_color": "blue", "pets": ["cat", "dog"]},
             "contacts": [{"name": "Alice", "relation": "sister"}], "notes": ["allergic to penicillin"]},
            {"_id": made_at(7), "user_id": "jane", "key": "home_city", "value": "Oslo", "category": "facts"},
        ]
    )  # fmt: skip
    database["memory_index"].insert_one({"source_id": str(made_at(1)), "embedding": [0.1] * 384})
    database["metadata"].insert_many(
        [
            {"type": "scope", "scope_name": "Personal", "description": "about me", "created_at": MADE_AT},
            {"type": "scope", "scope_name": "Empty", "description": "", "created_at": MADE_AT},
            {"type": "settings", "theme": "dark"},
        ]
    )
    database["plugins"].insert_one({"name": "x"})
    return {"blue": str(made_at(1)), "summary": str(made_at(6))}


async def texts(memory: Memory) -> list[str]:
    """List the texts of all memories."""
    listed = await memory.ok("list_memories", filter={"scope": "ALL"}, limit=100)
    return sorted(one["text"] for one in listed["results"])


async def test_an_older_database_comes_in_once(
    open_memory: Open, mongo_uri: str, older: pymongo.database.Database[dict[str, Any]]
) -> None:
    ids = fill(older)

    async with open_memory() as memory:
        where = {"mongodb_uri": mongo_uri, "database": older.name}
        promised = await memory.ok("import_memory", **where, dry_run=True)
        assert await texts(memory) == []
        done = await memory.ok("import_memory", **where)
        assert promised == done | {"dry_run": True}
        assert (done["format"], done["added"], done["skipped"]) == ("infinite-memory-mcp", 11, 4)
        assert done["also_added"] == {"scopes": 2}
        reasons = {one["entry"]: one["why"] for one in done["skipped_entries"]}
        assert reasons["1 document of memory_index"] == "are made anew"
        assert reasons["1 document of plugins"] == "are of no kind that is known"
        assert sorted(await texts(memory)) == sorted(
            [
                "My favorite color is blue", "Noted: blue.", "Der Schlüssel hängt am Brett — 鍵",
                "They spoke of colours.", "name: Jane Doe", "tone: casual", "favorite color: blue", "pets: cat, dog",
                "contacts 1: name Alice, relation sister", "allergic to penicillin", "home city: Oslo",
            ]
        )  # fmt: skip
        blue = (await memory.ok("get_memory", memory_id=ids["blue"]))["memory"]
        kept = ("scope", "tags", "speaker", "conversation_id", "timestamp", "source")
        assert [blue[name] for name in kept] == [
            "Personal", ["preferences", "colors"], "user", "c-1", "2025-05-03T10:01:00.250Z", "conversation",
        ]  # fmt: skip
        summary = (await memory.ok("get_memory", memory_id=ids["summary"]))["memory"]
        assert (summary["source"], summary["metadata"]["message_refs"]) == ("summary", [ids["blue"]])
        again = await memory.ok("import_memory", **where)
        assert (again["added"], again["present"], again.get("also_added")) == (0, 11, None)
        near = await memory.ok("retrieve_memory", query="what is my favorite color?", scope="Personal", top_k=1)
        assert near["results"][0]["memory_id"] == ids["blue"]
        named = {one["scope_name"]: one["description"] for one in (await memory.ok("list_memory_scopes"))["scopes"]}
        assert named["Personal"] == "about me"


async def test_the_spelling_of_the_documentation_is_known_too(
    open_memory: Open, mongo_uri: str, older: pymongo.database.Database[dict[str, Any]]
) -> None:
    older["ConversationHistory"].insert_one({"text": "tea at five", "scope": "Work"})
    older["metadata_scopes"].insert_one({"type": "scope", "scope_name": "Work"})

    async with open_memory() as memory:
        done = await memory.ok("import_memory", mongodb_uri=mongo_uri, database=older.name, scope="Old things")
        assert done["added"] == 1
        assert [one["text"] for one in (await memory.ok("search_by_scope", scope="Old things"))["results"]] == [
            "tea at five"
        ]


async def test_collections_that_differ_only_in_their_spelling_are_all_read(
    open_memory: Open, mongo_uri: str, older: pymongo.database.Database[dict[str, Any]]
) -> None:
    older["ConversationHistory"].insert_one({"text": "tea at five"})
    older["conversation_history"].insert_one({"text": "coffee at nine"})

    async with open_memory() as memory:
        assert (await memory.ok("import_memory", mongodb_uri=mongo_uri, database=older.name))["added"] == 2
        assert await texts(memory) == ["coffee at nine", "tea at five"]


@pytest.mark.parametrize(
    ("uri", "database", "said"),
    [
        ("http://nowhere", "x", "is no URI"),
        ("mongodb://user:geheim@127.0.0.1:1/?serverSelectionTimeoutMS=200", "x", "cannot be reached"),
        ("mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200", None, "name the database"),
    ],
)
async def test_what_cannot_be_reached_is_said_and_no_password_shown(
    open_memory: Open, uri: str, database: str | None, said: str
) -> None:
    async with open_memory() as memory:
        refused = await memory.ask("import_memory", mongodb_uri=uri, database=database)
        assert refused["error_code"] == "INVALID_REQUEST"
        assert said in refused["error"]
        assert "geheim" not in refused["error"]


async def test_another_programs_database_is_refused_by_what_it_holds(
    open_memory: Open, mongo_uri: str, older: pymongo.database.Database[dict[str, Any]]
) -> None:
    older["orders"].insert_one({"sum": 5})

    async with open_memory() as memory:
        refused = await memory.ask("import_memory", mongodb_uri=mongo_uri, database=older.name)
        assert "orders" in refused["error"]
        both = await memory.ask("import_memory", mongodb_uri=mongo_uri, path="/tmp")
        assert both["error_code"] == "INVALID_REQUEST"


@pytest.mark.parametrize(
    "uri",
    [
        "mongodb://db.example.org/x",
        "mongodb://127.0.0.1,db.example.org:27017/x",
        "mongodb://127.0.0.1@db.example.org/x",
        "mongodb+srv://db.example.org/x",
        "mongodb://[2001:db8::1]:27017/x",
    ],
)
def test_an_import_reaches_no_other_machine_that_is_not_allowed(uri: str) -> None:
    with pytest.raises(InvalidRequestError, match="import_hosts") as raised:
        check_hosts(uri, "mongodb://127.0.0.1:27017", "")
    assert raised.value.field == "mongodb_uri"
    check_hosts(uri, None, "DB.example.org, 2001:db8::1")
    check_hosts(uri, uri, "")


def test_this_machine_is_always_allowed() -> None:
    for uri in ("mongodb://localhost/x", "mongodb://a:b@[::1]:1/x", "mongodb://%2Ftmp%2Fmongodb-27017.sock/x"):
        check_hosts(uri, None, "")
