"""Batches events of the store's change feed, so that changes are applied together and the loop stays responsive."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from infinite_memory.store.base import Change, Store

MAX_CHANGES = 500  # applied together at most: few enough to keep the loop responsive
HOLD_S = 0.1  # a change waits at most about this long for a batch to fill


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Changes in order, none while the feed is silent. ``is_level``: with them the reader has caught up with the store."""

    changes: Sequence[Change]
    is_level: bool


async def gather_changes(store: Store, token: bytes, *, is_level: bool) -> AsyncGenerator[ChangeBatch]:
    """Yield the changes after *token*, then new ones as they happen.

    The reader has caught up when the feed is silent, or has delivered all changes made before the call: other processes may write
    without a pause.

    Args:
        is_level: Whether the reader had caught up already: changes are then batched from the first.

    Raises:
        FeedLostError: the feed does not reach back to *token*.
        StoreError: the store cannot be followed.
    """
    mark = None if is_level else await store.change_token()
    batch: list[Change] = []
    first_at = 0.0
    async with contextlib.aclosing(store.changes(token)) as changes:
        async for change in changes:
            now = time.monotonic()
            if change is not None:
                first_at = first_at if batch else now
                batch.append(change)
            reached = change is None or (mark is not None and store.has_reached(change.token, mark))
            if reached or now - first_at > HOLD_S or len(batch) >= MAX_CHANGES:
                yield ChangeBatch(batch, reached)
                batch = []
                mark = None if reached else mark
