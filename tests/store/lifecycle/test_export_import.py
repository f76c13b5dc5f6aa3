"""Out and in again: our own exports, and what other memories and assistants export. Importing twice adds nothing."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from infinite_memory.models import Fact, FactId, Link, MemoryId, ScopeId
from tests.store.lifecycle.conftest import Json, Memory, Open

# The shapes below are those of the programs' own files, as their documentation and source describe them in 2025.


def write_json(path: Path, value: object) -> Path:
    """Write a JSON file."""
    path.write_text(json.dumps(value), "utf-8")
    return path


def server_memory(folder: Path) -> Path:
    """memory.jsonl of the MCP server-memory."""
    lines = [
        {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["likes tea", "Ada plays chess"]},
        {"type": "entity", "name": "Chess Club", "entityType": "group", "observations": []},
        {"type": "relation", "from": "Ada", "to": "Chess Club", "relationType": "founded"},
    ]
    file = folder / "memory.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)) + "\nnot json\n", "utf-8")
    return file


SERVICE = {
    "content": "the router is in the cellar", "content_hash": "ab12", "tags": ["house"], "memory_type": "note",
    "metadata": {"origin": "phone"}, "created_at": 1700000000.5, "created_at_iso": "2023-11-14T22:13:20.500Z",
}  # fmt: skip


def service_export(folder: Path) -> Path:
    """JSON export of mcp-memory-service."""
    return write_json(
        folder / "export.json", {"export_metadata": {"version": "1"}, "memories": [SERVICE, {"content": ""}]}
    )


def service_database(folder: Path) -> Path:
    """SQLite file of mcp-memory-service."""
    file = folder / "sqlite_vec.db"
    with closing(sqlite3.connect(file)) as database:
        database.execute(
            "CREATE TABLE memories (id INTEGER PRIMARY KEY, content_hash TEXT, content TEXT, tags TEXT, memory_type TEXT,"
            " metadata TEXT, created_at REAL, updated_at REAL, created_at_iso TEXT, updated_at_iso TEXT, deleted_at REAL)"
        )
        row = ("ab12", SERVICE["content"], "house", "note", '{"origin": "phone"}', 1700000000.5)
        insert = "INSERT INTO memories (content_hash, content, tags, memory_type, metadata, created_at, deleted_at) "
        database.execute(f"{insert} VALUES (?, ?, ?, ?, ?, ?, NULL)", row)
        database.execute(f"{insert} VALUES ('cd', 'gone', '', '', '{{}}', 1, 2)")
        database.commit()
    return file


def mem0(folder: Path) -> Path:
    """JSON of Mem0."""
    one = {
        "id": "8f1c", "memory": "prefers trains", "user_id": "ada", "metadata": {"k": 1}, "categories": ["travel"],
        "created_at": "2024-07-20T01:30:36.275141-07:00",
    }  # fmt: skip
    return write_json(folder / "mem0.json", {"results": [one]})


def chatgpt(folder: Path) -> Path:
    """conversations.json of ChatGPT."""

    def node(key: str, role: str, text: str) -> Json:
        content = {"content_type": "text", "parts": [text]}
        return {
            "id": key,
            "message": {"id": key, "author": {"role": role}, "content": content, "create_time": 1700000001.0},
        }

    nodes = [
        node("m0", "system", ""),
        node("m1", "user", "how long do eggs boil?"),
        node("m2", "assistant", "six minutes"),
    ]
    mapping = {"root": {"id": "root", "message": None}} | {one["id"]: one for one in nodes}
    return write_json(
        folder / "conversations.json",
        [{"title": "Eggs", "create_time": 1700000000.0, "mapping": mapping, "conversation_id": "conv-1"}],
    )


def claude(folder: Path) -> Path:
    """conversations.json of Claude."""
    messages = [
        {"uuid": "u1", "text": "", "content": [{"type": "text", "text": "name my boat"}], "sender": "human",
         "created_at": "2024-05-01T10:00:00.000000Z"},
        {"uuid": "u2", "text": "Call it Petrel", "sender": "assistant", "created_at": "2024-05-01T10:00:05.000000Z"},
    ]  # fmt: skip
    return write_json(folder / "conversations.json", [{"uuid": "c1", "name": "Boat", "chat_messages": messages}])


def basic_memory(folder: Path) -> Path:
    """Folder of basic-memory."""
    notes = folder / "notes" / "garden"
    notes.mkdir(parents=True)
    (notes / "roses.md").write_text(
        "---\ntitle: Roses\ntype: note\npermalink: garden/roses\ntags:\n- plants\n- summer\n---\n\n# Roses\n\n- [care] water\n",
        "utf-8",
    )
    (notes / "empty.md").write_text("---\ntitle: Empty\n---\n", "utf-8")
    return folder / "notes"


def table(folder: Path) -> Path:
    """A table of one's own."""
    file = folder / "notes.csv"
    file.write_text("Content;Tags;Date;Shelf\nthe kettle whistles;kitchen, tea;2024-05-06;7\n;;2024-05-06;8\n", "utf-8")
    return file


