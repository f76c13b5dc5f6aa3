"""Who is there beside a database: the daemons that share it, the servers that it consists of, and how these share its collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


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


@dataclass(frozen=True, slots=True)
class CollectionPlan:
    """A collection that is large enough to be shared by several shards, about how many documents it has, and what shards it, in order."""

    name: str
    count: int
    is_sharded: bool
    commands: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ShardingPlan:
    """What sharding the collections with at least ``min_count`` documents takes; ``is_routed`` where it can be done."""

    deployment: str
    is_routed: bool
    min_count: int
    collections: Sequence[CollectionPlan]


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

    async def plan_sharding(self, min_count: int) -> ShardingPlan:
        """Return what sharding takes for each collection of at least *min_count* documents; changes nothing.

        Raises:
            StoreError: the database is a single server, or the user may not see what is sharded.
        """

    async def shard(self, planned: ShardingPlan) -> None:
        """Carry a plan out; may be repeated.

        Raises:
            StoreError: the database is no sharded cluster, or refuses a command. What was done before stays done.
        """
