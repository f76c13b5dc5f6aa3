"""Requests one after the other over scopes that are renamed, merged and archived, as a client sends them."""

from __future__ import annotations

import asyncio

from tests.store.contracts.conftest import McpClient, server_of, session_of, value_of
from tests.store.lifecycle.conftest import Memory, Open


async def test_a_session_stays_in_its_active_scope_when_that_is_renamed_and_merged(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.ok("create_memory_scope", scope_name="Boat")
        await memory.ok("create_memory_scope", scope_name="Harbour")
        await memory.ok("set_active_scope", scope="boat")
        await memory.ok("change_memory_scope", scope="Harbour", new_name="Port")
        assert (await memory.ok("store_memory", content="The bow is red"))["scope"] == "Boat"
        await memory.ok("change_memory_scope", scope="BOAT", new_name="Ship")
        assert (await memory.ok("store_memory", content="The mast is new"))["scope"] == "Ship"
        await memory.ok("merge_memory_scopes", scope="ship", into="port", dry_run=True)
        assert (await memory.ok("store_memory", content="The sail is old"))["scope"] == "Ship"
        await memory.ok("merge_memory_scopes", scope="ship", into="port")
        assert (await memory.ok("store_memory", content="The keel is dry"))["scope"] == "Port"
        stats = (await memory.ok("get_memory_stats"))["stats"]
        assert stats["scopes"] == {"Global": 0, "Port": 4}


async def test_the_same_by_mcp_where_calls_have_a_session_each(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.ok("create_memory_scope", scope_name="Boat")
        server, client = server_of(memory, "native", session_of(memory)), McpClient()
        await server.call_tool("set_active_scope", {"scope": "Boat"}, client)
        await server.call_tool("change_memory_scope", {"scope": "Boat", "new_name": "Ship"}, client)
        stored = value_of(await server.call_tool("store_memory", {"content": "The mast is new"}, client))
        assert stored["scope"] == "Ship"


async def test_a_memory_that_is_brought_back_into_an_archived_scope_is_said_to_stay_hidden(open_memory: Open) -> None:
    async with open_memory() as memory:
        memory_id = await memory.store("The mast is new", "Boat")
        await memory.ok("delete_memory", target={"memory_id": memory_id})
        assert "note" not in await memory.ok("restore_memory", memory_id=memory_id)
        await memory.ok("delete_memory", target={"memory_id": memory_id})
        await memory.ok("delete_memory", target={"scope": "Boat"})
        reply = await memory.ok("restore_memory", memory_id=memory_id)
        assert "'Boat' is archived" in reply["note"]
        assert (await memory.ask("get_memory", memory_id=memory_id))["error_code"] == "NOT_FOUND"
        await memory.ok("restore_memory", scope="Boat")
        assert (await memory.ok("get_memory", memory_id=memory_id))["memory"]["scope"] == "Boat"


async def test_an_empty_scope_that_is_taken_out_again_is_not_said_to_be_gone(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.ok("create_memory_scope", scope_name="Boat")
        await memory.ok("delete_memory", target={"scope": "Boat"})
        assert await memory.ok("restore_memory", scope="boat") == {
            "status": "OK", "scope": "Boat", "outcome": "restored", "restored_count": 0,
        }  # fmt: skip
        assert "note" in await memory.ok("restore_memory", scope="boat")


async def test_memories_at_the_ends_of_the_calendar_are_shown_in_every_zone(open_memory: Open) -> None:
    async with open_memory() as memory:
        for timestamp in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999Z"):
            await memory.store(f"Of {timestamp}", timestamp=timestamp)
        for zone in ("Pacific/Kiritimati", "Europe/Berlin", "UTC", "America/New_York"):
            found = await memory.ok("list_memories", timezone=zone)
            assert [one["timestamp"] for one in found["results"]] == [
                "9999-12-31T23:59:59.999Z", "0001-01-01T00:00:00.000Z",
            ]  # fmt: skip
            assert len((await memory.ok("retrieve_memory", query="of when?", timezone=zone))["results"]) == 2
            every = {"from": "0001-01-01T00:00:00Z", "to": "9999-12-31T23:59:59.999Z"}
            recalled = await memory.ok("recall_memory_by_time", range=every, timezone=zone)
            assert recalled["total"] == 2


async def test_both_ends_of_a_range_are_inside_to_the_millisecond_and_no_more(open_memory: Open) -> None:
    async with open_memory() as memory:
        for timestamp in ("2025-05-04T23:59:59.9995Z", "2025-05-05T00:00:00Z"):
            await memory.store(f"Of {timestamp}", timestamp=timestamp)
        for start, end, count in (
            ("2025-05-04T00:00:00Z", "2025-05-04T23:59:59.999999Z", 1),
            ("2025-05-04T23:59:59.9995Z", "2025-05-04T23:59:59.9995Z", 1),
            ("2025-05-04T23:59:59.9995Z", "2025-05-05T00:00:00.000001Z", 2),
        ):
            span = {"from": start, "to": end}
            assert (await memory.ok("list_memories", filter={"time_range": span}))["total"] == count
            recalled = await memory.ok("recall_memory_by_time", range=span)
            assert recalled["total"] == count


async def test_a_time_frame_of_a_time_before_zones_has_an_offset_that_can_be_read(open_memory: Open) -> None:
    async with open_memory() as memory:
        reply = await memory.ok("recall_memory_by_time", range={"from": "1850-01-01"}, timezone="Europe/Berlin")
        assert reply["time_frame"]["from"] == "1849-12-31T23:06:32.000Z"


async def test_an_archived_scope_is_neither_made_active_nor_made_again_and_the_error_says_why(
    open_memory: Open,
) -> None:
    async with open_memory() as memory:
        await memory.store("The mast is new", "Boat")
        await memory.ok("delete_memory", target={"scope": "Boat"})
        for action, field, code in (
            ("set_active_scope", "scope", "INVALID_REQUEST"),
            ("create_memory_scope", "scope_name", "ALREADY_EXISTS"),
        ):
            refused = await memory.ask(action, **{field: "boat"})
            assert refused["error_code"] == code
            assert "archived" in refused["error"]
        assert (await memory.ok("store_memory", content="The keel is dry"))["scope"] == "Global"
        await memory.ok("restore_memory", scope="Boat")
        assert (await memory.ok("set_active_scope", scope="boat"))["scope"] == "Boat"


async def test_facts_of_an_archived_scope_are_not_counted(open_memory: Open) -> None:
    async with open_memory() as memory:
        palace, client = server_of(memory, "palace", session_of(memory)), McpClient()
        await palace.call_tool("palace_create", {"name": "Boat"}, client)
        triple = {"palace": "Boat", "subject": "mast", "predicate": "is", "object": "new"}
        await palace.call_tool("kg_assert", triple, client)
        assert (await memory.ok("get_memory_stats"))["stats"]["facts"] == 1
        await memory.ok("delete_memory", target={"scope": "Boat"})
        assert (await memory.ok("get_memory_stats"))["stats"]["facts"] == 0
        await memory.ok("restore_memory", scope="Boat")
        assert (await memory.ok("get_memory_stats"))["stats"]["facts"] == 1


async def test_a_tag_that_nobody_sees_is_dropped_as_an_empty_one(open_memory: Open) -> None:
    async with open_memory() as memory:
        memory_id = await memory.store("The mast is new", tags=["", "\u200b", "mast", " \u2060"])
        assert (await memory.ok("get_memory", memory_id=memory_id))["memory"]["tags"] == ["mast"]


async def fill_two_scopes(memory: Memory) -> None:
    """Store five memories in Boat and five in Ship."""
    for scope in ("Boat", "Ship"):
        for number in range(5):
            await memory.store(f"{scope} {number}", scope)


async def test_of_two_clients_that_merge_scopes_into_each_other_one_is_refused_and_nothing_is_lost(
    open_memory: Open,
) -> None:
    async with open_memory() as memory:
        await fill_two_scopes(memory)
        ways = (("Boat", "Ship"), ("Ship", "Boat"))
        replies = await asyncio.gather(
            *(memory.ask("merge_memory_scopes", scope=source, into=target) for source, target in ways)
        )
        assert sorted(reply.get("error_code", "OK") for reply in replies) == ["NOT_FOUND", "OK"]
        stats = (await memory.ok("get_memory_stats"))["stats"]
        assert sum(stats["scopes"].values()) == 10
        assert len(stats["scopes"]) == 2


async def test_what_is_merged_into_a_scope_does_not_go_with_it_when_another_client_removes_that(
    open_memory: Open,
) -> None:
    async with open_memory() as memory:
        await fill_two_scopes(memory)
        merged, removed = await asyncio.gather(
            memory.ask("merge_memory_scopes", scope="Boat", into="Ship"),
            memory.ask("delete_memory", target={"scope": "Ship"}, forget_mode="hard"),
        )
        stats = (await memory.ok("get_memory_stats"))["stats"]["scopes"]
        gone = removed.get("deleted_count", 0)
        assert sum(stats.values()) + gone == 10, (merged, removed, stats)


async def test_a_scope_that_is_merged_while_it_is_renamed_is_named_as_it_was_called(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("The mast is new", "Boat")
        await memory.ok("create_memory_scope", scope_name="Ship")
        merged, renamed = await asyncio.gather(
            memory.ask("merge_memory_scopes", scope="Boat", into="Ship"),
            memory.ask("change_memory_scope", scope="Boat", new_name="Raft"),
        )
        assert merged["status"] == "OK"
        assert renamed["status"] == "OK" or renamed["error"] == "there is no scope 'Boat'"
