"""A large import goes at the model's speed: the next batch is embedded while one is written, and a failure leaves nothing twice."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.engine.records import LONG_CHARS
from infinite_memory.errors import ScopeArchivedError, StoreUnavailableError
from infinite_memory.models import MemoryRecord, Scope
from infinite_memory.transfer.entry_reader import BATCH
from infinite_memory.transfer.importer import Importer
from tests.store.lifecycle.conftest import Memory, Open

COUNT = 3 * BATCH + 40
LONG_S = 120  # a hang fails the test, a slow machine does not


def lines(folder: Path) -> Path:
    """Write an export of `COUNT` memories of many lengths."""
    records: list[dict[str, Any]] = [{"kind": "header", "format": "infinite-memory-export", "version": 1}]
    records += [
        {"kind": "memory", "text": f"shelf {number} holds {'a box and ' * (number % 9)}a jar", "scope": "Cellar"}
        for number in range(COUNT)
    ]
    file = folder / "export.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records), "utf-8")
    return file


class Watched:
    """The real store; lets each insertion be looked at before it is made."""

    def __init__(self, memory: Memory) -> None:
        self._real, self.inserted = memory.services.store, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def insert(self, memories: Sequence[MemoryRecord], *, include_archived: bool = False) -> None:
        """Insert, after `before`."""
        await self.before()
        await self._real.insert(memories, include_archived=include_archived)
        self.inserted += len(memories)

    async def before(self) -> None:
        """Do nothing."""


def importer_of(memory: Memory, **others: Any) -> Importer:
    """Return the importer of a memory, some of what it works with replaced."""
    named = {one.name for one in dataclasses.fields(Importer)}
    parts = {name: getattr(memory.services, name) for name in named}
    return Importer(**parts | others)


async def test_a_large_import_is_whole_and_tells_how_far_it_is(open_memory: Open, tmp_path: Path) -> None:
    async with open_memory() as memory:
        told: list[int] = []
        done = await importer_of(memory).import_path(lines(tmp_path), progress=lambda read, _: told.append(read))
        assert (done.added, done.present, done.refused_count) == (COUNT, 0, 0)
        assert told == sorted(set(told))
        assert told[-1] == COUNT
        assert await memory.services.index.count_pending() == 0
        reply = await memory.ok("retrieve_memory", query="shelf 333 holds a jar", scope="Cellar", top_k=3)
        assert reply["results"][0]["text"].startswith("shelf 333 ")


async def test_a_long_text_is_stored_at_once_and_embedded_later(open_memory: Open, tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    texts = ["shelf 1 holds a jar", "jar " * (LONG_CHARS // 4) + "jar", "shelf 2 holds a jar"]
    file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), "utf-8")

    async with open_memory() as memory:
        stored: dict[str, bool] = {}

        class Noting(Watched):
            async def insert(self, memories: Sequence[MemoryRecord], *, include_archived: bool = False) -> None:
                stored.update((one.text[:7], one.embedding is not None) for one in memories)
                await super().insert(memories, include_archived=include_archived)

        done = await importer_of(memory, store=Noting(memory)).import_path(file)
        assert (done.added, stored) == (3, {"shelf 1": True, "jar jar": False, "shelf 2": True})


async def test_the_next_batch_is_embedded_while_one_is_written(open_memory: Open, tmp_path: Path) -> None:
    async with open_memory() as memory:
        embeddings, begun = memory.services.embeddings, asyncio.Event()
        embed, calls = embeddings.embed_memories, 0

        class Waiting(Watched):
            async def before(self) -> None:
                await asyncio.wait_for(begun.wait(), LONG_S)  # comes only when a second batch is being embedded

        class Counting:
            def __getattr__(self, name: str) -> Any:
                return getattr(embeddings, name)

            async def embed_memories(self, texts: Sequence[str]) -> Any:
                nonlocal calls
                calls += 1
                if calls == 2:
                    begun.set()
                return await embed(texts)

        importer = importer_of(memory, store=Waiting(memory), embeddings=Counting())
        assert (await importer.import_path(lines(tmp_path))).added == COUNT


async def test_an_import_stops_before_it_fills_the_disk(open_memory: Open, tmp_path: Path) -> None:
    async with open_memory() as memory:
        copies = memory.services.store.copies
        assert await copies.find_shortage() is None
        assert "MiB are free" in (await copies.find_shortage(1 << 60) or "")

        class Shrinking:
            def __getattr__(self, name: str) -> Any:
                return getattr(copies, name)

            async def find_shortage(self, size: int = 0) -> str | None:
                return await copies.find_shortage(size + ((1 << 60) if store.inserted else 0))

        class Filling(Watched):
            copies = Shrinking()

        store = Filling(memory)
        with pytest.raises(StoreUnavailableError, match=f"make room; {BATCH} memories were added before"):
            await importer_of(memory, store=store).import_path(lines(tmp_path))
        assert store.inserted == BATCH
        done = await importer_of(memory).import_path(lines(tmp_path))
        assert (done.added, done.present) == (COUNT - BATCH, BATCH)


async def test_an_import_that_failed_half_way_is_finished_by_doing_it_again(open_memory: Open, tmp_path: Path) -> None:
    async with open_memory() as memory:

        class Failing(Watched):
            async def before(self) -> None:
                if self.inserted:
                    raise StoreUnavailableError("the plug was pulled")

        store = Failing(memory)
        with pytest.raises(StoreUnavailableError, match="the plug was pulled"):
            await importer_of(memory, store=store).import_path(lines(tmp_path))
        assert store.inserted == BATCH
        done = await importer_of(memory).import_path(lines(tmp_path))
        assert (done.added, done.present) == (COUNT - store.inserted, store.inserted)
        again = await importer_of(memory).import_path(lines(tmp_path))
        assert (again.added, again.present) == (0, COUNT)
        assert await memory.services.index.count() == COUNT


async def test_nothing_is_imported_into_a_scope_that_somebody_put_away_meanwhile(
    open_memory: Open, tmp_path: Path
) -> None:
    """Who removes a scope for good archives it first, and looks what is in it: what comes later would go uncounted."""

    async with open_memory() as memory:
        await memory.ok("create_memory_scope", scope_name="Cellar")

        class Archiving(Watched):
            scope: Scope

            async def before(self) -> None:
                if self.inserted and self.scope.archived_at is None:
                    self.scope = await self._real.set_scope_archived(self.scope.scope_id, dt.datetime.now(dt.UTC))

        store = Archiving(memory)
        store.scope = await memory.services.scopes.get("Cellar")
        with pytest.raises(ScopeArchivedError, match="Cellar"):
            await importer_of(memory, store=store).import_path(lines(tmp_path))
        assert (await store.count_live())[store.scope.scope_id] == store.inserted < COUNT
