"""Does one thing to a memory until it is done or this process is killed; run by `test_killed` as a process of its own.

Arguments: what to do, MongoDB's URI, the database, the home, and a file to work on (or "-").
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from infinite_memory.app import App, new_session
from infinite_memory.config import load_config
from infinite_memory.home import Home


async def work(what: str, uri: str, database: str, home: str, file: str) -> None:
    """Open the memory, say "ready", and do it."""
    flags = {"mongodb.uri": uri, "mongodb.database": database, "backup.time": "", "time.zone": "UTC"}
    config = load_config(Path(home) / "none.toml", {}, flags)
    async with App(config, Home(Path(home), explicit=True)) as app:
        contract = app.contract(new_session(config, {}))
        await contract.handle({"action": "health_check"})
        print("ready", flush=True)
        requests = {
            "backup": {"action": "backup_memory"},
            "replace": {"action": "restore_backup", "file": file, "mode": "replace"},
            "merge": {"action": "restore_backup", "file": file, "mode": "merge"},
            "import": {"action": "import_memory", "path": file},
            "compact": {"action": "optimize_memory"},
        }
        reply = await contract.handle(requests[what])
        print(reply["status"], flush=True)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
