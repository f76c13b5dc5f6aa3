"""The moment up to which an index is level with a store that is written without a pause."""

from __future__ import annotations

import datetime as dt

from infinite_memory.index.level_clock import LevelClock
from tests.mongo_server import open_store

NOW = dt.datetime(2026, 3, 4, 5, 6, tzinfo=dt.UTC)


async def test_an_index_is_level_when_the_feed_is_silent_or_has_told_what_was_there_at_a_mark(
    mongo_uri: str, database: str
) -> None:
    async with open_store(mongo_uri, database) as store:
        clock = LevelClock(store, mark_every_s=0)
        token = await store.change_token()
        assert not await clock.told([], is_silent=False)
        assert clock.at is None
        await store.create_scope("Kitchen", "", NOW)
        change = None
        async for change in store.changes(token):
            if change is not None:
                break
        assert change is not None
        assert await clock.told([change], is_silent=False)
        marked_at = clock.at
        assert marked_at is not None
        assert not await clock.told([change], is_silent=False)  # before the mark that was taken now
        assert not await clock.told([change], is_silent=False)
        assert await clock.told([], is_silent=True)
        assert clock.at is not None
        assert clock.at > marked_at
