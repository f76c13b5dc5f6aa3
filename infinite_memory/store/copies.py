"""Storage interface for backup, restore and the jobs, in addition to `Store`: consistent snapshots and restores.

A restore is all or nothing, even if the process is killed: incoming data is staged in collections that nobody reads, then put into place in
one go. A crash before that changes nothing; one during it is completed at the next connect.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from infinite_memory.errors import StoreUnavailableError
from infinite_memory.models import Fact, FactId, Link, MemoryRecord, ScopeId

SCOPES, MEMORIES_PREFIX, REVISIONS, FACTS, LINKS, META = "scopes", "mem_", "revisions", "facts", "links", "meta"

_RETRY_S, _GIVE_UP_S = 0.5, 600.0

log = logging.getLogger(__name__)

FactPlace = tuple[str, str, str]
"""Scope id, folded subject and folded predicate: at most one fact holds for each at a time."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole documents of one collection, as concatenated BSON."""

    collection: str
    count: int
    documents: bytes


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    """What is known about a snapshot before it is read. ``totals`` counts documents by collection, roughly.

    ``is_consistent`` is False on a standalone server, where collections are read one after another without a snapshot.
    """

    schema_version: int
    is_consistent: bool
    totals: Mapping[str, int]


class Snapshot(Protocol):
    """The contents of a store at one point in time."""

    head: SnapshotHead

    def chunks(self) -> AsyncIterator[Chunk]:
        """Yield everything that belongs in a backup, ``scopes`` first and memories next, in chunks of a few MiB.

        Raises:
            StoreError: the server no longer has that snapshot; take a new one.
        """


class RestoreMode(enum.Enum):
    """What happens to existing data: REPLACE replaces it with the backup, MERGE adds what is missing and changes nothing."""

    REPLACE = "replace"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """How to restore. With ``only_scope`` (a name) only that scope is added, as a new scope named ``as_scope``.

    With ``dry_run`` everything is checked and counted, and nothing is written.
    """

    mode: RestoreMode
    schema_version: int
    only_scope: str | None = None
    as_scope: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Restored:
    """Result of a restore: scopes and memories that were added, or skipped because they existed.

    ``replaced`` of the ``memories`` replaced existing ones with the same ids; ``removed`` others existed and are not in the backup.
    """

    scopes: int
    memories: int
    skipped: int
    dropped_scopes: int = 0
    replaced: int = 0
    removed: int = 0


class Restore(Protocol):
    """A running restore; nothing of it is visible before `commit`."""

    async def take(self, chunk: Chunk) -> None:
        """Stage a chunk; ``scopes`` come before the memories.

        Raises:
            BackupError: it holds something that no backup of ours can contain.
            ScopeNotFoundError: the requested scope is not among them.
            ScopeExistsError: a scope with the new name exists.
        """

    async def commit(self) -> Restored:
        """Put everything into place; call it inside `Copies.exclusive`.

        Scopes may have changed since: data for a scope that was removed, or whose name is taken, goes into the scope that now has the name,
        or into a recreated one.

        Raises:
            BackupError: the backup was not staged completely.
            ScopeExistsError: the name of the single scope has been taken; nothing was changed.
        """

    async def abort(self) -> None:
        """Discard staged data; idempotent, and harmless after `commit`."""


class Copies(Protocol):
    """Bulk reads and writes of the whole store; also leases, by which one of several processes is elected."""

    def snapshot(self) -> AbstractAsyncContextManager[Snapshot]:
        """Take a snapshot.

        Raises:
            StoreError: a restore is being put into place.
        """

    async def find_shortage(self, size: int = 0) -> str | None:
        """Return why *size* more bytes must not be written: the server's disk would be nearly full. None if there is enough space.

        A server that does not report its disk counts as one with enough.
        """

    async def is_empty(self) -> bool:
        """True if there are no memories, live or deleted, and no scope but Global."""

    async def restore(self, plan: RestorePlan) -> Restore:
        """Start a restore.

        Raises:
            SchemaTooNewError: the backup's data was written by a newer version.
        """

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Block every other operation of this process on the store."""

    def memories_of(self, chunk: Chunk) -> list[MemoryRecord]:
        """Return the memories of a chunk, live and deleted, with vectors; empty if the chunk is of another collection."""

    def documents_of(self, chunk: Chunk) -> list[dict[str, Any]]:
        """Return the documents of any other chunk; ids are strings."""

    def revisions_of(self, chunk: Chunk) -> list[MemoryRecord]:
        """Return the earlier versions in a chunk of ``revisions``, without vectors."""

    def facts_of(self, chunk: Chunk) -> list[Fact]:
        """Return the facts in a chunk of ``facts``."""

    def links_of(self, chunk: Chunk) -> list[tuple[Link, ScopeId]]:
        """Return the links in a chunk of ``links``, each with the scope of the memory where it starts."""

    async def add_revisions(self, versions: Sequence[MemoryRecord], *, dry_run: bool = False) -> int:
        """Add earlier versions of memories; existing ones are kept. Return how many are new; a dry run only counts them."""

    async def add_facts(
        self, facts: Sequence[Fact], holding: set[FactPlace] | None = None, *, dry_run: bool = False
    ) -> list[Fact]:
        """Add facts with their own ids, unchanged; existing ones are kept.

        Args:
            holding: The slots already taken in the same import, to which those of *facts* are added, so that a dry run, which writes
                nothing, sees what it would have written.

        Returns:
            The rejected ones: another object of the same subject and predicate holds here.
        """

    async def find_facts(self, facts: Sequence[Fact]) -> set[FactId]:
        """Return the ids of those facts that exist."""

    async def add_links(self, links: Sequence[tuple[Link, ScopeId]], *, dry_run: bool = False) -> int:
        """Add links; existing ones are kept. Return how many are new; a dry run only counts them."""

    async def merge_scopes(
        self, source: ScopeId, target: ScopeId, on_poured: Callable[[], Awaitable[None]] | None = None
    ) -> int:
        """Move every memory of a scope into another, keeping its id, and mark the emptied one for `Store.drop_scope`.

        All or nothing, even if the process dies: the next connect completes it. Call it inside `exclusive`.

        Args:
            on_poured: Called once the memories are in the target, before the mark; possibly twice.

        Returns:
            How many memories were moved, soft-deleted ones included.
        """

    async def take_lease(self, name: str, holder: str, duration: dt.timedelta) -> bool:
        """Acquire or extend a lease; False if another holder has it. Times are by the server's clock."""

    async def release_lease(self, name: str, holder: str) -> None:
        """Release a lease; no effect if another holder has it."""


async def retry_while_away(step: Callable[[], Awaitable[None]]) -> None:
    """Run a step of a restore that must not be left half done: if the server goes away, wait up to ten minutes for it and retry.

    Raises:
        StoreUnavailableError: the server did not come back.
    """
    give_up_at = time.monotonic() + _GIVE_UP_S
    while True:
        try:
            return await step()
        except StoreUnavailableError:
            if time.monotonic() > give_up_at:
                raise
            log.warning(
                "MongoDB went away in the middle of a restore; waiting for it", extra={"event": "restore_waits"}
            )
            await asyncio.sleep(_RETRY_S)
