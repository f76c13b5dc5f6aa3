"""Whether identifiers are found by their letters, and whether questions about something else get low confidence.

The questions were drawn by the seeded scripts in tests/data/recall/ before the ranking was written.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.processes import LONG
from tests.store.lifecycle.conftest import Memory, Open

DATA = Path(__file__).parents[2] / "data/recall"
DAILY = (
    "Dr. Weber pulled my wisdom tooth on the second of May",
    "Mira is allergic to peanuts and carries a pen",
    "The rent went up to 940 euros in autumn",
    "We painted the kitchen in a light green",
    "Tom's school play is about a lighthouse keeper",
    "I decided to learn the cello instead of the piano",
    "The boiler was serviced and needs a new valve",
    "Anna moved to Porto for her job at the harbour",
    "Our team agreed to release on Thursdays only",
    "I sleep badly when I drink coffee after four",
)


async def fill(memory: Memory, texts: list[str]) -> list[str]:
    reply = await memory.ok("store_memories", memories=[{"content": text} for text in texts])
    return [kept["memory_id"] for kept in reply["results"]]


@pytest.mark.parametrize("seed", [11, 23] if LONG else [11])
async def test_identifiers_are_found_by_their_letters_and_with_one_slip(open_memory: Open, seed: int) -> None:
    cases = json.loads((DATA / f"identifiers-{seed}.json").read_text("utf-8"))[:: 1 if LONG else 2]

    async with open_memory() as memory:
        known = await fill(memory, [case["text"] for case in cases])
        missed: Counter[str] = Counter()
        for case, wanted in zip(cases, known, strict=True):
            for kind in ("query", "slip"):
                found = await memory.ok("retrieve_memory", query=case[kind], top_k=1)
                missed[kind] += found["results"][0]["memory_id"] != wanted
        assert missed["query"] <= 0.02 * len(cases)
        assert missed["slip"] <= 0.10 * len(cases)


async def test_questions_about_something_else_get_low_confidence_and_real_ones_do_not(open_memory: Open) -> None:
    unrelated = [case["query"] for case in json.loads((DATA / "unrelated-5.json").read_text("utf-8"))]
    asked = {
        "who pulled my tooth?": 0,
        "what is Mira allergic to?": 1,
        "how much is the rent?": 2,
        "which instrument do I want to learn?": 5,
        "where did Anna move?": 7,
        "on which day of the week do we release?": 8,
    }

    async with open_memory() as memory:
        known = await fill(memory, list(DAILY))
        best = [(await memory.ok("retrieve_memory", query=one, top_k=1))["results"] for one in unrelated]
        assert sum(not hits or hits[0]["confidence"] < 0.5 for hits in best) >= 0.95 * len(unrelated)
        for query, number in asked.items():
            [hit] = (await memory.ok("retrieve_memory", query=query, top_k=1))["results"]
            assert hit["memory_id"] == known[number], query
            assert hit["confidence"] > 0.5, query
