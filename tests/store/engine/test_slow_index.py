"""An index whose server answers nothing: a recall waits a moment for it, then goes by words and says so."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from infinite_memory.engine.types import ScopedFilter
from infinite_memory.errors import IndexUnavailableError
from tests.milvus_server import LiteServer
from tests.mongo_server import fresh_database, run
from tests.store.lifecycle.conftest import Open

EVERYWHERE = ScopedFilter(None)


@pytest.mark.skipif(sys.platform != "linux", reason="the server is frozen by Linux' means")
def test_a_silent_server_is_not_waited_for_by_a_recall(open_memory: Open, tmp_path: Path) -> None:
    milvus = LiteServer(tmp_path / "milvus")
    settings = {"index.engine": "milvus", "index.uri": milvus.uri, "index.timeout_s": 60}

    async def work() -> None:
        async with open_memory("one", settings | {"mongodb.database": fresh_database()}) as memory:
            await memory.store("Ada has green tea for breakfast")
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

    milvus.start()
    try:
        run(work())
    finally:
        milvus.kill()
