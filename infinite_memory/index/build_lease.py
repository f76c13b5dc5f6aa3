"""One of several daemons builds an index that they share; the others wait, and open what it built."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import secrets
from collections.abc import AsyncIterator

from infinite_memory.errors import StoreError
from infinite_memory.store.base import Store
from infinite_memory.tasks import cancel_and_wait

log = logging.getLogger(__name__)

NAME = "index_build"
DURATION = dt.timedelta(seconds=60)  # a daemon that dies while it builds is followed by another after this long
RENEW_S = 15.0  # a quarter of it: a renewal that fails ends nothing


@contextlib.asynccontextmanager
async def build_lease(store: Store) -> AsyncIterator[bool]:
    """Hold the lease inside, and yield whether it is held: another daemon may have it.

    Raises:
        StoreError: the store cannot be asked.
    """
    holder = secrets.token_hex(8)
    is_ours = await store.copies.take_lease(NAME, holder, DURATION)
    renewing = asyncio.create_task(_renew(store, holder), name="lease of the index") if is_ours else None
    try:
        yield is_ours
    finally:
        if renewing is not None:
            await cancel_and_wait([renewing])
            with contextlib.suppress(StoreError):  # it ends by itself
                await store.copies.release_lease(NAME, holder)


async def _renew(store: Store, holder: str) -> None:
    while True:
        await asyncio.sleep(RENEW_S)
        try:
            await store.copies.take_lease(NAME, holder, DURATION)
        except StoreError as exc:
            log.info("the lease of the index is not renewed: %s", exc, extra={"event": "lease_not_renewed"})