CASES = [
    (table, "csv", 1, 1, "the kettle whistles"),
    (server_memory, "server-memory", 4, 1, "Ada: likes tea"),
    (service_export, "mcp-memory-service", 1, 1, "the router is in the cellar"),
    (service_database, "mcp-memory-service-sqlite", 1, 1, "the router is in the cellar"),
    (mem0, "mem0", 1, 0, "prefers trains"),
    (chatgpt, "chatgpt", 2, 0, "six minutes"),
    (claude, "claude", 2, 0, "name my boat"),
    (basic_memory, "basic-memory", 1, 1, "# Roses\n\n- [care] water"),
]


@pytest.mark.parametrize(("make", "form", "added", "skipped", "text"), CASES, ids=[case[1] for case in CASES])
async def test_what_others_export_comes_in_once(
    open_memory: Open, tmp_path: Path, make: Callable[[Path], Path], form: str, added: int, skipped: int, text: str
) -> None:
    path = str(make(tmp_path))

    async with open_memory() as memory:
        promised = await memory.ok("import_memory", path=path, dry_run=True)
        assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == 0
        first = await memory.ok("import_memory", path=path)
        again = await memory.ok("import_memory", path=path)
        assert (first["format"], first["added"], first["skipped"]) == (form, added, skipped)
        assert (promised["added"], promised["skipped"]) == (added, skipped)
        assert (again["added"], again["present"]) == (0, added)
        listed = await memory.ok("list_memories", filter={"scope": "ALL"})
        assert text in {one["text"] for one in listed["results"]}
        near = await memory.ok("retrieve_memory", query=text, top_k=1)
        assert near["results"][0]["text"] == text


async def test_times_speakers_and_conversations_come_along(open_memory: Open, tmp_path: Path) -> None:
    async with open_memory() as memory:
        await memory.ok("import_memory", path=str(claude(tmp_path)), scope="Boat talk")
        listed = await memory.ok("search_by_scope", scope="Boat talk")
        newest = listed["results"][0]
        assert (newest["speaker"], newest["timestamp"], newest["conversation_id"], newest["title"]) == (
            "assistant", "2024-05-01T10:00:05.000Z", "c1", "Boat",
        )  # fmt: skip


async def everything(memory: Memory) -> list[Json]:
    """List every memory with all that is known of it, in the order of ids."""
    listed = await memory.ok("list_memories", filter={"scope": "ALL"}, limit=100)
    return sorted(listed["results"], key=lambda one: str(one["memory_id"]))


async def some_memories(memory: Memory) -> None:
    """Store memories with everything that a memory can have."""
    await memory.store(
        "tea\nat *five*", "Work — 会議", tags=["a", "b c"], title="Tea", importance=3, speaker="Ada", k={"x.y": [1]}
    )
    await memory.store("> quoted\n# and a heading\n\n## 2026-01-01T00:00:00.000Z\n", timestamp="2020-02-29T12:00:00Z")
    await memory.store('comma, "quotes"\tand tabs', conversation_id="c1")


async def history(memory: Memory) -> Json:
    """Read what belongs to memories: versions, facts, links, scopes."""
    parts = memory.services
    listed = await memory.ok("list_memories", filter={"scope": "ALL"}, limit=100)
    ids = [one["memory_id"] for one in listed["results"]]
    versions = {one: (await memory.ok("get_memory", memory_id=one)).get("revisions") for one in ids}
    facts = [
        dataclasses.replace(one, scope_id=ScopeId(scope.name))
        for scope in parts.scopes.all()
        for one in await parts.store.facts.history(scope.scope_id, "Ada", "lives in")
    ]
    scopes = [(one.name, one.description, one.created_at, one.archived_at) for one in parts.scopes.all()]
    kept = sorted(one for one in scopes if one[0] != "Global")
    return {"versions": versions, "facts": facts, "links": await parts.store.links.of(ids), "scopes": kept}


async def some_history(memory: Memory) -> str:
    """Store what belongs to memories beside them; gives the id of one that is hidden."""
    parts = memory.services
    hidden = await memory.store("hidden")
    await memory.ok("delete_memory", target={"memory_id": hidden})
    changed = await memory.store("first", "Work — 会議", tags=["v1"])
    await memory.ok("update_memory", memory_id=changed, content="second", tags=["v2"])
    await memory.ok("update_memory", memory_id=changed, content="third")
    other = await memory.store("away", "Archive")
    await memory.ok("create_memory_scope", scope_name="Empty", description="nothing in it")
    await memory.ok("delete_memory", target={"scope": "Archive"})
    scope = await parts.scopes.get("Work — 会議")
    now = parts.clock()
    for place in ("Rome", "Oslo"):
        await parts.store.facts.put(
            Fact(FactId(""), scope.scope_id, "Ada", "lives in", place, now, provenance="a letter")
        )
    await parts.store.links.put(Link(MemoryId(changed), MemoryId(other), "follows", now), scope.scope_id)
    return hidden


