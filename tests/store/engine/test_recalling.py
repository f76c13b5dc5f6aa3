"""Recall by meaning and words together, over real parts."""

from __future__ import annotations

import pytest

from tests.store.lifecycle.conftest import Open


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "text", "fuzzy"])
async def test_a_memory_just_stored_is_found_by_the_next_request_in_every_mode(open_memory: Open, mode: str) -> None:
    async with open_memory() as memory:
        await memory.store("The ferry leaves from pier nine")
        one = await memory.store("Aunt Rosa grows tomatoes on the balcony")
        found = await memory.ok("retrieve_memory", query="tomatoes on a balcony", mode=mode, top_k=1)
        assert [hit["memory_id"] for hit in found["results"]] == [one]


async def test_codes_slips_and_quotes_are_found_by_their_letters(open_memory: Open) -> None:
    async with open_memory() as memory:
        code = await memory.store("The import stopped with ERR_CONN_4471 again")
        await memory.store("The import stopped with ERR_CONN_4472 again")
        quoted = await memory.store("She said: never change a running team, and left")
        for query, wanted in (("ERR_CONN_4471", code), ("ERR_CNON_4471", code), ('"a running team"', quoted)):
            found = await memory.ok("retrieve_memory", query=query, top_k=1)
            assert found["results"][0]["memory_id"] == wanted, query


async def test_a_query_deletes_no_memory_for_what_was_said_before_it(open_memory: Open) -> None:
    async with open_memory() as memory:
        said = await memory.store("My locker code is 8123 zebra", tags=["session:1"])
        answer = await memory.store("Thanks, noted", tags=["session:1"])
        gone = await memory.ok("delete_memory", target={"query": "locker code 8123 zebra"})
        assert gone["memory_ids"] == [said]
        assert (await memory.ok("get_memory", memory_id=answer))["memory"]["text"] == "Thanks, noted"


async def test_equal_texts_are_one_hit_and_their_room_is_filled(open_memory: Open) -> None:
    async with open_memory() as memory:
        for text in ("Buy  milk", "buy milk", "BUY MILK"):
            await memory.store(text)
        other = await memory.store("We are out of milk")
        found = (await memory.ok("retrieve_memory", query="milk", top_k=2))["results"]
        assert [hit.get("count") for hit in found] == [3, None]
        assert len(found[0]["also_at"]) == 2
        assert found[1]["memory_id"] == other
        assert all(hit["when"].startswith("today, ") for hit in found)


async def test_the_excerpt_of_a_long_text_has_the_words_that_were_asked_for(open_memory: Open) -> None:
    about = " ".join(
        f"Section {n}: the harbour office wrote about berths, pilots, tides and the fees of spring." for n in range(90)
    )
    text = f"{about[:2000]} The spare key hangs behind the blue cupboard. {about[2000:]}"

    async with open_memory() as memory:
        await memory.store(text)
        for query in ("harbour fees: behind which cupboard is the key", "cupboard"):
            for mode in ("hybrid", "text"):
                [hit] = (await memory.ok("retrieve_memory", query=query, mode=mode))["results"]
                assert "blue cupboard" in hit["excerpt"], (query, mode)
                assert len(hit["excerpt"]) < len(text) / 2


async def test_a_filter_takes_only_memories_stored_with_enough_confidence(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.ok("store_memory", content="The heron nests by the mill", metadata={"confidence": 0.4})
        sure = await memory.ok("store_memory", content="The heron nests by the weir", metadata={"confidence": 0.9})
        await memory.store("The heron nests somewhere")
        for mode in ("hybrid", "semantic", "text", "fuzzy"):
            found = await memory.ok("retrieve_memory", query="heron nests", mode=mode, filter={"min_confidence": 0.5})
            assert [hit["memory_id"] for hit in found["results"]] == [sure["memory_id"]], mode


async def test_a_question_goes_to_what_its_user_said_unless_it_asks_what_the_assistant_did(open_memory: Open) -> None:
    async with open_memory() as memory:
        text = "For the kitchen: green tiles and a {} oak table"
        user, assistant = [
            await memory.store(text.format(size), tags=[f"session:{size}", f"speaker:{speaker}"])
            for size, speaker in (("large", "user"), ("small", "assistant"))
        ]
        for query, wanted in (
            ("which table goes into the kitchen", user),
            ("which table did you recommend for the kitchen", assistant),
        ):
            found = await memory.ok("retrieve_memory", query=query, explain=True)
            parts = {hit["memory_id"]: hit["explain"]["conversation"] for hit in found["results"]}
            assert parts == {wanted: 0.15, ({user, assistant} - {wanted}).pop(): 0.0}, query
            assert found["results"][0]["memory_id"] == wanted, query
