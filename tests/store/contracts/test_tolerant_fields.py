"""What clients really send: JSON texts for objects, "" for what they leave out, ids with blanks; in every contract."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infinite_memory.contracts.base import Command
from infinite_memory.contracts.field_types import ChoiceField, FlagField, TextField
from infinite_memory.contracts.mcp import McpServer, RpcError
from infinite_memory.errors import InvalidRequestError
from tests.store.contracts.conftest import McpClient, server_of, session_of, value_of
from tests.store.contracts.test_destructive_commands import TABLES, everything, fill
from tests.store.lifecycle.conftest import Memory, Open

Json = dict[str, Any]

READ = "came as a JSON text and was read as"


async def test_objects_lists_and_truth_values_that_came_as_json_texts_are_read(open_memory: Open) -> None:
    async with open_memory() as memory:
        stored = await memory.ask(
            "store_memory",
            content="Tea is green",
            metadata=json.dumps({"tags": ["drinks"], "mood": "calm", "scope": "Work"}),
        )
        assert (stored["status"], stored["scope"]) == ("OK", "Work")
        assert stored["warnings"] == [f"metadata {READ} an object"]
        several = await memory.ask(
            "store_memories", memories=json.dumps([{"content": "one"}, {"content": "two"}]), atomic="true"
        )
        assert several["stored"] == 2
        assert several["warnings"] == [f"memories {READ} a list", f"atomic {READ} true or false"]
        entries = await memory.ask("store_memories", memories=['{"content": "three", "tags": "[\\"x\\"]"}'])
        assert (entries["stored"], entries["warnings"]) == (1, [f"memories[0] {READ} an object"])
        found = await memory.ask("retrieve_memory", query="tea", filter='{"scope": "Work", "tags": ["drinks"]}')
        assert [one["text"] for one in found["results"]] == ["Tea is green"]
        assert found["results"][0]["metadata"] == {"mood": "calm"}
        recalled = await memory.ask("recall_memory_by_time", range='{"from": "2001-01-01", "to": null}', scope="Work")
        assert [one["text"] for one in recalled["results"]] == ["Tea is green"]
        assert recalled["warnings"] == [f"range {READ} an object"]
        nested = await memory.ask("list_memories", filter={"scope": "Work", "time_range": '{"from": "2001-01-01"}'})
        assert nested["warnings"] == [f"filter.time_range {READ} an object"]
        done = await memory.ask("optimize_memory", operations='["deduplicate"]', dry_run="true")
        assert (done["dry_run"], done["counts"]) == (True, {"deduplicate": 0})
        gone = await memory.ask("delete_memory", target=json.dumps({"memory_id": stored["memory_id"]}))
        assert (gone["deleted_count"], gone["warnings"]) == (1, [f"target {READ} an object"])


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ('{"tag": "drinks", "owner": "me"}', "target.owner: is not known here"),
        ('{"tag": "drinks", "tag": "food"}', "a key stands twice"),
        ('{"tag": "drinks"', "is not an object as JSON text"),
        ('{"limit": NaN}', "NaN is not JSON"),
        ('["drinks"]', "is not an object"),
        ('"drinks"', "is not an object"),
        ("drinks", "is not an object"),
        ("{}", "target: is empty"),
        ('{"tag": ""}', "target.tag: is empty; one of memory_id"),
        ('{"scope": "Work", "tag": ""}', "target.tag: is empty; leave it out to mean the whole scope"),
        ('{"tag": "\\ud800"}', "is not an object as JSON text"),
        ("", "target: is required"),
        (None, "target: is required"),
    ],
)
async def test_a_deletion_stays_strict_about_what_the_text_holds(open_memory: Open, target: Any, said: str) -> None:
    async with open_memory() as memory:
        await fill(memory)
        before = await everything(memory)
        reply = await memory.ask("delete_memory", target=target)
        assert reply["status"] == "ERROR"
        assert said in reply["error"]
        assert await everything(memory) == before


async def test_the_siblings_read_json_texts_too(open_memory: Open) -> None:
    async with open_memory() as memory:
        laravel, agentmem = server_of(memory, "laravel"), server_of(memory, "agentmem")
        client = McpClient()
        written = {
            "organization": "acme", "scope_type": "system", "memory_type": "fact", "current_content": "Deploys are blue",
            "metadata": '{"color": "blue"}',
        }  # fmt: skip
        reply = value_of(await laravel.call_tool("memory-write", written, client))
        assert reply["metadata"] == {"color": "blue"}
        assert reply["warnings"] == [f"metadata {READ} an object"]
        batch = {"items": json.dumps([written | {"current_content": "Deploys are green"}])}
        [item] = value_of(await laravel.call_tool("memory-batch-write", batch, client))["items"]
        assert item["current_content"] == "Deploys are green"
        filters = {"filters": '{"metadata": {"color": "blue"}, "status": ""}', "query": "blue"}
        result = await laravel.call_tool("memory-search", filters, client)
        assert [one["current_content"] for one in value_of(result)] == ["Deploys are blue"]
        added = {
            "user_id": "ada",
            "content": "Likes blue",
            "metadata": '{"a": 1}',
            "agent_id": "",
            "memory_type": "",
            "tags": "",
        }
        reply = value_of(await agentmem.call_tool("agentmem_add_memory", added, client))
        assert (reply["memory_type"], reply["scope_type"], "warnings" in reply) == ("Episodic", "user", False)
        chat = {"user_id": "ada", "message": "what do I like?", "include_memories": "false"}
        reply = value_of(await agentmem.call_tool("agentmem_chat", chat, client))
        assert (reply["memories_used"], reply["warnings"]) == ([], [f"include_memories {READ} true or false"])
        created = {"type": "note", "content": '{"text": "Tea is green"}', "source": "x", "confidence": "0.5"}
        server = server_of(memory, "memory-server")
        text = value_of(await server.call_tool("memory_create", created, client))
        again = created | {"content": {"text": "Tea is green"}}
        same = value_of(await server.call_tool("memory_create", again, client))
        assert same["items"][0]["id"] == text["items"][0]["id"]
        assert text["warnings"] == [f"content {READ} an object"]


def required(command: Command[Any], known: Json) -> Json:
    return {field.name: known.get(field.name, "x") for field in command.fields if field.required}


KNOWN: Json = {
    "memories": [{"content": "a"}], "target": {"tag": "nothing has it"}, "memory_id": "0" * 24, "scope": "Work", "confidence": 0.5,
    "palace": "Castle", "id": "00000000-0000-4000-8000-000000000000", "source_id": "00000000-0000-4000-8000-000000000000",
    "target_id": "00000000-0000-4000-8000-000000000001", "scope_type": "system", "memory_type": "fact", "into": "Home",
    "items": [{"organization": "a", "scope_type": "system", "memory_type": "fact", "current_content": "a"}], "file": "none",
}  # fmt: skip
CHANGES = {"update_memory": {"content": "x"}, "change_memory_scope": {"description": "x"}, "import_memory": {"path": "/nowhere"},
           "restore_memory": {"scope": "Work"}, "recall_memory_by_time": {"time_query": "today"},
           "memory-vector-search": {"query": "x"}}  # fmt: skip


async def test_an_empty_text_for_an_optional_field_is_the_same_as_leaving_it_out(open_memory: Open) -> None:
    """Every optional field of every command of every contract, but for those in which "" says something."""

    async with open_memory() as memory:
        await fill(memory)
        for contract, table in TABLES.items():
            for command in table:
                if command.name in ("reindex", "import_memory"):
                    continue
                given = required(command, KNOWN) | CHANGES.get(command.name, {})
                plain = await outcome(memory, contract, command.name, given)
                for field in command.fields:
                    if field.required or field.name in given or _says_something(command, field):
                        continue
                    empty = await outcome(memory, contract, command.name, given | {field.name: ""})
                    assert empty == plain, (contract, command.name, field.name)


def _says_something(command: Command[Any], field: Any) -> bool:
    return (isinstance(field, TextField) and field.blank) or (
        command.destructive and isinstance(field, FlagField | ChoiceField)
    )


async def outcome(memory: Memory, contract: str, name: str, given: Json) -> str:
    """Say how a request ended: well, or with which error."""
    if contract == "native":
        reply = await memory.ask(name, **given)
        return "ok" if reply["status"] == "OK" else str(reply["error"])
    try:
        result = await server_of(memory, contract).call_tool(name, given, McpClient())
    except RpcError as exc:
        return str(exc)
    value = value_of(result)
    return str(value["error"]["message"]) if isinstance(value, dict) and value.get("success") is False else "ok"


async def test_empty_fields_inside_objects_count_as_left_out(open_memory: Open) -> None:
    async with open_memory() as memory:
        empty = {
            name: "" for name in ("scope", "tags", "source", "timestamp", "speaker", "title", "importance", "type")
        }
        stored = await memory.ok("store_memory", content="Tea", metadata=empty, scope="", tags="")
        assert stored["scope"] == "Global"
        filters = {
            "scope": "",
            "tags": "",
            "tags_mode": "",
            "time_range": {"from": "", "to": ""},
            "time_query": "",
            "speaker": "",
        }
        found = await memory.ok("retrieve_memory", query="tea", filter=filters, top_k="", timezone="", now="", mode="")
        assert [one["text"] for one in found["results"]] == ["Tea"]
        target = {"memory_id": stored["memory_id"], "scope": "", "tag": "", "query": ""}
        assert (await memory.ok("delete_memory", target=target, limit=""))["deleted_count"] == 1


@pytest.mark.parametrize("change", ["{} ", " {}", "{}\n", "{}\t", "{}\u00a0", "upper", "spaced", "{}\x00", "0x{}"])
async def test_an_id_is_matched_exactly(open_memory: Open, change: str) -> None:
    """In deletions and everywhere else; of a UUID only the case of its digits does not count."""

    def changed(value: str) -> str:
        if change == "upper":
            return value.upper()
        if change == "spaced":
            return f"{value[:4]} {value[4:]}"
        return change.format(value)

    async with open_memory() as memory:
        ids = await fill(memory)
        before = await everything(memory)
        native = ids["native"]
        for mode in ("soft", "hard"):
            reply = await memory.ask("delete_memory", target={"memory_id": changed(native)}, forget_mode=mode)
            assert reply.get("deleted_count", 0) == 0
        for name, fields in (("get_memory", {}), ("restore_memory", {}), ("update_memory", {"content": "x"})):
            assert (await memory.ask(name, memory_id=changed(native), **fields))["status"] == "ERROR"
        if change != "upper":
            given = {"palace": "Castle", "drawer_id": changed(ids["drawer"])}
            assert "not found" in await outcome(memory, "palace", "memory_forget", given)
            uuid = changed("550e8400-e29b-41d4-a716-446655440000")
            assert "not a UUID" in await outcome(memory, "laravel", "memory-delete", {"id": uuid})
            assert "not a UUID" in await outcome(memory, "laravel", "memory-update", {"id": uuid, "title": "x"})
        assert await everything(memory) == before


@pytest.mark.parametrize(
    "end", ["2026-03-02T00:00:00Z", "2026-03-01T23:59:59.999+01:00", "2026-03-01T10:00:00.123Z", "2026-03-01T10:00"]
)
async def test_an_instant_that_ends_a_range_comes_back_as_it_was_and_lies_inside(open_memory: Open, end: str) -> None:
    def dt_of(text: str) -> Any:
        import datetime as dt

        instant = dt.datetime.fromisoformat(text)
        return instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)

    async with open_memory() as memory:
        await memory.ok("store_memory", content="At the end", metadata={"timestamp": end})
        await memory.ok("store_memory", content="At the start", metadata={"timestamp": "2026-02-01T00:00:00Z"})
        reply = await memory.ok("recall_memory_by_time", range={"from": "2026-02-01T00:00:00Z", "to": end})
        assert [one["text"] for one in reply["results"]] == ["At the start", "At the end"]
        frame = reply["time_frame"]
        assert dt_of(frame["from"]) == dt_of("2026-02-01T00:00:00Z")
        assert dt_of(frame["to"]) == dt_of(end)
        again = await memory.ok("recall_memory_by_time", range={"from": frame["from"], "to": frame["to"]})
        assert again["time_frame"] == frame
        day = await memory.ok("recall_memory_by_time", range={"from": "2026-02-01", "to": "2026-02-01"})
        assert [dt_of(day["time_frame"][name]).day for name in ("from", "to")] == [1, 2]


async def test_what_a_field_is_keeps_its_capitals_in_errors(open_memory: Open) -> None:
    async with open_memory() as memory:
        assert "id: is required: UUID of the memory" in await outcome(memory, "laravel", "memory-delete", {})
        assert "memory_id: is required: id of" in str((await memory.ask("get_memory"))["error"])


async def test_a_memory_without_a_type_is_not_of_the_type_none(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("Tea is green")
        for name, given in (("memory_list", {}), ("memory_search", {"query": "tea"})):
            result = await server_of(memory, "memory-server").call_tool(name, given, McpClient())
            assert "Tea is green" in json.dumps(result)
            assert "[None]" not in json.dumps(result)


async def test_the_routes_take_an_empty_text_for_what_is_left_out_but_not_where_it_would_reach_further(
    open_memory: Open,
) -> None:
    async with open_memory() as memory:
        await memory.store("Tea is green", "Work")
        await server_of(memory, "agentmem").call_tool(
            "agentmem_add_memory", {"user_id": "ada", "content": "Likes tea"}, McpClient()
        )
        lines = routes_of(memory)

        async def ask(route: str, **fields: Any) -> Json:
            return await lines.handle({"route": route, "fields": fields})

        listed = await ask("list_memories", user_id="ada", agent_id="", tags="", source="", **{"from": "", "to": ""})
        assert [one["content"] for one in listed["body"]["memories"]] == ["Likes tea"]
        found = await ask("search", query="tea", user_id="ada", agent_id="", time_query="", memory_type="", filter="")
        assert [one["content"] for one in found["body"]["results"]] == ["Likes tea"]
        today = await ask("search", query="", time_query="today", scope="Work")
        assert [one["content"] for one in today["body"]["results"]] == ["Tea is green"]
        for fields in (
            {"user_id": "", "query": "tea"}, {"user_id": "ada", "agent_id": ""}, {"user_id": "ada", "tag": ""},
            {"scope": "Work", "tag": ""}, {"scope": "Work", "query": "", "tag": ""}, {"user_id": "ada", "dry_run": ""},
        ):  # fmt: skip
            refused = await ask("forget_memories", forget_mode="hard", **fields)
            assert refused["status"] == 400, (fields, refused)
        assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == 2


def routes_of(memory: Memory) -> Any:
    from infinite_memory.transports.http.api.socket_api import LocalRoutes

    async def engine() -> Any:
        return memory.engine

    return LocalRoutes(engine, lambda: None, 5.0, memory.app.administration).open(session_of(memory))


async def test_a_parameter_that_an_address_does_not_have_is_named(open_memory: Open) -> None:
    async with open_memory() as memory:
        stored = await memory.store("Tea", "Work", tags=["hot"])
        native, server = server_of(memory, "native"), server_of(memory, "memory-server")
        for uri in ("recent", "scope/Work", "tag/hot", "stats", f"item/{stored}"):
            [content] = await native.read(f"memory://{uri}?bogus=1")
            assert json.loads(content["text"])["warnings"][0].startswith("bogus is not known and was ignored")
            [content] = await native.read(f"memory://{uri}")
            assert "warnings" not in json.loads(content["text"])
        for uri in ("recent", "by-tags/hot", "by-type/note"):
            [content] = await server.read(f"mem://{uri}?limt=1&limit=5")
            assert content["_meta"]["warnings"] == ["limt is not known and was ignored; did you mean limit?"]
            [content] = await server.read(f"mem://{uri}?limit=5")
            assert "warnings" not in content["_meta"]


async def test_an_empty_limit_in_an_address_is_none_and_a_broken_one_is_refused(open_memory: Open) -> None:
    async with open_memory() as memory:
        for number in range(25):
            await memory.store(f"Note {number}", "Work")
        for contract, uri in (
            ("native", "memory://recent"),
            ("native", "memory://scope/Work"),
            ("memory-server", "mem://recent"),
        ):
            server = server_of(memory, contract, session_of(memory, active_scope="Work"))

            async def count(query: str, server: McpServer = server, uri: str = uri) -> int:
                text = json.loads((await server.read(uri + query))[0]["text"])
                return len(text if isinstance(text, list) else text["results"])

            assert [await count(query) for query in ("", "?limit=", "?limit=7", "?limit=7.0", "?limit=1e6")] == [
                20, 20, 7, 7, 25,
            ]  # fmt: skip
            for query in ("?limit=0", "?limit=2.5", "?limit=x", "?limit=inf", "?limit=nan"):
                with pytest.raises((RpcError, InvalidRequestError), match=r"limit: .* is not a whole number"):
                    await count(query)


@pytest.mark.parametrize("content", ["", "  \n", "\u200b"])
async def test_a_record_of_the_memory_server_is_not_made_of_a_blank_text(open_memory: Open, content: str) -> None:
    async with open_memory() as memory:
        record = {"type": "note", "source": "test", "confidence": 1, "content": content}
        assert "content: is blank" in await outcome(memory, "memory-server", "memory_create", record)


async def test_errors_say_what_is_taken_and_show_lists_as_lists(open_memory: Open) -> None:
    async with open_memory() as memory:
        said = await outcome(memory, "memory-server", "memory_search", {"query": "tea", "limit": 0})
        assert "limit: 0 is not a whole number of at least 1" in said
        reply = await memory.ask("store_memory", content="Tea", tags=["a"], metadata={"tags": ["b"]})
        assert reply["error"] == "tags: ['a'] here and ['b'] in metadata.tags differ; give it once"
        assert (await memory.ask("store_memory", content="Tea", tags=["A", "b"], metadata={"tags": ["B", "a"]}))[
            "status"
        ] == "OK"
        assert "content: is blank" in (await memory.ask("store_memory", content="\u200b\ufeff"))["error"]


async def test_one_blank_end_of_a_range_and_a_blank_choice_of_a_deletion_are_errors(open_memory: Open) -> None:
    async with open_memory() as memory:
        kept = await memory.store("Tea is green", "Work")
        for ends in ({"from": "", "to": "2001-01-01"}, {"from": "2001-01-01", "to": ""}):
            for request in (
                {"action": "retrieve_memory", "query": "tea", "filter": {"time_range": ends}},
                {"action": "recall_memory_by_time", "range": ends},
            ):
                assert (await memory.ask(**request))["error_code"] == "INVALID_REQUEST", request
        refused = await memory.ask("delete_memory", target={"memory_id": kept}, forget_mode="")
        assert refused["error"].startswith("forget_mode:")
        assert (await memory.ok("get_memory_stats"))["stats"]["total_memories"] == 1


async def test_a_name_with_nul_in_it_is_nobody_elses_memory(open_memory: Open) -> None:
    """AgentMem: what parts names and texts in the key of an id may stand in both."""

    async with open_memory() as memory:
        agentmem = server_of(memory, "agentmem")

        async def add(user: str, content: str) -> Json:
            reply = await agentmem.call_tool("agentmem_add_memory", {"user_id": user, "content": content}, McpClient())
            said: Json = reply["structuredContent"]
            return said

        first = await add("ann", "hello\0my Private Word")
        second = await add("ann\0hello", "MY private word")
        assert second["memory_id"] != first["memory_id"]
        assert "my Private Word" not in str(second)
        kept = await memory.ok("get_memory", memory_id=first["memory_id"].rpartition("_")[2])
        assert kept["memory"]["text"] == "hello\0my Private Word"


async def test_a_refused_name_of_a_scope_is_named_by_the_field_that_has_it(open_memory: Open) -> None:
    async with open_memory() as memory:
        entries: list[Json] = [
            {"content": "tea", "metadata": {"scope": "a\nb"}},
            {"content": "tea", "scope": "a\nb"},
            {"content": "tea", "metadata": {"scope": "House"}},
            {"content": "tea", "metadata": {"scope": "c\nd"}},
        ]
        wanted = ["metadata.scope", "scope", None, "metadata.scope"]
        alone = [await memory.ask("store_memory", **entry) for entry in entries]
        assert [one["error"].split(": ")[0] if "error" in one else None for one in alone] == wanted
        wanted = [field and f"memories[{index}].{field}" for index, field in enumerate(wanted)]
        together = (await memory.ask("store_memories", memories=entries))["results"]
        assert [one["error"].split(": ")[0] if "error" in one else None for one in together] == wanted
        refused = await memory.ask("store_memories", memories=entries[2:], atomic=True)
        assert refused["error"].startswith("memories[1].metadata.scope: 'c\\nd' holds a control character")
