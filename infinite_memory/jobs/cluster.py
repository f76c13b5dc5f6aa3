"""Membership of daemons that share one database: each sends a heartbeat with the state of its index."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from infinite_memory import __version__
from infinite_memory.errors import InfiniteMemoryError
from infinite_memory.index.sync import IndexSync
from infinite_memory.store.base import Store
from infinite_memory.store.members import DaemonNote, SeenDaemon, Server, ShardingPlan
from infinite_memory.tasks import cancel_and_wait

log = logging.getLogger(__name__)

NOTE_EVERY_S = 15.0
LOOK_EVERY_S = 1.0  # how often to check for a change worth a heartbeat
GONE_S = 60.0  # without a heartbeat for so long, a daemon has died or cannot reach the database
LATE_S = 60.0  # an index that has been out of sync for longer is reported


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The cluster of one memory: database, servers and daemons. ``own_id`` is the id of the reporting daemon."""

    server_version: str
    deployment: str
    servers: Sequence[Server]
    daemons: Sequence[SeenDaemon]
    own_id: str

    def serialize(self) -> dict[str, Any]:
        """Return it in the form of `cluster status --json`."""
        daemons = [
            asdict(daemon.note)
            | {
                "seen_s": round(daemon.seen_s, 1),
                "since_s": round(daemon.since_s, 1),
                "is_this": daemon.note.daemon_id == self.own_id,
            }
            for daemon in self.daemons
        ]
        return {
            "database": {"version": self.server_version, "deployment": self.deployment},
            "servers": [asdict(server) for server in self.servers],
            "daemons": daemons,
            "problems": self.find_problems(),
        }

    def find_problems(self) -> list[str]:
        """Return the problems, as sentences for people."""
        problems = [f"{server.name} is not reached" for server in self.servers if server.role == "unknown"]
        for daemon in self.daemons:
            name = f"{daemon.note.host} process {daemon.note.pid}"
            if daemon.seen_s > GONE_S:
                problems.append(f"{name} was last seen {daemon.seen_s:,.0f} s ago")
            elif (daemon.since_s if daemon.note.behind_s is None else daemon.note.behind_s) > LATE_S:
                problems.append(f"the index of {name} is not level: {daemon.note.index_state}")
        versions = sorted({daemon.note.version for daemon in self.daemons if daemon.seen_s <= GONE_S})
        engines = sorted({daemon.note.engine for daemon in self.daemons if daemon.seen_s <= GONE_S})
        if len(versions) > 1:
            problems.append(f"daemons of different versions run: {', '.join(versions)}")
        if len(engines) > 1:
            problems.append(f"daemons with different indexes run: {', '.join(engines)}")
        return problems


class Presence:
    """Sends this daemon's heartbeats, and lists the other daemons. Used from one event loop.

    Args:
        engine: The name of the index engine in use.
        is_shared: Whether other daemons may use the database; no heartbeats are sent otherwise.
    """

    def __init__(self, store: Store, index: IndexSync, *, engine: str, is_shared: bool) -> None:
        self._store, self._index, self._engine, self._is_shared = store, index, engine, is_shared
        self._id = secrets.token_hex(8)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the heartbeats; needs a running event loop."""
        if self._is_shared:
            self._task = asyncio.create_task(self._run(), name="presence")

    async def close(self) -> None:
        """Stop the heartbeats and remove the last one."""
        if self._task is not None:
            await cancel_and_wait([self._task])
            await self._quietly(lambda: self._store.members.remove(self._id))

    async def state(self) -> ClusterState:
        """Return the state of the cluster.

        Raises:
            StoreError: the database cannot be queried.
        """
        members, own = self._store.members, self._make_note()
        if self._is_shared:
            await members.note(own)
        info, servers, daemons = await self._store.info(), await members.servers(), await members.daemons()
        if not self._is_shared:
            daemons = [SeenDaemon(own, 0.0, 0.0)]
        return ClusterState(info.server_version, info.deployment, servers, daemons, self._id)

    async def shard(self, min_count: int, *, dry_run: bool) -> ShardingPlan:
        """Shard every collection of at least *min_count* documents, and return the plan; a dry run only returns the plan.

        Raises:
            StoreError: the database is not a sharded cluster, or refuses it.
        """
        planned = await self._store.members.plan_sharding(min_count)
        if not dry_run:
            await self._store.members.shard(planned)
        return planned

    def _make_note(self) -> DaemonNote:
        index = self._index
        state = index.why_behind or index.state
        return DaemonNote(self._id, socket.gethostname(), os.getpid(), __version__, self._engine, state, index.behind_s)

    async def _run(self) -> None:
        noted_at, noted = 0.0, ""
        while True:
            note, now = self._make_note(), time.monotonic()
            if note.index_state != noted or now - noted_at >= NOTE_EVERY_S:
                noted_at, noted = now, note.index_state
                await self._quietly(lambda note=note: self._store.members.note(note))  # type: ignore[misc]
            await asyncio.sleep(LOOK_EVERY_S)

    async def _quietly(self, operation: Callable[[], Awaitable[None]]) -> None:
        try:
            await operation()
        except InfiniteMemoryError as exc:
            log.debug("the presence of this daemon is not noted: %s", exc, extra={"event": "presence_not_noted"})
