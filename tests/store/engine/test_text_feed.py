"""The text index beside its own upkeep: a new generation and a save of the old one do not cross."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.mongo_server import run
from tests.store.lifecycle.conftest import Open


def test_a_new_generation_waits_for_a_save_that_is_under_way(
    open_memory: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Found by a new user: during two hard deletes the save's manifest could not be renamed, for its folder was gone."""

    async def work() -> None:
        async with open_memory() as memory:
            index = memory.engine.parts.index
            feed, sidecar = index._words, await index.sidecar()
            for turn in range(6):
                await memory.store(f"Lantern number {turn} was lit.")
                await asyncio.gather(feed.rebuild(sidecar), *(feed.flush() for _ in range(12)))
            found = await memory.ok("retrieve_memory", query="lantern number 5", mode="text")
            assert found["results"][0]["text"] == "Lantern number 5 was lit."

    with caplog.at_level(logging.WARNING, logger="infinite_memory.engine.text_feed"):
        run(work())
    assert caplog.records == []


@pytest.mark.parametrize("mode", ["hybrid", "text", "fuzzy"])
@pytest.mark.parametrize("ends", [{"from": "2020-01-01"}, {"to": "2100-01-01"}])
def test_a_range_that_lacks_an_end_narrows_what_is_in_the_files(
    open_memory: Open, mode: str, ends: dict[str, str]
) -> None:
    """Found by a new user: tantivy refuses an excluded end that is not there, once memories are in its files."""

    async def work() -> None:
        async with open_memory() as memory:
            await memory.store("The lighthouse was painted white.")
            await memory.store("The lighthouse was built.", timestamp="1850-05-01" if "from" in ends else "2150-05-01")
            await memory.engine.parts.index._words.flush()
            found = await memory.ok("retrieve_memory", query="lighthouse", mode=mode, filter={"time_range": ends})
            assert [one["text"] for one in found["results"]] == ["The lighthouse was painted white."]

    run(work())