async def test_our_own_lines_lose_nothing(open_memory: Open) -> None:
    async with open_memory("old") as old:
        await some_memories(old)
        hidden = await some_history(old)
        before = await everything(old), await history(old)
        written = await old.ok("export_memory", include_deleted=True)
    async with open_memory("new") as new:
        promised = await new.ok("import_memory", path=written["path"], dry_run=True)
        assert [one.name for one in new.services.scopes.all()] == ["Global"]
        done = await new.ok("import_memory", path=written["path"])
        assert (done["format"], done["added"], done["skipped"]) == ("infinite-memory", 6, 0)
        assert done["also_added"] == {"scopes": 3, "revisions": 2, "facts": 2, "links": 1}
        assert promised == done | {"dry_run": True}
        assert (await everything(new), await history(new)) == before
        await new.ok("restore_memory", memory_id=hidden)
        again = await new.ok("import_memory", path=written["path"])
        assert (again["added"], again["skipped"], again.get("also_added")) == (0, 0, None)
        changed = before[1]["links"][0].from_id
        await new.ok("update_memory", memory_id=changed, content="fourth")
        kept = (await new.ok("get_memory", memory_id=changed))["revisions"]
        assert [one["text"] for one in kept] == ["first", "second", "third"]


async def test_what_is_stored_with_odd_names_and_many_tags_comes_in_again(open_memory: Open) -> None:
    """Marks of direction are part of Hebrew and Arabic names; merged duplicates have more tags than one request may give."""

    async with open_memory("old") as old:
        odd = {"scope": "\u200fעברית", "tags": ["\u200fתג", "two\nlines", "a\0b"], "a\0b": {"c.d": 1}}
        await old.store("of odd names", **odd)
        for number in range(3):
            tags = [f"tag {number} {one}" for one in range(60)]
            await old.store("said again", "Many", tags=tags, timestamp=f"2024-01-0{number + 1}T08:00:00Z")
        await old.ok("optimize_memory", operations=["deduplicate"])
        written = await old.ok("export_memory")
    async with open_memory("new") as new:
        done = await new.ok("import_memory", path=written["path"])
        assert (done["added"], done["skipped"]) == (2, 0), done
        [found] = (await new.ok("list_memories", scope="\u200fעברית"))["results"]
        assert (found["tags"], found["metadata"]) == (odd["tags"], {"a\0b": {"c.d": 1}})
        [united] = (await new.ok("list_memories", scope="Many"))["results"]
        assert (len(united["tags"]), len(united["occurrences"])) == (180, 3)


async def test_of_two_facts_that_would_hold_in_one_place_the_second_is_named_as_left_out(open_memory: Open) -> None:
    async with open_memory("old") as old:
        parts = old.services
        for name, place in (("Ada at home", "Rome"), ("Ada at work", "Oslo")):
            await old.ok("create_memory_scope", scope_name=name)
            scope = await parts.scopes.get(name)
            await parts.store.facts.put(Fact(FactId(""), scope.scope_id, "Ada", "lives in", place, parts.clock()))
        written = await old.ok("export_memory")
    async with open_memory("new") as new:
        promised = await new.ok("import_memory", path=written["path"], scope="Both", dry_run=True)
        done = await new.ok("import_memory", path=written["path"], scope="Both")
        assert (done["also_added"], done["skipped"]) == ({"facts": 1}, 1)
        assert "something else holds" in done["skipped_entries"][0]["why"]
        assert promised == done | {"dry_run": True}
        scope = await new.services.scopes.get("Both")
        assert len(await new.services.store.facts.history(scope.scope_id, "Ada", "lives in")) == 1


@pytest.mark.parametrize("form", ["csv", "markdown"])
async def test_tags_with_commas_and_brackets_stay_what_they_are(open_memory: Open, form: str) -> None:
    tags = ["tea, green", "one,two", '=SUM("a","b")'], ["[draft]", "plain"], ['["a"]'], ["tea", "green"]

    async with open_memory("old") as old:
        ids = [await old.store(f"memory {number}", "Work", tags=some) for number, some in enumerate(tags)]
        written = await old.ok("export_memory", format=form)
    async with open_memory("new") as new:
        await new.ok("import_memory", path=written["path"])
        for memory_id, some in zip(ids, tags, strict=True):
            assert (await new.ok("get_memory", memory_id=memory_id))["memory"]["tags"] == some


@pytest.mark.parametrize("form", ["csv", "markdown"])
async def test_other_forms_keep_texts_tags_and_times(open_memory: Open, form: str) -> None:
    async with open_memory("old") as old:
        await some_memories(old)
        before = await everything(old)
        written = await old.ok("export_memory", format=form)
    async with open_memory("new") as new:
        done = await new.ok("import_memory", path=written["path"])
        assert (done["format"], done["added"], done["skipped"]) == (form, 3, 0)
        kept = ("memory_id", "text", "tags", "timestamp", "scope", "speaker", "conversation_id")
        shown = [[[one.get(name) for name in kept] for one in found] for found in (before, await everything(new))]
        assert shown[0] == shown[1]


async def test_a_file_in_no_known_form_is_refused(open_memory: Open, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n\xff")

    async with open_memory() as memory:
        for name in ("photo.png", "none.json"):
            refused = await memory.ask("import_memory", path=str(tmp_path / name))
            assert refused["error_code"] == "INVALID_REQUEST"
