"""Why a result stands where it does: parts that add up to its score; and why a memory was not shown."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import pytest

from infinite_memory.bootstrap import Application
from tests.store.engine.test_recalling_without_model import opened
from tests.store.engine.test_reranking import TEXTS, cross_encoder
from tests.store.lifecycle.conftest import Open

__all__ = ["cross_encoder"]

PARTS = ("meaning", "words", "tag", "exact_phrase", "conversation")


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "text", "fuzzy"])
async def test_the_parts_add_up_to_a_score_that_falls(open_memory: Open, mode: str) -> None:
    async with open_memory() as memory:
        for text in (*TEXTS, "Tomatoes are tomatoes, says Rosa of tomatoes", "The code is ERR_CONN_4471"):
            await memory.store(text, tags=["ferry"] if "pier" in text else [])
        for query in ("does Rosa grow tomatoes", "the ferry from pier nine", "ERR_CONN_4471"):
            fields = {"query": query, "mode": mode, "top_k": 10}
            plain = await memory.ok("retrieve_memory", **fields)
            reply = await memory.ok("retrieve_memory", **fields, explain=True)
            told = [result.pop("explain") for result in reply["results"]]
            assert reply == plain  # nothing else changes
            assert told, query
            for one in told:
                assert sum(one[part] for part in PARTS) == pytest.approx(one["score"], abs=1e-8)
                if one["by_word"]:
                    assert sum(one["by_word"].values()) == pytest.approx(one["words"], abs=1e-6)
                if mode == "semantic":
                    assert one["words"] == one["exact_phrase"] == 0
            assert [one["rank"] for one in told] == list(range(1, len(told) + 1))
            assert [one["score"] for one in told] == sorted((one["score"] for one in told), reverse=True)


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "text", "fuzzy"])
async def test_asking_about_one_memory_changes_no_result(open_memory: Open, mode: str) -> None:
    async with open_memory() as memory:
        ids = [await memory.store(text) for text in (*TEXTS, "The code is ERR_CONN_4471")]
        await memory.ok("delete_memory", target={"memory_id": ids[0]})
        for query in ("does Rosa grow tomatoes", "the ferry from pier nine", "ERR_CONN_4471"):
            fields = {"query": query, "mode": mode, "top_k": 2}
            plain = await memory.ok("retrieve_memory", **fields)
            for memory_id in (*ids, "6" * 24):
                reply = await memory.ok("retrieve_memory", **fields, explain_id=memory_id)
                is_shown = memory_id in [result["memory_id"] for result in plain["results"]]
                assert (reply.pop("explained")["reason"] == "shown") is is_shown
                assert reply == plain


async def test_words_are_named_as_they_were_asked_for(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("Rosa grows tomatoes on the balcony", tags=["rosa"])
        await memory.store("The balcony is closed")
        reply = await memory.ok("retrieve_memory", query="growing tomatoes with Rosa", explain=True)
        first = reply["results"][0]["explain"]
        assert set(first["by_word"]) == {"growing", "tomatoes", "rosa"}
        assert first["tag"] > 0  # the question names the tag
        assert reply["results"][1]["explain"]["tag"] == 0


async def test_an_answer_is_found_by_what_was_said_before_it(open_memory: Open) -> None:
    async with open_memory() as memory:
        talk = ["Where did you go on your holiday in June?", "To Brest, with the whole family.", "Lovely!"]
        stored = [
            await memory.store(text, tags=["session:1"], timestamp=f"2026-07-01T10:00:0{number}Z")
            for number, text in enumerate(talk)
        ]
        alone = await memory.store("To Brest, with the whole family, says the letter.")
        for mode, counts in (("hybrid", True), ("semantic", False), ("text", False)):
            query = "where did they go on holiday in June"
            reply = await memory.ok("retrieve_memory", query=query, mode=mode, top_k=10, explain=True)
            told = {result["memory_id"]: result["explain"]["conversation"] for result in reply["results"]}
            assert (told.get(stored[1], 0) > 0) is counts
            assert told.get(alone, 0) == 0


async def test_a_re_ranker_is_told_of(open_memory: Open, cross_encoder: Path) -> None:
    async with open_memory(flags={"recall.reranker": str(cross_encoder)}) as memory:
        for text in TEXTS:
            await memory.store(text)
        reply = await memory.ok("retrieve_memory", query="when does the ferry leave?", explain=True)
        told = [result["explain"] for result in reply["results"]]
        scores = [one["rerank_score"] for one in told]
        assert scores == sorted(scores, reverse=True)
        assert sorted(one["rank"] for one in told) == [1, 2, 3, 4]  # the places before it


async def test_explaining_takes_at_most_two_milliseconds_more(open_memory: Open) -> None:
    async with open_memory() as memory:
        texts = [f"Note {number}: the ferry leaves from pier {number} with tomatoes for Rosa" for number in range(200)]
        await memory.ok("store_memories", memories=[{"content": text} for text in texts])
        times: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(61):
            explain = bool(turn % 2)
            began = time.process_time()  # other processes of the machine do not count
            await memory.ok("retrieve_memory", query="which pier does the ferry leave from", top_k=5, explain=explain)
            times[explain].append(time.process_time() - began)
        assert median(times[True]) - median(times[False]) < 0.002


async def test_what_kept_a_memory_out_is_told(open_memory: Open) -> None:
    async with open_memory() as memory:
        best = await memory.store("The ferry leaves from pier nine")
        low = await memory.store("Rosa grows tomatoes", tags=["garden"])
        again = await memory.store("the ferry leaves  from pier nine")
        gone = await memory.store("The ferry is late")
        await memory.ok("delete_memory", target={"memory_id": gone})
        archived = (await memory.ok("store_memory", content="The ferry is red", scope="Old"))["memory_id"]
        await memory.ok("delete_memory", target={"scope": "Old"})

        async def told(memory_id: str, **fields: object) -> tuple[str, dict[str, object]]:
            request = {"query": "where does the ferry leave", "top_k": 1, "explain_id": memory_id} | fields
            explained = (await memory.ok("retrieve_memory", **request))["explained"]
            assert explained["memory_id"] == memory_id
            assert explained["says"]
            return explained["reason"], explained

        shown = {best, again}  # one of the two, which say the same
        first = (await memory.ok("retrieve_memory", query="where does the ferry leave"))["results"][0]["memory_id"]
        [other] = shown - {first}
        assert (await told(first))[0] == "shown"
        reason, explained = await told(other)
        assert (reason, explained["above"]) == ("same_text", [first])
        reason, explained = await told(low)
        assert reason == "rank"
        assert explained["explain"]["rank"] == 3  # type: ignore[index]
        assert set(explained["above"]) == shown  # type: ignore[call-overload]
        assert (await told(low, top_k=5))[0] == "shown"
        assert (await told(low, top_k=5, min_confidence=0.9))[0] == "confidence"
        assert (await told(low, top_k=5, mode="text"))[0] == "no_word"
        reason, explained = await told(low, filter={"tags": ["boats"], "source": "letters"})
        assert (reason, explained["filter"]) == ("filter", ["tags", "source"])
        assert (await told(low, filter={"tags": ["garden"]}))[0] == "shown"
        assert (await told(gone))[0] == "deleted"
        assert (await told(archived, scope="ALL"))[0] == "archived"
        assert (await told("0" * 24))[0] == "unknown"
        elsewhere = (await memory.ok("store_memory", content="The ferry is blue", scope="Boats"))["memory_id"]
        reason, explained = await told(elsewhere, scope="Global")
        assert (reason, explained["filter"]) == ("filter", ["scope"])


async def test_a_memory_that_waits_for_its_vector_says_so(mongo_uri: str, tmp_path: Path) -> None:
    no_model = {"embedding.model": str(tmp_path / "none")}
    async with opened(Application, mongo_uri, tmp_path, **no_model) as memory:
        memory_id = (await memory.ask("store_memory", content="Rosa grows tomatoes"))["memory_id"]
        for query, mode, reason in (
            ("tomatoes", "hybrid", "shown"), ("the ferry", "hybrid", "not_embedded"), ("the ferry", "text", "no_word"),
        ):  # fmt: skip
            reply = await memory.ok("retrieve_memory", query=query, mode=mode, explain_id=memory_id)
            assert (reply["explained"]["reason"], reply["explained"]["embedded"]) == (reason, False)
