"""A sidecar that was lost: words answer while it is rebuilt, and what happened meanwhile is known afterwards."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncGenerator

import pytest

from infinite_memory.engine.types import Mode, ScopedFilter
from infinite_memory.errors import FeedLostError
from infinite_memory.index.base import TextIndex, VectorIndex
from infinite_memory.index.text_sync import TextSync
from infinite_memory.models import IndexBatch
from infinite_memory.store.base import Change
from infinite_memory.store.mongo.store import MongoStore
from tests.mongo_server import fresh_database
from tests.store.lifecycle.conftest import Memory, Open

EVERYWHERE = ScopedFilter(None)


async def found(memory: Memory, query: str, mode: Mode = Mode.HYBRID) -> tuple[list[str], str | None]:
    """Ask, and give texts and note."""
    answer = await memory.engine.recall.search(query, EVERYWHERE, 5, mode=mode)
    return [match.memory.text for match in answer.matches], answer.note


async def test_an_index_that_is_damaged_is_a_warning_and_the_first_one_is_none(
    open_memory: Open, caplog: pytest.LogCaptureFixture
) -> None:
    def levels(event: str = "sidecar_rebuilt") -> set[str]:
        return {record.levelname for record in caplog.records if vars(record).get("event") == event}

    caplog.set_level(logging.INFO, "infinite_memory")
    shared = {"mongodb.database": fresh_database()}
    async with open_memory("one", shared) as memory:
        await memory.store("tea")
        assert levels() == levels("text_rebuilt") == {"INFO"}
        sidecars = memory.app.home.sidecars
    caplog.clear()
    for header in sidecars.glob("generation-*/header.json"):
        header.write_text("{}")
    for manifest in sidecars.glob("text/*/*manifest*.json"):
        manifest.write_text("{}")
    async with open_memory("one", shared) as memory:
        await memory.services.index.sidecar()
        assert levels() == levels("text_rebuilt") == {"WARNING"}


async def test_words_answer_while_a_lost_sidecar_is_rebuilt(open_memory: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    real = MongoStore.rows

    shared = {"mongodb.database": fresh_database()}
    async with open_memory("one", shared) as memory:
        await memory.store("The ferry to the island leaves at noon.", "Travel")
        await memory.store("The lamp of the lighthouse is new.")
        assert (await found(memory, "the ferry", Mode.TEXT))[0]  # the text index is there
        sidecars = memory.app.home.sidecars
    for generation in sidecars.glob("generation-*"):
        shutil.rmtree(generation)
    go_on = asyncio.Event()

    async def held(store: MongoStore) -> AsyncGenerator[IndexBatch, None]:
        await go_on.wait()
        async for rows in real(store):
            yield rows

    monkeypatch.setattr(MongoStore, "rows", held)
    async with open_memory("one", shared) as memory:
        index = memory.services.index
        await index.connected()
        while index.partial is None:
            await asyncio.sleep(0.01)
        for mode in (Mode.HYBRID, Mode.TEXT):
            texts, note = await found(memory, "when does the ferry leave?", mode)
            assert texts[:1] == ["The ferry to the island leaves at noon."]
            assert note is not None and "words alone" in note
        assert await memory.engine.memories.count(EVERYWHERE) == 2
        assert await memory.engine.memories.count(ScopedFilter(("Travel",))) == 1
        await memory.store("The ferry to the mainland leaves at dusk.", "Travel")
        go_on.set()
        await index.sidecar()
        texts, note = await found(memory, "when does the ferry leave?")
        assert set(texts[:2]) == {
            "The ferry to the island leaves at noon.",
            "The ferry to the mainland leaves at dusk.",
        }
        assert note is None
        assert (await index.check()).faults == 0


async def test_who_asks_before_the_words_are_there_waits_for_them_and_not_for_the_rebuilding(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_rows, real_open = MongoStore.rows, TextSync.open_early

    shared = {"mongodb.database": fresh_database()}
    async with open_memory("one", shared) as memory:
        await memory.store("The ferry to the island leaves at noon.")
        assert (await found(memory, "the ferry", Mode.TEXT))[0]  # the text index is there
        sidecars = memory.app.home.sidecars
    for generation in sidecars.glob("generation-*"):
        shutil.rmtree(generation)
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def late(feed: TextSync) -> bytes:
        await asked.wait()
        return await real_open(feed)

    async def held(store: MongoStore) -> AsyncGenerator[IndexBatch, None]:
        await go_on.wait()
        async for rows in real_rows(store):
            yield rows

    monkeypatch.setattr(TextSync, "open_early", late)
    monkeypatch.setattr(MongoStore, "rows", held)
    async with open_memory("one", shared) as memory:
        index = memory.services.index
        await index.connected()
        answers = [asyncio.create_task(found(memory, "the ferry", mode)) for mode in (Mode.HYBRID, Mode.TEXT)]
        count = asyncio.create_task(memory.engine.memories.count(EVERYWHERE))
        await asyncio.sleep(0)
        assert index.partial is None
        asked.set()
        for texts, note in await asyncio.gather(*answers):
            assert texts == ["The ferry to the island leaves at noon."]
            assert note is not None and "words alone" in note
        assert await count == 1
        go_on.set()
        await index.sidecar()
        assert index.partial is None
        assert await found(memory, "the ferry") == (["The ferry to the island leaves at noon."], None)


async def test_words_are_level_before_the_index_is_open_where_the_feed_does_not_reach_back(
    open_memory: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_changes, real_level, lost = MongoStore.changes, TextSync._level, [True]

    async def cut_changes(store: MongoStore, after: bytes) -> AsyncGenerator[Change | None, None]:
        if lost:
            lost.clear()
            raise FeedLostError("the operation log is too short")
        async for change in real_changes(store, after):
            yield change

    async def slow_level(feed: TextSync, index: TextIndex, sidecar: VectorIndex) -> None:
        await asyncio.sleep(0.3)
        await real_level(feed, index, sidecar)

    shared = {"mongodb.database": fresh_database()}
    async with open_memory("one", shared) as memory:
        await memory.store("The ferry to the island leaves at noon.")
        sidecars = memory.app.home.sidecars
    for generation in sidecars.glob("generation-*"):
        shutil.rmtree(generation)
    async with open_memory("two", shared) as memory:
        await memory.store("The ferry to the mainland leaves at dusk.")
    monkeypatch.setattr(MongoStore, "changes", cut_changes)
    monkeypatch.setattr(TextSync, "_level", slow_level)
    async with open_memory("one", shared) as memory:
        await memory.services.index.sidecar()
        texts, note = await found(memory, "ferry", Mode.TEXT)
        assert not lost
        assert (len(texts), note) == (2, None)
