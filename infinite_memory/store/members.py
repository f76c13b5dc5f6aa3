"""Who is there beside a database: the daemons that share it, and the servers that it consists of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DaemonNote:
    """What a daemon tells of itself. ``behind_s`` is how long ago its index was level with the store; None before it was for once."""

    daemon_id: str
    host: str
    pid: int
    version: str
    engine: str
    index_state: str
    behind_s: float | None


@dataclass(frozen=True, slots=True)
class SeenDaemon:
    """A daemon's note, how long ago it was written, and since when there are notes of it, in seconds by the database's clock."""

    note: DaemonNote
    seen_s: float
    since_s: float


@dataclass(frozen=True, slots=True)
class Server:
    """One server of the database as its driver sees it: ``role`` is primary, secondary, arbiter, router, standalone, shard or unknown."""

    name: str
    role: str


class Members(Protocol):
    """The daemons and servers of one database. Methods may raise `StoreUnavailableError`."""

    async def note(self, daemon: DaemonNote) -> None:
        """Write what a daemon tells of itself over what it told before."""

    async def remove(self, daemon_id: str) -> None:
        """Remove what a daemon told; nothing where it told nothing."""

    async def daemons(self) -> Sequence[SeenDaemon]:
        """List what daemons told within the last day, the oldest daemon first."""

    async def servers(self) -> Sequence[Server]:
        """List the servers, by name; shards too where the database is a sharded cluster that lets us ask."""
