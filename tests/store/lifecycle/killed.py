"""Sends one request to a memory of its own process, which `test_killed` ends in the middle.

Arguments: MongoDB's URI, the database, the home, settings as JSON, and the request as JSON. Says "ready" before it begins, and
afterwards how it ended and how long it took.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

from infinite_memory.bootstrap import Application, new_session
from infinite_memory.config import load_config
from infinite_memory.paths import Home


async def work(uri: str, database: str, home: str, flags: str, request: str) -> None:
    """Open the memory, say "ready", and do it."""
    given = {"mongodb.uri": uri, "mongodb.database": database, "backup.time": "", "time.zone": "UTC"}
    config = load_config(Path(home) / "none.toml", {}, given | json.loads(flags))
    async with Application(config, Home(Path(home), explicit=True)) as app:
        contract = app.contract(new_session(config, {}))
        await contract.handle({"action": "health_check"})
        print("ready", flush=True)
        began = time.monotonic()
        reply = await contract.handle(json.loads(request))
        print(reply["status"], time.monotonic() - began, flush=True)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
