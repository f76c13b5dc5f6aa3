"""Other languages than English are found by meaning, through a second model that a home of English alone never has."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.bootstrap import Application, new_session
from infinite_memory.config import load_config
from infinite_memory.embedding.factory import MissingEmbedder
from infinite_memory.embedding.manifest import SECOND_MODEL
from infinite_memory.engine.types import Mode, ScopedFilter
from infinite_memory.models import MemoryId
from infinite_memory.paths import Home
from tests.mongo_server import fresh_database
from tests.processes import LONG, need_second_model
from tests.store.lifecycle.conftest import Memory, OneModelApp, Open, loaded_embedder

ENGLISH = (
    "The garage key lies under the flower pot",
    "Grandma likes tulips and dark chocolate",
    "The bus leaves at nine",
)
GERMAN = "Der Zahnarzttermin wurde auf Donnerstagmorgen verschoben."
CHINESE = "孩子们周末要去看外婆。"


async def count_indexed(memory: Memory) -> int:
    """Count the memories that the first index knows."""
    return await memory.services.index.count() or 0


async def settled(memory: Memory) -> None:
    """Wait until the second space is level."""
    second = memory.services.index.second
    async with asyncio.timeout(120):
        while second.state != "ready" or second.count_pending() or second.count() < await count_indexed(memory):
            await asyncio.sleep(0.02)


async def first_found(memory: Memory, query: str, **fields: Any) -> str:
    """Return the text of the best hit."""
    return str((await memory.ok("retrieve_memory", query=query, **fields))["results"][0]["text"])


async def second_stats(memory: Memory) -> dict[str, Any]:
    """Return what the statistics say of the second model."""
    second: dict[str, Any] = (await memory.ok("get_memory_stats"))["stats"]["model"]["second"]
    return second


async def test_a_home_of_english_alone_has_no_second_space(open_memory: Open, tmp_path: Path) -> None:
    async with open_memory() as memory:
        for text in (*ENGLISH, "def key(x): return x + 1  # σ = 3", "42", "🎉"):
            await memory.store(text)
        assert await first_found(memory, "where is the key of the garage?") == ENGLISH[0]
        assert await second_stats(memory) == {"name": SECOND_MODEL, "state": "not needed"}
    assert not list((tmp_path / "home" / "sidecars" / "second").glob("*"))


async def test_memories_in_other_languages_are_found_by_meaning_in_any(open_memory: Open) -> None:
    need_second_model()

    async with open_memory() as memory:
        for text in (*ENGLISH, GERMAN, CHINESE):
            await memory.store(text)
        await settled(memory)
        assert (await second_stats(memory))["space"] == f"{SECOND_MODEL}/512/fp32"
        for mode in ("hybrid", "semantic"):
            assert await first_found(memory, "什么时候去看牙医？", mode=mode) == GERMAN
            assert await first_found(memory, "When do the children visit their grandmother?", mode=mode) == CHINESE
            assert await first_found(memory, "Wo liegt der Garagenschlüssel?", mode=mode) == ENGLISH[0]
            assert await first_found(memory, "which flowers does grandma like?", mode=mode) == ENGLISH[1]
        nothing = await memory.ok("retrieve_memory", query="Wie hoch ist der Mount Everest?")
        assert nothing["results"][0]["confidence"] < 0.5
        assert "note" not in nothing


async def test_a_question_in_another_language_brings_the_second_space_for_what_is_there(open_memory: Open) -> None:
    need_second_model()

    async with open_memory() as memory:
        for text in ENGLISH:
            await memory.store(text)
        found = await memory.ok("retrieve_memory", query="Wo liegt der Garagenschlüssel?")
        assert "other languages than English are found by words, hardly by meaning" in found["note"]
        await settled(memory)
        assert await first_found(memory, "Wo liegt der Garagenschlüssel?") == ENGLISH[0]


async def test_words_of_another_language_are_not_taken_for_slips_of_english(open_memory: Open) -> None:
    need_second_model()
    question = "¿Dónde tiene su sede la organización de la familia?"  # near "seed", "organisation", "family"
    memories = (
        "The organisation has its seat in Geneva",
        "Grandma planted seeds of a dozen tulips",
        "The family tents are damp",
    )

    async with open_memory() as memory:
        for text in memories:
            await memory.store(text)
        await memory.ok("retrieve_memory", query=question)
        await settled(memory)
        assert await first_found(memory, question, mode="semantic") == memories[0]
        searcher = memory.engine.recall._searcher
        _, search = await searcher.prepare(question, ScopedFilter(None), Mode.HYBRID)
        assert search.wording is not None and search.wording.corrected
        assert search.second is not None and search.second.is_foreign


async def test_the_second_space_follows_changes_and_outlives_a_restart(open_memory: Open) -> None:
    need_second_model()

    async with open_memory() as memory:
        dentist, children = await memory.store(GERMAN), await memory.store(CHINESE, scope="family")
        await settled(memory)
        await memory.ok("update_memory", memory_id=dentist, content="Das Auto steht in der Werkstatt.")
        assert await first_found(memory, "修车厂在修什么？", mode="semantic") == "Das Auto steht in der Werkstatt."
        await memory.ok("delete_memory", target={"memory_id": children})
        assert memory.services.index.second.count() == 1
        await memory.store(CHINESE, scope="family")
    async with open_memory() as memory:
        await settled(memory)
        found = await memory.ok("retrieve_memory", query="Wann fahren die Kinder zur Oma?", filter={"scope": "ALL"})
        assert found["results"][0]["text"] == CHINESE
        assert await first_found(memory, "修车厂在修什么？", mode="semantic") == "Das Auto steht in der Werkstatt."


async def test_a_lost_second_index_is_made_again(open_memory: Open, tmp_path: Path) -> None:
    need_second_model()

    async with open_memory() as memory:
        await memory.store(GERMAN)
        await settled(memory)
    for saved in (tmp_path / "home" / "sidecars" / "second").glob("generation*"):
        shutil.rmtree(saved)
    async with open_memory() as memory:
        await memory.ok("retrieve_memory", query="什么时候去看牙医？")
        await settled(memory)
        assert await first_found(memory, "什么时候去看牙医？", mode="semantic") == GERMAN


async def test_the_second_space_keeps_what_a_new_primary_does_not_tell_yet(
    monkeypatch: pytest.MonkeyPatch, open_memory: Open
) -> None:
    need_second_model()

    async with open_memory() as memory:
        stored = MemoryId(await memory.store(GERMAN))
        await settled(memory)
        second, fetch = memory.services.index.second, memory.services.store.fetch

        async def late_fetch(*arguments: Any, latest: bool = False, **options: Any) -> Any:
            return await fetch(*arguments, latest=latest, **options) if latest else {}

        monkeypatch.setattr(memory.services.store, "fetch", late_fetch)
        assert second._index is not None
        await second._read_again(second._index, await memory.services.index.sidecar(), [stored])
        assert second.count() == 1


async def test_odd_texts_are_kept_and_found_beside_others(open_memory: Open) -> None:
    need_second_model()
    scripts = "Сегодня дождь, 明日は晴れ, الجو بارد, καλημέρα, नमस्ते दुनिया, and tea"
    code = "for (int i = 0; i < n; ++i) { сумма += данные[i]; } // 合計"
    long = "Wir treffen uns am Bahnhof. " * (
        37_000 if LONG else 5_000
    )  # a mebibyte, less a little: half a minute of a core

    async with open_memory() as memory:
        for text in (GERMAN, scripts, code, long):
            await memory.store(text)
        await settled(memory)
        assert await first_found(memory, "什么时候去看牙医？") == GERMAN
        assert (await second_stats(memory))["pending_embeddings"] == 0


@pytest.mark.parametrize(("setting", "state"), [("off", "off"), ("always", "ready")])
async def test_the_setting_has_it_at_once_or_never(open_memory: Open, setting: str, state: str) -> None:
    need_second_model()

    async with open_memory(flags={"embedding.second_model": setting}) as memory:
        await memory.store(ENGLISH[0] if setting == "always" else GERMAN)
        if setting == "always":
            await settled(memory)
        assert "note" not in await memory.ok("retrieve_memory", query="Wo liegt der Garagenschlüssel?")
        assert (await second_stats(memory))["state"] == state


class FirstModelOnly(Application):
    """An app on a machine where the second model is missing and is not to be made ready."""

    def _open_parts(self) -> Any:
        _, _, *others = super()._open_parts()
        return loaded_embedder(), MissingEmbedder(SECOND_MODEL, "the model is not on this machine", None), *others


async def test_without_the_second_model_recall_goes_by_what_is_left_and_says_so(mongo_uri: str, tmp_path: Path) -> None:
    given = {"mongodb.uri": mongo_uri, "mongodb.database": fresh_database(), "backup.time": ""}
    config = load_config(tmp_path / "none.toml", {}, given)
    async with FirstModelOnly(config, Home(tmp_path / "home", explicit=True)) as app:
        memory = Memory(app, await app.engine(), app.contract(new_session(config, {})))
        await memory.store(GERMAN)
        await memory.store(ENGLISH[0])
        found = await memory.ok("retrieve_memory", query="Wann ist der Zahnarzttermin beim neuen Arzt?")
        assert found["results"][0]["text"] == GERMAN
        assert "the model is not on this machine" in found["note"]
        assert await first_found(memory, "where is the key of the garage?") == ENGLISH[0]
        assert "not on this machine" in (await second_stats(memory))["problem"]


async def test_a_home_whose_second_model_is_gone_goes_on_and_takes_it_up_again(mongo_uri: str, tmp_path: Path) -> None:
    need_second_model()
    given = {"mongodb.uri": mongo_uri, "mongodb.database": fresh_database(), "backup.time": "", "time.zone": "UTC"}
    config = load_config(tmp_path / "none.toml", {}, given)

    @contextlib.asynccontextmanager
    async def opened(kind: type[Application]) -> AsyncIterator[Memory]:
        async with kind(config, Home(tmp_path / "home", explicit=True)) as app:
            yield Memory(app, await app.engine(), app.contract(new_session(config, {})))

    async with opened(OneModelApp) as memory:
        await memory.store(GERMAN)
        await settled(memory)
    async with opened(FirstModelOnly) as memory:
        await memory.store(CHINESE)
        found = await memory.ok("retrieve_memory", query="Wann ist der Zahnarzttermin beim neuen Arzt?")
        assert found["results"][0]["text"] == GERMAN
        assert "the model is not on this machine" in found["note"]
        assert "not on this machine" in (await second_stats(memory))["problem"]
    async with opened(OneModelApp) as memory:
        await memory.ok("retrieve_memory", query="Wann fahren die Kinder zur Oma?")
        await settled(memory)
        assert await first_found(memory, "Wann fahren die Kinder zur Oma?", mode="semantic") == CHINESE
        assert await first_found(memory, "什么时候去看牙医？", mode="semantic") == GERMAN
