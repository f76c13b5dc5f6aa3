"""Maintenance that changes no user's text: purging, checking, compacting, rebuilding; and finding, listing, mending or removing
unreadable documents."""

from __future__ import annotations

import datetime as dt
import enum
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from infinite_memory.clock import Clock
from infinite_memory.engine.access import Access
from infinite_memory.engine.agreement import Agreement
from infinite_memory.engine.forget import Forget
from infinite_memory.engine.types import Progress
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import MemoryId
from infinite_memory.settings import RetentionSettings
from infinite_memory.store.base import Store
from infinite_memory.store.repairs import Repaired, RepairOutcome
from infinite_memory.store.set_aside import SetAsideDocument

log = logging.getLogger(__name__)

FIRST_LOOK_S = 10.0  # how long statistics wait for the document check after startup


class Operation(enum.Enum):
    """Operations of `optimize`, in the order in which they run; none of these changes a user's text."""

    PURGE_DELETED = "purge_deleted"
    CHECK_SIDECAR = "check_sidecar"
    COMPACT = "compact"  # last: it frees the space of purged memories


@dataclass(frozen=True, slots=True)
class Done:
    """Result of one maintenance operation, or of its dry run, on ``count`` memories.

    ``freed_bytes`` is the disk space freed by the database (COMPACT only); ``note`` says what could not be done.
    """

    operation: Operation
    count: int
    message: str
    freed_bytes: int | None = None
    note: str | None = None
    groups: tuple[frozenset[MemoryId], ...] = ()  # memories to remove, if any


@dataclass(frozen=True, slots=True)
class Repair:
    """Result of a repair, or of its dry run. ``exported`` holds the documents as Extended JSON."""

    repaired: tuple[Repaired, ...]
    exported: tuple[str, ...] = ()

    def count(self, outcome: RepairOutcome) -> int:
        """Return the number of documents with *outcome*."""
        return sum(1 for repaired in self.repaired if repaired.outcome is outcome)


class Maintenance:
    """Maintains the memory as a whole; for unrestricted callers."""

    def __init__(
        self,
        *,
        access: Access,
        forget: Forget,
        store: Store,
        index: IndexSync,
        settings: RetentionSettings,
        clock: Clock,
    ) -> None:
        self._access, self._forget = access, forget
        self._store, self._index, self._settings, self._clock = store, index, settings, clock

    async def optimize(
        self, operations: Sequence[Operation], *, dry_run: bool = False, agreement: Agreement | None = None,
        as_of: dt.datetime | None = None,
    ) -> list[Done]:  # fmt: skip
        """Run maintenance operations in the given order; each entry of the result says what was actually done.

        With *agreement* no memory is removed that the user has not confirmed; ages are relative to *as_of*, by default now.
        """
        self._access.visibility.check_everything()
        now = as_of or self._clock()
        return [
            done
            for operation in operations
            for done in await self._optimize(operation, now, dry_run=dry_run, agreement=agreement)
        ]

    async def _optimize(
        self, operation: Operation, now: dt.datetime, *, dry_run: bool, agreement: Agreement | None
    ) -> list[Done]:
        if operation is Operation.PURGE_DELETED:
            return [await self._purge_expired(now, dry_run=dry_run, agreement=agreement)]
        if operation is Operation.CHECK_SIDECAR:
            if dry_run:
                return [Done(operation, 0, "would_check_sidecar")]
            checked = await self._index.check(is_patient=True)
            return [Done(operation, checked.faults, f"checked_sidecar_repaired_{checked.faults}_entries")]
        return [await self._compact_sidecar(dry_run=dry_run), await self._compact_database(dry_run=dry_run)]

    async def _purge_expired(self, now: dt.datetime, *, dry_run: bool, agreement: Agreement | None) -> Done:
        before = now - dt.timedelta(days=self._settings.purge_deleted_days)
        await self._index.sidecar()
        expired = await self._store.deleted_ids(None, before, pruned=False)
        if (days := self._settings.purge_pruned_days) is not None:
            pruned_before = now - dt.timedelta(days=days)
            expired |= await self._store.deleted_ids(None, pruned_before, pruned=True)
            before = max(before, pruned_before)
        if dry_run:
            report = f"would_purge_{len(expired)}_expired_deletions"
            return Done(Operation.PURGE_DELETED, len(expired), report, groups=(frozenset(expired),))
        if agreement is not None:
            expired = agreement.limit(Operation.PURGE_DELETED.value, expired)
        purged = await self._forget.purge(expired, before)
        return Done(Operation.PURGE_DELETED, len(purged), f"purged_{len(purged)}_expired_deletions")

    async def _compact_sidecar(self, *, dry_run: bool) -> Done:
        rows = await self._index.compact(dry_run=dry_run)
        report = f"would_compact_sidecar_dropping_{rows}_rows" if dry_run else f"compacted_sidecar_dropped_{rows}_rows"
        return Done(Operation.COMPACT, rows, report)

    async def _compact_database(self, *, dry_run: bool) -> Done:
        files = await self._store.compact(dry_run=dry_run)
        freed = files.total_bytes
        report = f"would_compact_db_freeing_{freed}_bytes" if dry_run else f"compacted_db_freed_{freed}_bytes"
        return Done(Operation.COMPACT, 0, report, freed, files.problem)

    async def reindex(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Rebuild the sidecar from the store, and return the number of memories in it. *progress* as in `IndexSync.rebuild`."""
        self._access.visibility.check_everything()
        return await self._index.rebuild(progress=progress)

    async def set_aside(self, *, recheck: bool = True) -> Sequence[SetAsideDocument]:
        """Return the documents that are set aside.

        Args:
            recheck: Whether to check small collections and the set-aside documents again first.

        Raises:
            StoreError: the store cannot be read.
        """
        if not self._access.sees_everything:
            return ()  # the owners of unreadable documents are unknown
        await self._index.looked(FIRST_LOOK_S)
        if recheck:
            await self._index.look_at_documents()
        return self._store.set_aside.documents()

    async def repair(
        self, *, mend: bool = False, remove: bool = False, export: bool = False, dry_run: bool = True,
        offset: int = 0, limit: int | None = None, progress: Progress | None = None,
    ) -> Repair:  # fmt: skip
        """Check every document, and mend or remove those set aside.

        Args:
            export: Also return the original documents.
            offset, limit: The slice of the documents, in order; with an offset, an earlier call is assumed to have checked all documents.

        Raises:
            StoreError: the store cannot be read or written.
        """
        self._access.visibility.check_everything()
        index, repairs = self._index, self._store.repairs
        await index.looked(FIRST_LOOK_S)
        if offset == 0:
            await index.look_at_documents(full=True)
        documents = self._store.set_aside.documents()[offset:][:limit]
        exported: list[str] = []
        repaired: list[Repaired] = []
        for number, document in enumerate(documents):
            if export and (line := await repairs.extended_json(document)) is not None:
                exported.append(line)
            repaired.append(await repairs.repair(document, mend=mend, remove=remove, dry_run=dry_run))
            if progress is not None:
                progress(number + 1, len(documents))
        if not dry_run and any(result.outcome is not RepairOutcome.LEFT for result in repaired):
            await index.reload_repaired([result.document for result in repaired])
            log.info("%d documents were repaired", len(repaired), extra={"event": "documents_repaired"})
        return Repair(tuple(repaired), tuple(exported))
