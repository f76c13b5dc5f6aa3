"""Who asks is told of changes, whatever another listener does."""

from __future__ import annotations

import asyncio

from infinite_memory.engine.events import Event
from tests.store.lifecycle.conftest import Open


async def test_a_listener_that_fails_keeps_nobody_from_hearing_of_this_change_and_the_next(open_memory: Open) -> None:
    async with open_memory() as memory:
        heard: asyncio.Queue[Event] = asyncio.Queue()

        def fail(_: Event) -> None:
            raise ValueError("I cannot listen")

        memory.app.events.subscribe(fail)
        memory.app.events.subscribe(heard.put_nowait)
        for _ in range(2):
            one = await memory.store("tea")
            while (await heard.get()).memory_id != one:
                pass
