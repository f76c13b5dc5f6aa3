"""Recall while the model is loading, and where there is none: by words, with a note; then by meaning too."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from infinite_memory.app import App, new_session
from infinite_memory.config import load_config
from infinite_memory.embedding.factory import open_embedder
from infinite_memory.home import Home
from tests.mongo_server import fresh_database, run
from tests.processes import need_parts
from tests.store.lifecycle.conftest import Memory


class HeldUpApp(App):
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


@contextlib.asynccontextmanager
async def opened(kind: type[App], mongo_uri: str, folder: Path, **flags: str) -> AsyncIterator[Memory]:
    given = {"mongodb.uri": mongo_uri, "mongodb.database": fresh_database(), "backup.time": ""}
    given |= {"recall.model_wait_s": "0", "recall.wait_s": "3"}
    config = load_config(folder / "none.toml", {}, given | flags)
    async with kind(config, Home(folder / "home", explicit=True)) as app:
        yield Memory(app, await app.engine(), app.contract(new_session(config, {})))


def test_a_recall_while_the_model_loads_goes_by_words_and_says_so(mongo_uri: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(HeldUpApp, mongo_uri, tmp_path) as memory:
            stored = await memory.ask("store_memory", content="Rosa grows tomatoes on the balcony")
            assert stored["status"] == "OK"
            found = await memory.ok("retrieve_memory", query="tomatoes")
            assert found["results"][0]["memory_id"] == stored["memory_id"]
            assert "found by words alone: the embedding model is still loading" in found["note"]
            refused = await memory.ask("retrieve_memory", query="tomatoes", mode="semantic")
            assert refused["error_code"] == "EMBEDDING_ERROR"
            assert isinstance(memory.app, HeldUpApp)
            memory.app.let_go.set()
            await memory.engine.parts.embeddings.ready(60)
            found = await memory.ok("retrieve_memory", query="who has a garden?")
            assert "note" not in found

    run(work())


def test_a_recall_without_a_model_goes_by_words_and_says_so(mongo_uri: str, tmp_path: Path) -> None:
    async def work() -> None:
        async with opened(App, mongo_uri, tmp_path, **{"embedding.model": str(tmp_path / "none")}) as memory:
            stored = await memory.ask("store_memory", content="Rosa grows tomatoes on the balcony")
            for mode in ("hybrid", "text", "fuzzy"):
                found = await memory.ok("retrieve_memory", query="tomatoes", mode=mode)
                assert found["results"][0]["memory_id"] == stored["memory_id"]
                assert ("is not on this machine" in found.get("note", "")) == (mode == "hybrid")
            refused = await memory.ask("retrieve_memory", query="tomatoes", mode="semantic")
            assert refused["error_code"] == "EMBEDDING_ERROR"

    run(work())
