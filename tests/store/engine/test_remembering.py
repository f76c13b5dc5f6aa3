"""Storing and changing: what is refused spoils nothing else, and what is changed is changed everywhere."""

from __future__ import annotations

import asyncio

from infinite_memory.engine.types import NewMemory, StoreResult
from infinite_memory.errors import InvalidRequestError
from tests.store.lifecycle.conftest import Open

TOO_LARGE = {"a": "x" * 17_000_000}  # a document of MongoDB has 16 MiB at most


async def test_one_memory_that_the_store_refuses_spoils_no_other(open_memory: Open) -> None:
    async with open_memory() as memory:
        drafts = [
            NewMemory("tea", "Global"),
            NewMemory("coffee", "Global", metadata=TOO_LARGE),
            NewMemory("milk", "Global"),
        ]
        first, bad, last = await memory.engine.memories.store_each(drafts)
        assert isinstance(bad, InvalidRequestError)
        assert isinstance(first, StoreResult)
        assert isinstance(last, StoreResult)
        listed = await memory.ok("list_memories")
        assert {one["memory_id"] for one in listed["results"]} == {first.memory.memory_id, last.memory.memory_id}


async def test_a_tag_that_is_taken_away_takes_its_speaker_and_conversation_along(open_memory: Open) -> None:
    async with open_memory() as memory:
        one = await memory.store("I moved to Rome.", tags=["speaker:Ada", "session:7"])
        named = await memory.store("I moved to Oslo.", tags=["speaker:Ada"], conversation_id="9")
        for each in (one, named):
            await memory.ok("update_memory", memory_id=each, tags=["other"])
        assert (await memory.ok("search_by_tag", tag="speaker:Ada"))["results"] == []
        assert (await memory.ok("search_by_tag", tag="session:7"))["results"] == []
        assert len((await memory.ok("search_by_tag", tag="session:9"))["results"]) == 1
        assert len((await memory.ok("search_by_tag", tag="other"))["results"]) == 2


async def test_type_and_confidence_are_found_again_after_storing_and_changing(open_memory: Open) -> None:
    async with open_memory() as memory:

        async def of_type(name: str) -> list[str]:
            found = await memory.ok("list_memories", filter={"type": name})
            return [one["memory_id"] for one in found["results"]]

        one = await memory.store("We take the train.", type="decision", confidence=1)
        stored = await memory.ok("get_memory", memory_id=one)
        assert stored["memory"]["metadata"] == {"type": "decision", "confidence": 1}
        assert await of_type("decision") == [one]
        record = await memory.engine.memories.get(one)  # type: ignore[arg-type]
        assert record.confidence == 1
        await memory.ok("update_memory", memory_id=one, metadata={"type": "plan", "confidence": 0.5})
        assert (await of_type("decision"), await of_type("plan")) == ([], [one])
        await memory.ok("update_memory", memory_id=one, metadata={"type": None})
        assert await of_type("plan") == []
        assert (await memory.ok("get_memory", memory_id=one))["memory"]["metadata"] == {"confidence": 0.5}


async def test_type_and_confidence_of_another_kind_are_free_metadata(open_memory: Open) -> None:
    async with open_memory() as memory:
        free = {"type": 5, "confidence": "high"}
        one = await memory.store("Five.", **free)
        assert (await memory.ok("get_memory", memory_id=one))["memory"]["metadata"] == free
        more = {"type": ["a"], "confidence": 85}
        await memory.ok("update_memory", memory_id=one, metadata=more)
        assert (await memory.ok("get_memory", memory_id=one))["memory"]["metadata"] == more


async def test_metadata_cannot_be_grown_past_its_limit_by_changing_it(open_memory: Open) -> None:
    async with open_memory(flags={"limits.metadata_bytes": "1024"}) as memory:
        one = await memory.store("tea", a="x" * 700)
        grown = await memory.ask("update_memory", memory_id=one, metadata={"b": "x" * 700})
        assert grown["error_code"] == "INVALID_REQUEST"
        assert "more than the limit of 1,024" in grown["error"]
        await memory.ok("update_memory", memory_id=one, metadata={"a": None, "b": "x" * 700})


async def test_a_memory_cannot_be_moved_by_changing_it_and_is_told_so(open_memory: Open) -> None:
    async with open_memory() as memory:
        one = await memory.store("tea")
        moved = await memory.ask("update_memory", memory_id=one, metadata={"scope": "Work"})
        assert moved["error_code"] == "INVALID_REQUEST"
        assert moved["error"].startswith("metadata.scope: a memory stays in its scope")


async def test_a_long_text_is_stored_at_once_and_embedded_afterwards(open_memory: Open) -> None:
    async with asyncio.timeout(240):
        async with open_memory() as memory:
            text = "The minutes were read and nothing was decided. " * 1400 + "The elephant of the circus is purple."
            stored = await memory.ok("store_memory", content=text)
            assert stored["embedding"] == "pending"
            found = await memory.ok("retrieve_memory", query="purple elephant", mode="text")
            assert found["results"][0]["memory_id"] == stored["memory_id"]
            while await memory.services.index.count_pending():
                await asyncio.sleep(0.1)
            found = await memory.ok("retrieve_memory", query="purple elephant", mode="semantic")
            assert found["results"][0]["text"] == text
