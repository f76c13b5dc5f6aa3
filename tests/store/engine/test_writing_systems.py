"""Texts in every script: what the model does not read is found by its words, and gives no confidence and no deletion by meaning."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.store.lifecycle.conftest import Memory, Open

DATA = Path(__file__).resolve().parents[2] / "data" / "scripts" / "sentences.json"
SCRIPTS: dict[str, list[str]] = json.loads(DATA.read_text("utf-8"))["scripts"]
NOT_LATIN = {name: texts for name, texts in SCRIPTS.items() if not name.startswith("Latin")}

UNREAD = {
    "emoji": ["🎂🎉", "👩‍👩‍👧‍👦", "🇩🇪🇫🇷", "☕️🥐"],
    "signs": ["?!?!", "... --- ...", "§§ %", "=> <="],
    "numbers": ["48151623", "90210 44", "3.14159", "2026-11"],
    "runes with a number": ["ᚠᚢ 5", "ᚱᚴ 7", "ᛒᛁ 9", "ᚦᛅ 2"],
    "runes in a sentence": ["meeting ᚠᚢ ᚱᚴ", "meeting ᛒᛁ ᚦᛅ", "meeting ᚼᛅ ᚢᚴ", "meeting ᛏᛁ ᛋᛁ"],
    "runes of one more sentence": ["ᚠᚢ is ᚱᚴ", "ᛒᛁ is ᚦᛅ", "ᚼᛅ is ᚢᚴ", "ᛏᛁ is ᛋᛁ"],
    "words too long to be read": ["x" * 150, "y" * 151, "ab" * 90, "q" * 300],
}


async def _fill(memory: Memory, scripts: dict[str, list[str]], first: int) -> dict[str, list[str]]:
    """Store the texts of each script from *first* on in a scope of its own; gives the ids."""
    entries = [
        {"content": text, "scope": name} for name, texts in scripts.items() for text in texts[first:4]
    ]  # fmt: skip
    reply = await memory.ok("store_memories", memories=entries)
    ids = iter(one["memory_id"] for one in reply["results"])
    return {name: [next(ids) for _ in texts[first:4]] for name, texts in scripts.items()}


async def test_forgetting_by_words_in_no_script_removes_what_does_not_have_them(open_memory: Open) -> None:
    async with open_memory() as memory:
        everything = SCRIPTS | UNREAD
        await _fill(memory, everything, 1)
        for name, texts in everything.items():
            for words in dict.fromkeys((texts[0], texts[4] if len(texts) > 4 else texts[0])):
                target = {"scope": name, "query": words}
                reply = await memory.ask("delete_memory", target=target)
                assert reply["deleted_count"] == 0, (name, words, reply)
        for name, texts in everything.items():
            reply = await memory.ask("delete_memory", target={"query": texts[0]})
            assert reply["deleted_count"] == 0, (name, reply)


async def test_forgetting_by_its_own_words_removes_the_one_memory_that_has_them(open_memory: Open) -> None:
    async with open_memory() as memory:
        everything = SCRIPTS | UNREAD
        ids = await _fill(memory, everything, 0)
        for name, texts in everything.items():
            reply = await memory.ask("delete_memory", target={"scope": name, "query": texts[0]})
            assert reply["memory_ids"] == [ids[name][0]], (name, reply)


async def test_what_has_none_of_the_words_of_a_question_in_another_script_is_found_with_little_confidence(
    open_memory: Open,
) -> None:
    async with open_memory() as memory:
        everything = NOT_LATIN | UNREAD
        await _fill(memory, everything, 1)
        for name, texts in everything.items():
            for mode in ("hybrid", "semantic"):
                reply = await memory.ok("retrieve_memory", query=texts[0], scope=name, mode=mode)
                sure = [one["confidence"] for one in reply["results"]]
                assert all(one < 0.5 for one in sure), (name, mode, reply["results"])


@pytest.mark.parametrize("mode", ["text", "hybrid"])
async def test_a_sentence_in_any_script_is_found_by_one_of_its_words(open_memory: Open, mode: str) -> None:
    async with open_memory() as memory:
        ids = await _fill(memory, SCRIPTS, 0)
        for name, texts in SCRIPTS.items():
            reply = await memory.ok("retrieve_memory", query=texts[4], scope="ALL", mode=mode)
            assert [one["memory_id"] for one in reply["results"]][:1] == ids[name][:1], (name, reply["results"][:2])
