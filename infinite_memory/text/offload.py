"""Looking through the texts of memories: at once where there are few, in a thread where it would hold up the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

FEW_CHARS = 50_000  # of texts that are looked through at once; their words take five milliseconds


async def run_at_once_or_in_thread(texts: Iterable[str], work: Callable[[], T]) -> T:
    """Run *work*, which looks through *texts*; in a thread where there is so much of them that others would wait."""
    if sum(map(len, texts)) <= FEW_CHARS:
        return work()
    return await asyncio.get_running_loop().run_in_executor(None, work)
