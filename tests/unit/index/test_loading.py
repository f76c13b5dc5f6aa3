"""How an index is loaded beside an event loop that goes on."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any, cast

from infinite_memory.index.loading import IndexLoader
from infinite_memory.index.recent_ids import RecentIds


async def test_no_full_search_for_garbage_is_made_while_a_large_index_is_loaded() -> None:
    usual, during = gc.get_threshold(), []

    def load(*_: Any) -> tuple[None, bytes]:
        during.append(gc.get_threshold())
        return None, b""

    parts = SimpleNamespace(identity="store"), SimpleNamespace(space="space", dim=8), SimpleNamespace(load=load)
    await IndexLoader(*cast("Any", parts), RecentIds()).load()
    assert during[0][2] > 100 * usual[2]
    assert gc.get_threshold() == usual
