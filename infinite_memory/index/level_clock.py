"""When an index was last in sync with its store, even if others write without a pause and the change feed is never silent."""

from __future__ import annotations

import time
from collections.abc import Sequence

from infinite_memory.store.base import Change, Store

MARK_EVERY_S = 5.0  # how often the store is asked for a mark under constant writes; it costs a ping


class LevelClock:
    """The last moment at which an index is known to have been in sync, by the monotonic clock; None before the first."""

    def __init__(self, store: Store, mark_every_s: float = MARK_EVERY_S) -> None:
        self._store, self._mark_every_s = store, mark_every_s
        self.at: float | None = None
        self._mark: bytes | None = None
        self._marked_at = -mark_every_s

    async def told(self, changes: Sequence[Change], *, is_silent: bool) -> bool:
        """Record applied changes; True if the index now has all changes made up to a moment ago.

        Args:
            is_silent: Whether the feed has no further changes.

        Raises:
            StoreError: the store cannot be reached.
        """
        now = time.monotonic()
        if is_silent:
            self.at, self._mark = now, None
            return True
        if self._mark is not None and changes and self._store.has_reached(changes[-1].token, self._mark):
            self.at, self._mark = self._marked_at, None
            return True
        if self._mark is None and now - self._marked_at >= self._mark_every_s:
            self._mark, self._marked_at = await self._store.change_token(), now
        return False
