"""A lease by which one of several daemons builds their shared index, while the others wait and then open it."""

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
DURATION = dt.timedelta(seconds=60)  # after this time another daemon takes over from one that died while building
RENEW_S = 15.0  # a quarter of it: one failed renewal does not lose the lease


@contextlib.asynccontextmanager
async def build_lease(store: Store) -> AsyncIterator[bool]:
    """Hold the lease inside the block, and yield whether it was acquired: another daemon may have it.

    Raises:
        StoreError: the store cannot be reached.
    """
    holder = secrets.token_hex(8)
    is_ours = await store.copies.take_lease(NAME, holder, DURATION)
    renewing = asyncio.create_task(_renew(store, holder), name="lease of the index") if is_ours else None
    try:
        yield is_ours
    finally:
        if renewing is not None:
            await cancel_and_wait([renewing])
            with contextlib.suppress(StoreError):  # it expires anyway
                await store.copies.release_lease(NAME, holder)


async def _renew(store: Store, holder: str) -> None:
    while True:
        await asyncio.sleep(RENEW_S)
        try:
            await store.copies.take_lease(NAME, holder, DURATION)
        except StoreError as exc:
            log.info("the lease of the index is not renewed: %s", exc, extra={"event": "lease_not_renewed"})
