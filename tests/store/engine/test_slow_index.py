"""An index whose server is silent or slow: a recall waits a moment for it, then goes by words and says so."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Collection, Mapping
from pathlib import Path

import pytest

from infinite_memory.engine.types import ScopedFilter
from infinite_memory.errors import IndexUnavailableError
from infinite_memory.index.sync import SLOW_S
from infinite_memory.models import MemoryId
from tests.milvus_server import LiteServer
from tests.mongo_server import fresh_database
from tests.store.lifecycle.conftest import Memory, Open

EVERYWHERE = ScopedFilter(None)


@pytest.fixture
async def remembering(open_memory: Open, tmp_path: Path) -> AsyncIterator[tuple[Memory, LiteServer]]:
    """Give a memory of one sentence over a Milvus server."""
    milvus = LiteServer(tmp_path / "milvus")
    settings = {"index.engine": "milvus", "index.uri": milvus.uri, "index.timeout_s": 60}
    milvus.start()
    try:
        async with open_memory("one", settings | {"mongodb.database": fresh_database()}) as memory:
            await memory.store("Ada has green tea for breakfast")
            yield memory, milvus
    finally:
        milvus.kill()


@pytest.mark.skipif(sys.platform != "linux", reason="the server is frozen by Linux' means")
async def test_a_silent_server_is_not_waited_for_by_a_recall(remembering: tuple[Memory, LiteServer]) -> None:
    memory, milvus = remembering
    await memory.services.index.sidecar()
    await asyncio.to_thread(milvus.freeze)
    try:
        for _ in range(2):  # the second time it is not asked
            found = await memory.engine.recall.search("breakfast", EVERYWHERE, 5)
            assert len(found.matches) == 1
            assert "does not answer" in (found.note or "")
        with pytest.raises(IndexUnavailableError, match="does not answer"):
            await memory.services.index.probe()
    finally:
        await asyncio.to_thread(milvus.thaw)


async def test_a_server_that_answers_but_slowly_is_not_waited_for_either(
    remembering: tuple[Memory, LiteServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, _ = remembering
    index = await memory.services.index.sidecar()
    get_revisions = index.get_revisions

    def get_late(memory_ids: Collection[MemoryId]) -> Mapping[MemoryId, int]:
        time.sleep(SLOW_S + 1)
        return get_revisions(memory_ids)

    monkeypatch.setattr(index, "get_revisions", get_late)
    for _ in range(2):  # the second time it is not asked
        found = await memory.engine.recall.search("breakfast", EVERYWHERE, 5)
        assert len(found.matches) == 1
        assert "takes more than 2.5 s" in (found.note or "")
    with pytest.raises(IndexUnavailableError, match="takes more than"):
        await memory.services.index.probe()
