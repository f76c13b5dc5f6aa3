"""The engine over a real MongoDB, the real model and a real sidecar: storing, finding, forgetting, and what may go wrong."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from infinite_memory.bootstrap import Application
from infinite_memory.config import Config, load_config
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.maintenance import Operation
from infinite_memory.engine.types import ForgetMode, ForgetTarget, MemoryUpdate, NewMemory, ScopedFilter
from infinite_memory.errors import (
    InvalidRequestError,
    MemoryNotFoundError,
    ScopeArchivedError,
    ScopeExistsError,
    ScopeNotFoundError,
)
from infinite_memory.models import Filter, MemoryId
from infinite_memory.paths import Home
from tests.mongo_server import database, mongo_uri
from tests.processes import need_parts

__all__ = ["database", "mongo_uri"]

EVERYWHERE = ScopedFilter()


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = dt.datetime(2026, 3, 14, 12, tzinfo=dt.UTC)

    def __call__(self) -> dt.datetime:
        return self.now


class Place:
    """Where an engine can be opened, as often as a test likes."""

    def __init__(self, home: Path, uri: str, database: str) -> None:
        self.clock = Clock()
        self._home = Home(home, explicit=True)
        self._environ = {"INFINITE_MEMORY_MONGODB__URI": uri, "INFINITE_MEMORY_MONGODB__DATABASE": database}

    @contextlib.asynccontextmanager
    async def open(self, **settings: str) -> AsyncIterator[Engine]:
        config: Config = load_config(self._home.config_file, self._environ | settings)
        async with Application(config, self._home, self.clock) as app:
            yield await app.engine()


@pytest.fixture
def place(tmp_path: Path, mongo_uri: str, database: str) -> Place:
    need_parts()
    return Place(tmp_path / "home", mongo_uri, database)


async def store(engine: Engine, text: str, scope: str = "Global", **more: object) -> MemoryId:
    kept = await engine.memories.store(NewMemory(text, scope, **more))  # type: ignore[arg-type]
    return kept.memory.memory_id


async def texts(engine: Engine, where: ScopedFilter = EVERYWHERE) -> list[str]:
    return [memory.text for memory in (await engine.memories.list_page(where, 100)).memories]


async def test_what_was_stored_is_found_by_meaning_by_scope_and_after_a_restart(place: Place) -> None:
    async with place.open() as engine:
        blue = await store(engine, "My favorite color is blue", "Personal")
        await store(engine, "The deadline is on June 30th", "Work")
        found = await engine.recall.search("which colour do I like best?", EVERYWHERE, 2)
        assert found.matches[0].memory.memory_id == blue
        assert [memory.text for memory in (await engine.memories.list_page(ScopedFilter(("Work",)), 10)).memories] == [
            "The deadline is on June 30th"
        ]
    async with place.open() as engine:
        found = await engine.recall.search("which colour do I like best?", EVERYWHERE, 2)
        assert found.matches[0].memory.memory_id == blue


async def test_the_same_text_stored_twice_is_two_memories(place: Place) -> None:
    async with place.open() as engine:
        first, second = await store(engine, "tea"), await store(engine, "tea")
        assert first != second
        assert await texts(engine) == ["tea", "tea"]


async def test_a_forgotten_memory_is_not_found_again_until_it_is_brought_back(place: Place) -> None:
    async with place.open() as engine:
        blue = await store(engine, "My favorite color is blue")
        gone = await engine.forget.matching(ForgetTarget(memory_id=blue), ForgetMode.SOFT)
        assert gone.memory_ids == (blue,)
        assert await texts(engine) == []
        assert not (await engine.recall.search("colour", EVERYWHERE, 5)).matches
        with pytest.raises(MemoryNotFoundError):
            await engine.memories.get(blue)
        await engine.memories.restore(blue)
        assert (await engine.recall.search("colour", EVERYWHERE, 5)).matches[0].memory.memory_id == blue


async def test_what_was_removed_for_good_is_gone_with_its_history_even_if_it_was_hidden(place: Place) -> None:
    async with place.open() as engine:
        one = await store(engine, "the secret is 1234", tags=("secret",))
        await engine.memories.update(one, MemoryUpdate(text="the secret is 5678"))
        await engine.forget.matching(ForgetTarget(memory_id=one), ForgetMode.SOFT)
        gone = await engine.forget.matching(ForgetTarget(tag="secret"), ForgetMode.HARD)
        assert gone.memory_ids == (one,)
        assert (await engine.memories.history(one)).revisions == ()
        with pytest.raises(MemoryNotFoundError):
            await engine.memories.restore(one)
    async with place.open() as engine:
        assert await texts(engine) == []


@pytest.mark.parametrize("mode", ForgetMode)
async def test_a_scope_goes_as_a_whole(place: Place, mode: ForgetMode) -> None:
    async with place.open() as engine:
        await store(engine, "deadline", "Work")
        await store(engine, "tea")
        # What a hard deletion demands of a query's confidence must not make it another target than a scope's.
        gone = await engine.forget.matching(ForgetTarget(scope="Work", min_confidence=0.95), mode)
        assert gone.removed_scope is not None
        assert gone.removed_scope.name == "Work"
        assert await texts(engine) == ["tea"]
        if mode is ForgetMode.SOFT:
            with pytest.raises(ScopeArchivedError):
                await store(engine, "more", "Work")
            await engine.scopes.restore("Work")
            assert await texts(engine, ScopedFilter(("Work",))) == ["deadline"]
        else:
            with pytest.raises(ScopeNotFoundError):
                await engine.scopes.get("Work")
            await store(engine, "new", "Work")
            assert await texts(engine, ScopedFilter(("Work",))) == ["new"]


async def test_global_is_only_emptied(place: Place) -> None:
    async with place.open() as engine:
        await store(engine, "tea")
        assert (await engine.forget.matching(ForgetTarget(scope="Global"), ForgetMode.HARD)).removed_scope is None
        assert await texts(engine) == []
        await store(engine, "coffee")
        with pytest.raises(InvalidRequestError):
            await engine.forget.matching(ForgetTarget(scope="ALL"), ForgetMode.HARD)


async def test_scope_names_are_one_whatever_their_case_and_twenty_at_once_make_one(place: Place) -> None:
    async with place.open() as engine:
        await asyncio.gather(*(store(engine, f"m {n}", "wORK" if n % 2 else "Work") for n in range(20)))
        assert len([scope for scope in await engine.scopes.list_all() if scope.name.casefold() == "work"]) == 1
        assert len(await texts(engine, ScopedFilter(("WORK",)))) == 20
        with pytest.raises(ScopeExistsError):
            await engine.scopes.create("work", "")


async def test_a_long_history_comes_in_pages(place: Place) -> None:
    async with place.open() as engine:
        memory_id = await store(engine, "version 1 " + "x" * 300_000)
        for number in range(2, 9):
            await engine.memories.update(memory_id, MemoryUpdate(text=f"version {number} " + "x" * 300_000))
        pages, before = [], None
        while True:
            page = await engine.memories.history(memory_id, before)
            assert sum(len(revision.text) for revision in page.revisions) <= 1_000_000
            pages.append([revision.text[:9] for revision in page.revisions])
            if not page.older:
                break
            # Not by the number of the revision: one was passed over wherever a version got its vector before the next came.
            assert page.older == int(page.revisions[0].text.split()[1]) - 1
            before = page.revisions[0].revision
        assert pages == [[f"version {n}" for n in numbers] for numbers in ([5, 6, 7], [2, 3, 4], [1])]


async def test_a_version_larger_than_a_page_is_a_page(place: Place) -> None:
    async with place.open() as engine:
        memory_id = await store(engine, "y" * 1_040_000)
        await engine.memories.update(memory_id, MemoryUpdate(text="short"))
        page = await engine.memories.history(memory_id)
        assert ([len(revision.text) for revision in page.revisions], page.older) == ([1_040_000], 0)


async def test_a_change_is_found_and_the_old_words_stay_readable(place: Place) -> None:
    async with place.open() as engine:
        one = await store(engine, "My favorite color is blue")
        await asyncio.gather(*(engine.memories.update(one, MemoryUpdate(metadata={f"key{n}": n})) for n in range(4)))
        await engine.memories.update(one, MemoryUpdate(text="I would rather eat pizza"))
        assert (await engine.memories.get(one)).metadata == {f"key{n}": n for n in range(4)}
        assert [old.text for old in (await engine.memories.history(one)).revisions] == ["My favorite color is blue"] * 5
        assert (await engine.recall.search("favourite food", EVERYWHERE, 1)).matches[0].memory.text.endswith("pizza")


async def test_a_clock_that_jumps_back_loses_nothing_and_gives_no_id_twice(place: Place) -> None:
    async with place.open() as engine:
        ids = [await store(engine, "before")]
        place.clock.now -= dt.timedelta(days=400)
        ids.append(await store(engine, "after"))
        place.clock.now += dt.timedelta(days=4000)
        ids.append(await store(engine, "much later"))
        assert len(set(ids)) == 3
        assert await texts(engine) == ["much later", "before", "after"]
    place.clock.now -= dt.timedelta(days=8000)
    async with place.open() as engine:
        assert len(await texts(engine)) == 3


async def test_a_rebuild_beside_live_writes_and_deletions_misses_none(place: Place) -> None:
    async with place.open() as engine:
        kept = [await store(engine, f"before {n}") for n in range(30)]
        rebuilding = asyncio.gather(engine.maintenance.reindex(), engine.maintenance.reindex())
        for number in range(30):
            kept.append(await store(engine, f"during {number}"))
            await engine.forget.matching(ForgetTarget(memory_id=kept.pop(0)), ForgetMode.HARD)
        await rebuilding
        listed = {memory.memory_id for memory in (await engine.memories.list_page(EVERYWHERE, 100)).memories}
        assert listed == set(kept)
        [checked] = await engine.maintenance.optimize([Operation.CHECK_SIDECAR])
        assert checked.count == 0


async def test_expired_deletions_are_purged_and_younger_ones_stay(place: Place) -> None:
    async with place.open() as engine:
        old, young = await store(engine, "old"), await store(engine, "young")
        await engine.forget.matching(ForgetTarget(memory_id=old), ForgetMode.SOFT)
        place.clock.now += dt.timedelta(days=20)
        await engine.forget.matching(ForgetTarget(memory_id=young), ForgetMode.SOFT)
        place.clock.now += dt.timedelta(days=15)
        [would] = await engine.maintenance.optimize([Operation.PURGE_DELETED], dry_run=True)
        [done] = await engine.maintenance.optimize([Operation.PURGE_DELETED])
        assert (would.count, done.count) == (1, 1)
        await engine.memories.restore(young)
        with pytest.raises(MemoryNotFoundError):
            await engine.memories.restore(old)


async def test_a_filter_that_nothing_passes_finds_nothing(place: Place) -> None:
    async with place.open() as engine:
        await store(engine, "tea", tags=("test",))
        assert await texts(engine, ScopedFilter(None, Filter(tag_keys=frozenset({"testing"})))) == []
        assert await texts(engine, ScopedFilter(None, Filter(tag_keys=frozenset({"test"})))) == ["tea"]
        with pytest.raises(ScopeNotFoundError) as caught:
            await texts(engine, ScopedFilter(("Globl",)))
        assert caught.value.nearest == ("Global",)
