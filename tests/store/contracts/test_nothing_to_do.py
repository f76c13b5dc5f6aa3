"""What a command says that has nothing to do, and that it then does nothing."""

from __future__ import annotations

from typing import Any

from tests.store.lifecycle.conftest import Memory, Open

Json = dict[str, Any]


async def restore(memory: Memory, **named: str) -> Json:
    reply: Json = await memory.ok("restore_memory", **named)
    return reply


async def test_what_was_not_forgotten_is_not_said_to_be_restored(open_memory: Open) -> None:
    async with open_memory() as memory:
        tea = await memory.store("tea", "Kitchen")
        reply = await restore(memory, memory_id=tea)
        assert (reply["outcome"], reply["note"]) == ("unchanged", "it was not forgotten; nothing was changed")
        assert reply["memory"]["text"] == "tea"
        await memory.ok("delete_memory", target={"memory_id": tea})
        reply = await restore(memory, memory_id=tea)
        assert reply["outcome"] == "restored" and "note" not in reply
        assert (await restore(memory, memory_id=tea))["outcome"] == "unchanged"
        reply = await restore(memory, scope="Kitchen")
        assert (reply["outcome"], reply["restored_count"]) == ("unchanged", 0)
        await memory.ok("delete_memory", target={"scope": "Kitchen"})
        reply = await restore(memory, scope="Kitchen")
        assert (reply["outcome"], reply["restored_count"]) == ("restored", 1)


async def test_a_scope_that_is_changed_says_what_came_of_it(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.ok("create_memory_scope", scope_name="Boat", description="All at sea")
        for fields, outcome in (
            ({"description": "Ashore"}, "updated"),
            ({"description": "Ashore"}, "unchanged"),
            ({"new_name": "Boat", "description": "Ashore"}, "unchanged"),
            ({"new_name": "boat"}, "updated"),
        ):
            reply = await memory.ok("change_memory_scope", scope="Boat", **fields)
            assert (reply["outcome"], reply["description"]) == (outcome, "Ashore")
        assert reply["scope_name"] == "boat"


async def test_a_holiday_that_is_not_the_same_everywhere_is_named_in_the_error(open_memory: Open) -> None:
    async with open_memory() as memory:
        reply = await memory.ask("recall_memory_by_time", time_query="what did we do on the bank holiday")
        assert reply["error_code"] == "INVALID_REQUEST"
        assert "'bank holiday' is another day from place to place: name its date" in reply["error"]
        beside = await memory.ok("recall_memory_by_time", time_query="what did we do on the bank holiday last week")
        assert beside["time_frame"]["words"] == "last week"
        assert "on the bank holiday" in beside["note"]
        assert "place" not in (await memory.ask("recall_memory_by_time", time_query="what we said"))["error"]


async def test_a_change_that_changes_nothing_makes_no_version(open_memory: Open) -> None:
    async with open_memory() as memory:
        when = "2024-05-01T10:00:00.000Z"
        metadata = {"timestamp": when, "speaker": "Ann", "importance": 5, "cups": 1, "tags": ["hot", "drink"]}
        tea = (await memory.ok("store_memory", content="tea", metadata=metadata))["memory_id"]
        for same in (
            {"content": "tea"},
            {"tags": ["hot", "drink"]},
            {"metadata": {"timestamp": when, "speaker": "Ann", "importance": 5, "cups": 1}},
            {"metadata": {"not_there": None}},
        ):
            reply = await memory.ok("update_memory", memory_id=tea, **same)
            assert (reply["outcome"], reply["revision"]) == ("unchanged", 1), same
            assert reply["note"] == "it says that already; nothing was changed"
        assert (await memory.ok("get_memory", memory_id=tea))["revisions"] == []
        for number, other in enumerate(
            (
                {"content": "Tea"},
                {"tags": ["drink", "hot"]},
                {"metadata": {"cups": True}},
                {"metadata": {"cups": 1.0}},
                {"metadata": {"importance": 6}},
                {"metadata": {"cups": None}},
            ),
            2,
        ):
            reply = await memory.ok("update_memory", memory_id=tea, **other)
            assert (reply["outcome"], reply["revision"]) == ("updated", number), other
        assert len((await memory.ok("get_memory", memory_id=tea))["revisions"]) == 6


async def test_the_time_that_it_has_takes_no_other_time_from_a_memory(open_memory: Open) -> None:
    async with open_memory() as memory:
        times = ["2024-01-01T00:00:00.000Z", "2024-02-01T00:00:00.000Z"]
        tea, _ = [
            (await memory.ok("store_memory", content="tea", metadata={"timestamp": one}))["memory_id"] for one in times
        ]
        await memory.ok("optimize_memory", operations=["deduplicate"])
        await memory.ok("update_memory", memory_id=tea, metadata={"timestamp": times[0], "title": "Tea"})
        assert (await memory.ok("get_memory", memory_id=tea))["memory"]["occurrences"] == times


async def test_a_merge_that_was_undone_counts_no_memory_twice(open_memory: Open) -> None:
    async with open_memory() as memory:
        times = [f"2024-0{month}-01T00:00:00.000Z" for month in (1, 2, 3)]
        ids = [
            (await memory.ok("store_memory", content="tea", metadata={"timestamp": one}))["memory_id"] for one in times
        ]

        async def count() -> tuple[int, list[str]]:
            [hit] = (await memory.ok("retrieve_memory", query="tea"))["results"]
            return hit["count"], sorted([hit["timestamp"], *hit["also_at"]])

        assert await count() == (3, times)
        await memory.ok("optimize_memory", operations=["deduplicate"])
        await restore(memory, memory_id=ids[2])
        assert await count() == (3, times)
        await restore(memory, scope="Global")
        assert await count() == (3, times)
        await memory.ok("store_memory", content="tea", metadata={"timestamp": times[2]})
        assert await count() == (4, [*times, times[2]])
