"""The members of a deployment: the daemons that share a database, its servers, and how these shard its collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class DaemonNote:
    """A daemon's status. ``behind_s`` is how long ago its index was in sync with the store; None if it never was."""

    daemon_id: str
    host: str
    pid: int
    version: str
    engine: str
    index_state: str
    behind_s: float | None


@dataclass(frozen=True, slots=True)
class SeenDaemon:
    """A daemon's status with its age and the time since its first one, in seconds by the database's clock."""

    note: DaemonNote
    seen_s: float
    since_s: float


@dataclass(frozen=True, slots=True)
class Server:
    """A server of the database as the driver sees it: ``role`` is primary, secondary, arbiter, router, standalone, shard or unknown."""

    name: str
    role: str


@dataclass(frozen=True, slots=True)
class CollectionPlan:
    """A collection large enough to shard, its approximate document count, and the commands that shard it, in order."""

    name: str
    count: int
    is_sharded: bool
    commands: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class ShardingPlan:
    """The plan for sharding collections with at least ``min_count`` documents; ``is_routed`` if it can be carried out."""

    deployment: str
    is_routed: bool
    min_count: int
    collections: Sequence[CollectionPlan]


class Members(Protocol):
    """The daemons and servers of one database. Methods may raise `StoreUnavailableError`."""

    async def note(self, daemon: DaemonNote) -> None:
        """Record a daemon's status, replacing its previous one."""

    async def remove(self, daemon_id: str) -> None:
        """Remove a daemon's status, if any."""

    async def daemons(self) -> Sequence[SeenDaemon]:
        """List the statuses of the last day, the oldest daemon first."""

    async def servers(self) -> Sequence[Server]:
        """List the servers by name; shards too, if the database is a sharded cluster and we may ask."""

    async def plan_sharding(self, min_count: int) -> ShardingPlan:
        """Return what sharding each collection of at least *min_count* documents takes; changes nothing.

        Raises:
            StoreError: the database is a single server, or the user may not see what is sharded.
        """

    async def shard(self, planned: ShardingPlan) -> None:
        """Carry out a plan; safe to repeat.

        Raises:
            StoreError: the database is not a sharded cluster, or refuses a command. Completed steps are kept.
        """
