"""Moves memories between two scopes without end, in a process of its own, which `test_killed_moves` ends in the middle.

Arguments: MongoDB's URI, the database, the home. Says "ready" before it begins.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from pathlib import Path

from infinite_memory.bootstrap import Application
from infinite_memory.config import load_config
from infinite_memory.paths import Home


async def work(uri: str, database: str, home: str) -> None:
    """Open the memory, say "ready", and move."""
    given = {"mongodb.uri": uri, "mongodb.database": database, "backup.time": "", "time.zone": "UTC"}
    config = load_config(Path(home) / "none.toml", {}, given)
    async with Application(config, Home(Path(home), explicit=True)) as app:
        engine = await app.engine()
        store = app.services.store if app.services is not None else None
        assert store is not None
        ids = [memory.memory_id async for memory in store.stream()]
        for scope in itertools.cycle(("Other", "Global")):
            for memory_id in ids:
                await engine.memories.move(memory_id, scope)
                print("ready", flush=True)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
