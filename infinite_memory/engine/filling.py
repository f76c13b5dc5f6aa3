"""Fills an empty sidecar from the store: at a start without files, and when the index is to be written anew."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from infinite_memory.engine.garbage import seldom_searched
from infinite_memory.engine.newest import Newest
from infinite_memory.sidecar.base import Sidecar
from infinite_memory.store.base import Store


async def fill(store: Store, sidecar: Sidecar, removals: Newest, report: Callable[[int], None]) -> None:
    """Enter every memory of the store, but what is removed meanwhile.

    Args:
        report: Told how many memories were read so far.

    Raises:
        StoreError: the store cannot be read.
    """
    count, began = 0, removals.count
    with seldom_searched():
        async with contextlib.aclosing(store.rows()) as pages:
            async for rows in pages:
                count += len(rows)
                report(count)
                await asyncio.to_thread(sidecar.enter, rows)
                if removals.count > began:
                    sidecar.remove(removals.since(began, rows.memory_ids()))
