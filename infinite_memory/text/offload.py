"""Run work on the texts of memories: directly if they are few, in a thread if it would block the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

FEW_CHARS = 50_000  # processed directly; tokenizing them takes five milliseconds


async def run_at_once_or_in_thread(texts: Iterable[str], func: Callable[[], T]) -> T:
    """Run *func*, which processes *texts*; in a thread if they are so large that it would block the event loop."""
    if sum(map(len, texts)) <= FEW_CHARS:
        return func()
    return await asyncio.get_running_loop().run_in_executor(None, func)
