"""Progress of long work, told to a client's pipe beside the replies; for our own commands, which ask for it in their greeting."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

EVERY_S = 0.2


class ProgressLines:
    """Hands on how far work is, a few times a second at most and never before the one before was sent."""

    def __init__(self, tell: Callable[[Mapping[str, Any]], Awaitable[None]]) -> None:
        self._tell = tell
        self._told_at = 0.0
        self._telling: asyncio.Task[None] | None = None

    def __call__(self, done: int, total: int) -> None:
        """Learn how much is done, of how much; 0 for unknown. To be called on the event loop."""
        now = time.monotonic()
        if now - self._told_at < EVERY_S or (self._telling is not None and not self._telling.done()):
            return
        self._told_at = now
        self._telling = asyncio.create_task(
            self._quietly({"progress": {"done": done, "total": total}}), name="progress"
        )

    async def _quietly(self, state: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the client left; its session ends by itself
            await self._tell(state)
