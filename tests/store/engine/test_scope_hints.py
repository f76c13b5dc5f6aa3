"""Where a question without a scope looks, and what it says about where it did not."""

from __future__ import annotations

from tests.store.lifecycle.conftest import Open


async def test_where_the_usual_scopes_hold_nothing_every_scope_is_searched(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("My favorite color is blue", "Personal")
        found = await memory.ok("retrieve_memory", query="which colour do I like best?")
        assert [one["text"] for one in found["results"]] == ["My favorite color is blue"]
        assert set(found["scopes_searched"]) == {"Global", "Personal"}
        assert "every scope was searched" in found["note"]


async def test_an_unsure_answer_says_that_other_scopes_were_not_searched(open_memory: Open) -> None:
    """Found by a new user: one unrelated memory in Global hid the right one in Personal without a word."""

    async with open_memory() as memory:
        await memory.store("My favorite color is blue", "Personal")
        await memory.store("The bin is emptied on Fridays")
        found = await memory.ok("retrieve_memory", query="which colour do I like best?")
        assert found["scopes_searched"] == ["Global"]
        assert found["note"].startswith('only Global was searched; "scope": "ALL"')
        await memory.ok("create_memory_scope", scope_name="Work")
        await memory.ok("set_active_scope", scope="Work")
        at_work = await memory.ok("retrieve_memory", query="which colour do I like best?")
        assert at_work["note"].startswith("only Work and Global were searched;")
        sure = await memory.ok("retrieve_memory", query="the bin is emptied on fridays")
        assert "note" not in sure


async def test_the_scope_may_stand_beside_the_filter(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("Blue", "Personal")
        await memory.store("Red")
        for reply in (
            await memory.ok("retrieve_memory", query="blue", scope="Personal"),
            await memory.ok("list_memories", scope="personal", filter={"scope": "Personal"}),
        ):
            assert [one["text"] for one in reply["results"]] == ["Blue"]
        differ = await memory.ask("retrieve_memory", query="blue", scope="Personal", filter={"scope": "Global"})
        assert differ["error_code"] == "INVALID_REQUEST"
        unknown = await memory.ask("help", command="store_memmory")
        assert "store_memory" in unknown["error"]
