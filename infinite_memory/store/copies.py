"""What backup, restore and the jobs need of the documents' home, beside `Store`: everything of one moment, and back again.

A restore is all or nothing, also when the process is killed: what comes in is staged where nobody looks, and put into place in
one go. A process that dies before leaves what was; one that dies while it is put into place is finished at the next connect.
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
"""Scope id, subject and predicate, folded: of which one fact holds at a time."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Whole documents of one collection, as BSON, one after another."""

    collection: str
    count: int
    documents: bytes


@dataclass(frozen=True, slots=True)
class SnapshotHead:
    """What is known of a snapshot before it is read. ``totals`` counts documents by collection, roughly.

    ``is_consistent`` is False on a standalone server, where collections are read one after another as they are.
    """

    schema_version: int
    is_consistent: bool
    totals: Mapping[str, int]


class Snapshot(Protocol):
    """Everything that a store held at one moment."""

    head: SnapshotHead

    def chunks(self) -> AsyncIterator[Chunk]:
        """Yield everything that travels, ``scopes`` first and memories next, in chunks of a few MiB.

        Raises:
            StoreError: the server no longer has that moment; take a new snapshot.
        """


class RestoreMode(enum.Enum):
    """What becomes of what is there: REPLACE puts the backup in its place, MERGE adds what is missing and changes nothing."""

    REPLACE = "replace"
    MERGE = "merge"


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """How to restore. With ``only_scope`` (a name) only that scope is added, as a new scope named ``as_scope``.

    With ``dry_run`` everything is looked at and counted, and nothing is written.
    """

    mode: RestoreMode
    schema_version: int
    only_scope: str | None = None
    as_scope: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Restored:
    """What a restore did: scopes and memories that are in place now and were not, or that were skipped for they were there.

    ``replaced`` of the ``memories`` took the place of those of the same ids; ``removed`` others were there and are in no backup.
    """

    scopes: int
    memories: int
    skipped: int
    dropped_scopes: int = 0
    replaced: int = 0
    removed: int = 0


class Restore(Protocol):
    """A restore under way; nothing is seen of it before `commit`."""

    async def take(self, chunk: Chunk) -> None:
        """Stage a chunk; ``scopes`` come before the memories.

        Raises:
            BackupError: it holds what no backup of ours does.
            ScopeNotFoundError: the scope that is asked for is not among them.
            ScopeExistsError: a scope of the new name exists.
        """

    async def commit(self) -> Restored:
        """Put everything into place; to be called inside `Copies.exclusive`.

        Scopes may have changed since: what was to go into one that has gone, or whose name is taken, goes into the one that has the
        name by now, or into one that is made again.

        Raises:
            BackupError: not everything was staged.
            ScopeExistsError: the one scope's name was taken meanwhile; nothing was changed.
        """

    async def abort(self) -> None:
        """Remove what was staged; idempotent, and harmless after `commit`."""


class Copies(Protocol):
    """Everything at once: out, and in again. Also leases, by which one of several processes is chosen."""

    def snapshot(self) -> AbstractAsyncContextManager[Snapshot]:
        """Take a snapshot.

        Raises:
            StoreError: a restore is being put into place at this moment.
        """

    async def free_bytes(self) -> int | None:
        """Return how much room is left on the server's disk; None where it does not tell."""

    async def is_empty(self) -> bool:
        """True if there is no memory, live or deleted, and no scope but Global."""

    async def restore(self, plan: RestorePlan) -> Restore:
        """Begin a restore.

        Raises:
            SchemaTooNewError: the backup's data was written by a newer version.
        """

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Hold up every other operation of this process on the store."""

    def memories_of(self, chunk: Chunk) -> list[MemoryRecord]:
        """Read the memories of a chunk, live and deleted, with vectors; none when it is another collection's."""

    def documents_of(self, chunk: Chunk) -> list[dict[str, Any]]:
        """Read the documents of any other chunk; ids are in text."""

    def revisions_of(self, chunk: Chunk) -> list[MemoryRecord]:
        """Read the earlier versions of a chunk of ``revisions``, without vectors."""

    def facts_of(self, chunk: Chunk) -> list[Fact]:
        """Read the facts of a chunk of ``facts``."""

    def links_of(self, chunk: Chunk) -> list[tuple[Link, ScopeId]]:
        """Read the links of a chunk of ``links``, each with the scope of the memory in which it begins."""

    async def add_revisions(self, versions: Sequence[MemoryRecord], *, dry_run: bool = False) -> int:
        """Add earlier versions of memories; those that are there stay. Gives how many are new; a dry run only counts them."""

    async def add_facts(
        self, facts: Sequence[Fact], holding: set[FactPlace] | None = None, *, dry_run: bool = False
    ) -> list[Fact]:
        """Add facts under their own ids, as they were; those that are there stay.

        Args:
            holding: The places that were taken before in the same import, to which those of *facts* are added: so that a dry
                run, which writes nothing, sees what it would have written.

        Returns:
            Those that were not taken, for another object of the same subject and predicate holds here.
        """

    async def find_facts(self, facts: Sequence[Fact]) -> set[FactId]:
        """Return the ids of those facts that are there."""

    async def add_links(self, links: Sequence[tuple[Link, ScopeId]], *, dry_run: bool = False) -> int:
        """Add links; those that are there stay. Gives how many are new; a dry run only counts them."""

    async def merge_scopes(
        self, source: ScopeId, target: ScopeId, on_poured: Callable[[], Awaitable[None]] | None = None
    ) -> int:
        """Move every memory of a scope into another, under its own id, and mark the emptied one for `Store.drop_scope`.

        All or nothing, also when the process dies: the next connect finishes it. To be called inside `exclusive`.

        Args:
            on_poured: Called when the memories stand in the target, before the mark; perhaps twice.

        Returns:
            How many memories were moved, softly forgotten ones too.
        """

    async def take_lease(self, name: str, holder: str, duration: dt.timedelta) -> bool:
        """Take or prolong a lease; False when another holder has it. The server's clock counts."""

    async def release_lease(self, name: str, holder: str) -> None:
        """Release a lease; nothing happens when another holder has it."""


async def retry_while_away(step: Callable[[], Awaitable[None]]) -> None:
    """Do a step of a restore that must not stay half done: where the server goes away, wait ten minutes for it, and do it again.

    Raises:
        StoreUnavailableError: it did not come back.
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
