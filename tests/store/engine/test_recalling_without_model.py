"""Recall while the model is loading, and where there is none: by words, with a note; then by meaning too."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from infinite_memory.bootstrap import Application, new_session
from infinite_memory.cli.admin import report_health
from infinite_memory.config import load_config
from infinite_memory.embedding.factory import DeferredEmbedder, open_embedder
from infinite_memory.paths import Home
from tests.mongo_server import fresh_database
from tests.processes import need_parts, processes_of, until
from tests.store.lifecycle.conftest import Memory


class HeldUpApp(Application):
    """An app whose model, the real one, begins to load only when it is let go."""

    let_go: threading.Event

    def _open_parts(self) -> Any:
        need_parts()
        embedder = open_embedder("all-MiniLM-L6-v2")
        load, self.let_go = embedder.load, threading.Event()

        def held_up() -> None:
            self.let_go.wait(60)
            load()

        embedder.load = held_up  # type: ignore[method-assign]
        return embedder, *super()._open_parts()[1:]


class PreparingApp(Application):
    """An app whose model is not on the machine yet: it is written from its weights, which the tests' environment has."""

    folder: Path

    def _open_parts(self) -> Any:
        return DeferredEmbedder(self.folder, precision="int8"), *super()._open_parts()[1:]


@contextlib.asynccontextmanager
async def opened(kind: type[Application], mongo_uri: str, folder: Path, **flags: str) -> AsyncIterator[Memory]:
    given = {"mongodb.uri": mongo_uri, "mongodb.database": fresh_database(), "backup.time": ""}
    given |= {"recall.model_wait_s": "0", "recall.wait_s": "3"}
    config = load_config(folder / "none.toml", {}, given | flags)
    async with kind(config, Home(folder / "home", explicit=True)) as app:
        yield Memory(app, await app.engine(), app.contract(new_session(config, {})))


async def test_a_recall_while_the_model_loads_goes_by_words_and_says_so(mongo_uri: str, tmp_path: Path) -> None:
    async with opened(HeldUpApp, mongo_uri, tmp_path) as memory:
        stored = await memory.ask("store_memory", content="Rosa grows tomatoes on the balcony")
        assert stored["status"] == "OK"
        found = await memory.ok("retrieve_memory", query="tomatoes")
        assert found["results"][0]["memory_id"] == stored["memory_id"]
        assert "found by words alone: the embedding model is still loading" in found["note"]
        refused = await memory.ask("retrieve_memory", query="tomatoes", mode="semantic")
        assert refused["error_code"] == "EMBEDDING_ERROR"
        for flags in ({"dry_run": True}, {}):
            kept = await memory.ok("delete_memory", target={"query": "what Rosa likes to have near her"}, **flags)
            assert kept["deleted_count"] == 0
            assert "found by words alone: the embedding model is still loading" in kept["note"], flags
        assert isinstance(memory.app, HeldUpApp)
        memory.app.let_go.set()
        await memory.services.embeddings.ready(60)
        async with asyncio.timeout(60):
            while "note" in (found := await memory.ok("retrieve_memory", query="who has a garden?")):
                assert found["note"] == "some memories have no vector yet: those are found by words alone"
                await asyncio.sleep(0.01)
        assert found["results"][0]["memory_id"] == stored["memory_id"]


async def test_a_recall_says_that_a_memory_has_no_vector_yet(
    mongo_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write = asyncio.Event()

    async with opened(HeldUpApp, mongo_uri, tmp_path) as memory:
        assert isinstance(memory.app, HeldUpApp)
        write = memory.services.store.set_embedding

        async def later(*arguments: Any) -> bool:
            await may_write.wait()
            return await write(*arguments)

        monkeypatch.setattr(memory.services.store, "set_embedding", later)
        stored = await memory.ok("store_memory", content="Rosa grows tomatoes on the balcony")
        memory.app.let_go.set()
        await memory.services.embeddings.ready(60)
        found = await memory.ok("retrieve_memory", query="who has a garden?")
        assert found["note"] == "some memories have no vector yet: those are found by words alone"
        may_write.set()
        async with asyncio.timeout(60):
            while await memory.services.index.count_pending():
                await asyncio.sleep(0.01)
        while "note" in (found := await memory.ok("retrieve_memory", query="who has a garden?")):
            await asyncio.sleep(0.01)
        assert found["results"][0]["memory_id"] == stored["memory_id"]


async def test_while_the_model_is_made_ready_words_are_found_and_then_meaning_too(
    mongo_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_parts()
    monkeypatch.setattr(PreparingApp, "folder", tmp_path / "all-MiniLM-L6-v2", raising=False)

    async with opened(PreparingApp, mongo_uri, tmp_path) as memory:
        stored = await memory.ok("store_memory", content="Rosa grows tomatoes on the balcony")
        assert stored["embedding"] == "pending"
        assert "preparing the model (" in stored["note"]
        found = await memory.ok("retrieve_memory", query="tomatoes")
        assert found["results"][0]["memory_id"] == stored["memory_id"]
        assert re.search(r"found by words alone: preparing the model \(\d+ %\)", found["note"])
        embeddings = memory.services.embeddings
        assert embeddings.state == "preparing"
        health, stats = await memory.ask("health_check"), (await memory.ok("get_memory_stats"))["stats"]
        findings: dict[str, tuple[str | None, str, bool]] = {}

        def found_by_doctor(name: str, problem: str | None, good: str, *, wait: bool = False) -> None:
            findings[name] = (problem, good, wait)

        report_health(health, stats, "MongoDB", found_by_doctor)
        problem, says, is_waiting = findings["model"]
        assert (problem, is_waiting) == (None, True)
        assert re.match(r"preparing the model \(\d+ %\); nothing to do", says)
        assert findings["mongodb"] == (None, "MongoDB", False)
        async with asyncio.timeout(120):
            while embeddings.state != "ready" or await memory.services.index.count_pending():
                await asyncio.sleep(0.05)
        found = await memory.ok("retrieve_memory", query="who has a garden?", mode="semantic")
        assert found["results"][0]["memory_id"] == stored["memory_id"]


async def test_a_memory_that_closes_stops_making_the_model_ready(
    mongo_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need_parts()
    monkeypatch.setattr(PreparingApp, "folder", tmp_path / "all-MiniLM-L6-v2", raising=False)

    async with opened(PreparingApp, mongo_uri, tmp_path) as memory:
        assert "preparing the model" in (await memory.ok("store_memory", content="tea"))["note"]
    assert not (tmp_path / "all-MiniLM-L6-v2").exists()
    until(lambda: not processes_of(tmp_path), "no process is left")


async def test_a_recall_without_a_model_goes_by_words_and_says_so(mongo_uri: str, tmp_path: Path) -> None:
    async with opened(Application, mongo_uri, tmp_path, **{"embedding.model": str(tmp_path / "none")}) as memory:
        stored = await memory.ask("store_memory", content="Rosa grows tomatoes on the balcony")
        for mode in ("hybrid", "text", "fuzzy"):
            found = await memory.ok("retrieve_memory", query="tomatoes", mode=mode)
            assert found["results"][0]["memory_id"] == stored["memory_id"]
            assert ("is not on this machine" in found.get("note", "")) == (mode == "hybrid")
        refused = await memory.ask("retrieve_memory", query="tomatoes", mode="semantic")
        assert refused["error_code"] == "EMBEDDING_ERROR"
