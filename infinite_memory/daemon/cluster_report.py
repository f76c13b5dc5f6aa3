"""Answers `infinite-memory cluster status`: servers and daemons of a shared memory, and how level each index is. For the owner alone."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from infinite_memory.bootstrap import Application
from infinite_memory.errors import InfiniteMemoryError


async def describe_cluster(app: Application) -> dict[str, Any]:
    """Return the reply; an error where the database cannot be asked."""
    try:
        await app.engine()
        assert app.presence is not None
        state = await app.presence.state()
    except InfiniteMemoryError as exc:
        return {"status": "ERROR", "error": str(exc), "error_code": exc.code}
    daemons = [
        asdict(one.note) | {"seen_s": round(one.seen_s, 1), "since_s": round(one.since_s, 1), "is_this": one.note.daemon_id == state.own_id}
        for one in state.daemons
    ]  # fmt: skip
    return {
        "status": "OK",
        "database": {"version": state.server_version, "deployment": state.deployment},
        "servers": [asdict(one) for one in state.servers],
        "daemons": daemons,
        "problems": state.find_problems(),
    }
