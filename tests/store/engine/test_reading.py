"""Reading by time: what is asked about comes first, and nothing is hidden without a word."""

from __future__ import annotations

from pathlib import Path

import pytest

from infinite_memory.bootstrap import Application, new_session
from infinite_memory.config import load_config
from infinite_memory.paths import Home
from tests.mongo_server import fresh_database
from tests.store.lifecycle.conftest import Memory, Open

SENTENCE = "what did we decide about the budget today?"


async def test_a_topic_beside_the_time_ranks_and_the_total_tells_what_is_left_out(open_memory: Open) -> None:
    async with open_memory() as memory:
        for text in ("We had tea.", "The budget is 5,000 euros.", "It rained."):
            await memory.store(text)
        for asked in ({"time_query": SENTENCE}, {"time_query": "today", "query": "budget"}):
            found = await memory.ok("recall_memory_by_time", limit=1, **asked)
            assert [one["text"] for one in found["results"]] == ["The budget is 5,000 euros."]
            assert found["total"] == 3
            assert found["time_frame"]["timezone"] == "UTC"


async def test_replies_tell_the_words_that_were_read_as_a_time_and_those_that_were_not(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("We had tea.")
        by_time = await memory.ok("recall_memory_by_time", time_query="what did we drink today at 25:00?")
        filters = {"time_query": "wat dronken we vandaag?"}
        listed = await memory.ok("list_memories", filter=filters)
        found = await memory.ok("retrieve_memory", query="tea", filter=filters)

        assert by_time["time_frame"]["words"] == "today"
        assert "not read as a time: 'at 25:00'" in by_time["note"]
        for reply in (listed, found):
            assert reply["time_frame"]["words"] == "vandaag"
            assert [one["text"] for one in reply["results"]] == ["We had tea."]

        spanned = await memory.ok("recall_memory_by_time", range={"from": "2020-01-01"})
        assert "words" not in spanned["time_frame"]


async def test_without_a_model_a_topic_lists_the_time_and_says_so(mongo_uri: str, tmp_path: Path) -> None:
    given = {"mongodb.uri": mongo_uri, "mongodb.database": fresh_database(), "backup.time": "", "time.zone": "UTC"}
    config = load_config(tmp_path / "none.toml", {}, given | {"embedding.model": str(tmp_path / "no-model")})
    async with Application(config, Home(tmp_path / "home", explicit=True)) as app:
        memory = Memory(app, await app.engine(), app.contract(new_session(config, {})))
        for text in ("We had tea.", "It rained."):
            await memory.store(text)
        listed = await memory.ok("recall_memory_by_time", time_query=SENTENCE)
        assert [one["text"] for one in listed["results"]] == ["We had tea.", "It rained."]
        assert listed["total"] == 2
        assert listed["note"].startswith("listed by time and not by what was asked about")


async def test_the_last_day_there_is_is_an_open_end(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("tea")
        for end in ("9999-12-31", "9999-12-31T23:59:59.999Z"):
            for span in ({"from": "2020-01-01", "to": end}, {"to": end}):
                found = await memory.ok("recall_memory_by_time", range=span)
                assert found["total"] == 1
            assert found["time_frame"]["to"] is None


async def test_what_is_made_or_chosen_says_so(open_memory: Open) -> None:
    async with open_memory() as memory:
        assert (await memory.ok("create_memory_scope", scope_name="Work"))["outcome"] == "created"
        assert (await memory.ok("set_active_scope", scope="work"))["outcome"] == "active"


async def test_texts_that_fill_a_reply_are_told_in_several(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infinite_memory.engine.access.FIRST_READ", 2)
    monkeypatch.setattr("infinite_memory.engine.access.PAGE_CHARS", 16_000)
    count, chars = 40, 1_000

    async with open_memory() as memory:
        ids = [await memory.store(f"pear number {number} ".ljust(chars, "x")) for number in range(count)]
        small = await memory.store("apple")
        listed: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await memory.ok("list_memories", limit=1000, **cursor)
            assert page["total"] == count + 1
            assert sum(len(one["text"]) for one in page["results"]) < 17_000
            listed += [one["memory_id"] for one in page["results"]]
            if page["next_cursor"] is None:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert listed == [small, *reversed(ids)]
        found = await memory.ok("retrieve_memory", query="pear", mode="text", top_k=1000)
        assert len(found["results"]) == 16
        assert "the best 16 only: their texts fill a reply" in found["note"]
        few = await memory.ok("retrieve_memory", query="pear", mode="text", top_k=5)
        assert len(few["results"]) == 5
        assert "note" not in few
