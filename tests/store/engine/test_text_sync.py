"""The text index beside its own upkeep: a new generation and a save of the old one do not cross."""

from __future__ import annotations

import asyncio
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.index.offline import OfflineIndex
from infinite_memory.models import MemoryId
from infinite_memory.store.base import Located
from scripts.soak_checks import ids_in
from tests.mongo_server import fresh_database
from tests.store.lifecycle.conftest import Memory, Open


async def test_a_new_generation_waits_for_a_save_that_is_under_way(
    open_memory: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """Found by a new user: during two hard deletes the save's manifest could not be renamed, for its folder was gone."""

    name = "infinite_memory.index.text_sync"
    with caplog.at_level(logging.WARNING, logger=name):
        async with open_memory() as memory:
            index = memory.services.index
            feed, sidecar = index._words, await index.sidecar()
            for turn in range(6):
                await memory.store(f"Lantern number {turn} was lit.")
                await asyncio.gather(feed.rebuild(sidecar), *(feed.flush() for _ in range(12)))
            found = await memory.ok("retrieve_memory", query="lantern number 5", mode="text")
            assert found["results"][0]["text"] == "Lantern number 5 was lit."
    assert [one for one in caplog.records if one.name == name] == []


async def test_it_says_that_it_is_written_anew_and_when_that_is_done(open_memory: Open) -> None:
    async with open_memory() as memory:
        await memory.store("The lighthouse was painted white.")
        index = memory.services.index
        said: list[str] = []
        await index.rebuild(words=True, progress=lambda *_: said.append(index.words_state))
        assert said[-1] == "being written anew"
        assert index.words_state == "ready"


@pytest.mark.parametrize("mode", ["hybrid", "text", "fuzzy"])
@pytest.mark.parametrize("ends", [{"from": "2020-01-01"}, {"to": "2100-01-01"}])
async def test_a_range_that_lacks_an_end_narrows_what_is_in_the_files(
    open_memory: Open, mode: str, ends: dict[str, str]
) -> None:
    """Found by a new user: tantivy refuses an excluded end that is not there, once memories are in its files."""

    async with open_memory() as memory:
        await memory.store("The lighthouse was painted white.")
        await memory.store("The lighthouse was built.", timestamp="1850-05-01" if "from" in ends else "2150-05-01")
        await memory.services.index._words.flush()
        found = await memory.ok("retrieve_memory", query="lighthouse", mode=mode, filter={"time_range": ends})
        assert [one["text"] for one in found["results"]] == ["The lighthouse was painted white."]


def keep(memory: Memory, folder: Path) -> None:
    """Keep the files of an index as they are at this moment, which is all that a crash would leave."""
    shutil.copytree(memory.app.home.sidecars, folder)


def put_back(memory: Memory, folder: Path) -> None:
    """Put kept files in the place of those that an orderly end wrote."""
    shutil.rmtree(memory.app.home.sidecars, ignore_errors=True)  # tantivy's watch may leave its lock file meanwhile
    shutil.copytree(folder, memory.app.home.sidecars, dirs_exist_ok=True)


def words_of(memory: Memory) -> set[str]:
    """Name the memories whose words are in the files, those marked as removed too."""
    [generation] = (memory.app.home.sidecars / "text").glob("text-*")
    return ids_in(generation)


async def until_gone(memory: Memory, memory_id: str) -> None:
    """Wait until the words of a memory have left the files; the test's own time limit ends a wait in vain."""
    while True:
        try:
            if memory_id not in words_of(memory):
                return
        except (OSError, ValueError):
            pass  # one generation gives way to another
        await asyncio.sleep(0.1)


async def test_a_crash_between_the_saves_of_two_files_hides_no_words(open_memory: Open, tmp_path: Path) -> None:
    """Found by the soak: the sidecar was saved a moment after the words, with more in it, and both bore the same token."""

    shared = {"mongodb.database": fresh_database()}
    async with open_memory("one", shared) as memory:
        index = memory.services.index
        await memory.store("The first lantern was lit.")
        await index.save()
        token = index._follower.token
        await memory.store("The second lantern was lit.")
        index._loader.files.save(await index.sidecar(), memory.services.store.identity, token)
        keep(memory, tmp_path / "kept")
    put_back(memory, tmp_path / "kept")
    async with open_memory("one", shared) as memory:
        await memory.services.index.sidecar()
        for which in ("first", "second"):
            found = await memory.ok("retrieve_memory", query=f"{which} lantern", mode="text")
            assert found["results"][0]["text"] == f"The {which} lantern was lit."


async def test_what_was_forgotten_for_good_leaves_the_files_after_a_crash_too(
    open_memory: Open, tmp_path: Path
) -> None:
    shared = {"mongodb.database": fresh_database()}
    async with open_memory("one", shared) as memory:
        index = memory.services.index
        # Among others, for a part of the files that holds nothing but what was removed is dropped at once.
        texts = ["The lantern was lit."] * 20 + ["The secret word is heliotrope."] + ["The lamp was lit."] * 20
        stored = await memory.ok("store_memories", memories=[{"content": text} for text in texts])
        secret = stored["results"][20]["memory_id"]
        await index.save()
        assert secret in words_of(memory)
        index._words._rebuilt_at, index._words._rebuild_took_s = (
            float("inf"),
            1.0,
        )  # it is killed before it writes anew
        await memory.ok("delete_memory", target={"memory_id": secret}, forget_mode="hard")
        await index.save()
        keep(memory, tmp_path / "kept")
    put_back(memory, tmp_path / "kept")
    assert secret in words_of(memory)
    async with open_memory("one", shared) as memory:
        await until_gone(memory, secret)
        assert (await memory.ok("retrieve_memory", query="lantern", mode="text"))["results"]
        assert not (memory.app.home.sidecars / "text" / "unclean").exists()


async def test_what_another_process_forgot_for_good_leaves_these_files_too(open_memory: Open) -> None:
    shared = {"mongodb.database": fresh_database()}
    async with open_memory("one", shared) as one, open_memory("two", shared) as two:
        secret = await one.store("The secret word is heliotrope.")
        await one.store("The lantern was lit.")
        while await two.services.index.count() != 2:
            await asyncio.sleep(0.02)
        await two.services.index.save()
        assert secret in words_of(two)
        await one.ok("delete_memory", target={"memory_id": secret}, forget_mode="hard")
        await until_gone(two, secret)


async def test_words_stored_after_a_rebuild_are_kept_by_a_generation_that_was_begun_before(
    monkeypatch: pytest.MonkeyPatch, open_memory: Open
) -> None:
    async with asyncio.timeout(20):
        async with open_memory() as memory:
            await memory.store("The bell rang twice.")
            gone = await memory.store("The bell is cracked.")
            index, store = memory.services.index, memory.services.store
            fetch, begun, may_go_on = store.fetch, asyncio.Event(), asyncio.Event()
            generations: list[asyncio.Task[Any]] = []

            async def slow_fetch(*arguments: Any, **options: Any) -> Any:
                if (task := asyncio.current_task()) is not None and task.get_name() == "text index":
                    generations.append(task)
                    begun.set()
                    await may_go_on.wait()
                return await fetch(*arguments, **options)

            monkeypatch.setattr(store, "fetch", slow_fetch)
            await memory.ok("delete_memory", target={"memory_id": gone}, forget_mode="hard")
            await begun.wait()
            await memory.engine.maintenance.reindex()
            kept = await memory.store("The ropes of the bell are new.")
            may_go_on.set()
            await asyncio.wait(generations[:1])
            assert index.words is not None
            assert index.words.is_current(MemoryId(kept), 1)


async def test_words_that_the_feed_had_not_told_when_a_rebuild_began_are_told_after_it(
    monkeypatch: pytest.MonkeyPatch, open_memory: Open
) -> None:
    async with asyncio.timeout(10):
        shared = {"mongodb.database": fresh_database()}
        async with open_memory("one", shared) as one, open_memory("two", shared) as two:
            await one.store("The buoy is red.")
            index = one.services.index
            monkeypatch.setattr(index._words, "purge_soon", lambda: None)  # or they would be written anew at once
            async with index.paused():
                kept = [await two.store(f"The buoy number {number} is green.") for number in range(3)]
                assert await one.engine.maintenance.reindex() == 4
            words = index.words
            assert words is not None
            while not all(words.is_current(MemoryId(each), 1) for each in kept):
                await asyncio.sleep(0.02)


def make_late(monkeypatch: pytest.MonkeyPatch, memory: Memory, untold: str) -> None:
    """Let the store read as at a primary that was just elected: *untold* is there only for who asks for the latest."""
    fetch = memory.services.store.fetch

    async def late_fetch(located: Located, *, latest: bool = False, **options: Any) -> Any:
        found = await fetch(located, latest=latest, **options)
        return {one: record for one, record in found.items() if latest or one != untold}

    monkeypatch.setattr(memory.services.store, "fetch", late_fetch)


async def test_a_new_generation_has_the_words_that_a_new_primary_does_not_tell_yet(
    monkeypatch: pytest.MonkeyPatch, open_memory: Open
) -> None:
    async with open_memory() as memory:
        await memory.store("The rope is long.")
        stored = MemoryId(await memory.store("The anchor is heavy."))
        index = memory.services.index
        make_late(monkeypatch, memory, stored)
        await index._words.rebuild(await index.sidecar())
        assert index.words is not None
        assert index.words.is_current(stored, 1)


async def test_words_that_follow_the_store_alone_keep_what_a_new_primary_does_not_tell_yet(
    monkeypatch: pytest.MonkeyPatch, open_memory: Open
) -> None:
    async with open_memory() as memory:
        stored = MemoryId(await memory.store("The anchor is heavy."))
        index = memory.services.index
        located = dict((await index.sidecar()).locate([stored]))
        make_late(monkeypatch, memory, stored)
        await index._follower.words_alone._enter(OfflineIndex("the index is away"), located, set())
        assert index.words is not None
        assert index.words.is_current(stored, 1)
