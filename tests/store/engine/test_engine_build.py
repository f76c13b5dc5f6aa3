"""An index of another engine that is filled beside the one in use: broken off and continued, and while others write."""

from __future__ import annotations

from pathlib import Path

import pytest

from infinite_memory.errors import ConfigError
from infinite_memory.index.engine_change import EngineChange
from infinite_memory.index.milvus.files import MilvusIndexFiles
from infinite_memory.settings import IndexSettings
from tests.mongo_server import fresh_database
from tests.store.lifecycle.conftest import Open


class BrokenOffError(Exception):
    """Ends a build in its middle, as a kill does."""


def no_progress(done: int, total: int) -> None:
    """Do nothing."""


def break_off(done: int, total: int) -> None:
    raise BrokenOffError


async def test_a_build_that_is_broken_off_is_continued_and_what_changed_meanwhile_is_in_it(
    open_memory: Open, tmp_path: Path
) -> None:
    settings = IndexSettings(engine="milvus", uri=str(tmp_path / "build.db"), timeout_s=30)

    async with open_memory("one", {"mongodb.database": fresh_database()}) as memory:
        for text in ("tea", "coffee", "milk"):
            await memory.store(f"Ada has {text} for breakfast")
        await memory.services.index.sidecar()
        with pytest.raises(BrokenOffError):
            await (await memory.app.open_engine_build(settings)).run(break_off)
        await memory.store("Bert has water for breakfast")
        build = await memory.app.open_engine_build(settings)
        assert await build.run(no_progress) == EngineChange(4, 4, True, 0, 4, 1.0)
        embeddings, store = memory.services.embeddings, memory.services.store
        files = MilvusIndexFiles(str(tmp_path / "build.db"), None, timeout_s=30)
        index, token = files.load(store.identity, embeddings.space, embeddings.dim)
        assert store.has_reached(token, token)
        assert sum(index.count_by_scope().values()) == 4
        with pytest.raises(ConfigError, match="already"):
            await memory.app.open_engine_build(IndexSettings(engine="faiss"))


def test_an_index_that_differs_takes_nothing_over() -> None:
    assert not EngineChange(3, 4, False, 0, 3, 1.0).is_good
    assert not EngineChange(4, 4, False, 2, 3, 1.0).is_good
    assert not EngineChange(4, 4, False, 0, 3, 0.9).is_good
    assert EngineChange(4, 4, False, 0, 0, None).is_good
