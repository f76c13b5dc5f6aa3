"""Operations on a whole memory outside the engine: backups, restores, exports, imports and consolidation.

``bootstrap.py`` injects the collaborators; an `Administration` has access to everything. It is used by the native contract's commands
and the daily jobs.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from infinite_memory.backup.archive import mark_file
from infinite_memory.backup.folder import find_backup, find_backup_for_client
from infinite_memory.backup.restore import Restoring
from infinite_memory.backup.service import Backups, listed
from infinite_memory.clock import Clock
from infinite_memory.config import Config
from infinite_memory.engine.quotations import Forgettings
from infinite_memory.engine.types import Progress
from infinite_memory.errors import InfiniteMemoryError
from infinite_memory.jobs.consolidation import Tidier, Tidying
from infinite_memory.jobs.purge_guard import PurgeGuard, PurgeReference
from infinite_memory.jobs.state import JOBS, JobState, failing_jobs, load_state
from infinite_memory.models import MemoryId
from infinite_memory.store.base import Store
from infinite_memory.store.scope_cache import ScopeCache
from infinite_memory.transfer.export import Exported, ExportFormat, export
from infinite_memory.transfer.import_folders import ImportFolders
from infinite_memory.transfer.importer import Importer

if TYPE_CHECKING:
    from infinite_memory.embedding.service import EmbeddingService
    from infinite_memory.engine.usage import UsageCounter
    from infinite_memory.index.sync import IndexSync


STATE_S = 2.0  # timeout for the database when its state is requested


@dataclass(frozen=True, slots=True)
class ServiceState:
    """The state of the service, for monitoring. If the database does not answer in time, its fields keep their defaults."""

    free_bytes: int
    set_aside: int
    is_database_up: bool = False
    last_backup_at: dt.datetime | None = None
    jobs: tuple[JobState, ...] = ()


class Administration:
    """Creates the services that work on the whole memory of one home."""

    def __init__(
        self, *, store: Store, index: IndexSync, scopes: ScopeCache, embeddings: EmbeddingService, config: Config,
        clock: Clock, uses: UsageCounter | None, forgettings: Forgettings, home: Path, backup_folder: Path,
    ) -> None:  # fmt: skip
        self._forgettings = forgettings
        self._store, self._index, self._scopes, self._embeddings = store, index, scopes, embeddings
        self._config, self._clock, self._uses = config, clock, uses
        self._home, self._backup_folder = home, backup_folder

    def open_backups(self) -> Backups:
        """Return the configured backups.

        Raises:
            BackupError: the passphrase or key file that the settings name cannot be read.
        """
        return Backups.open(self._backup_folder, store=self._store, config=self._config, clock=self._clock)

    def is_own_backup(self, name: str) -> bool:
        """True if *name*, a name or path, is a file in the backup folder, not a link to one elsewhere.

        Raises:
            BackupNotFoundError: there is no such file.
        """
        return find_backup(self._backup_folder, name).resolve().parent == self._backup_folder.resolve()

    def is_unlocked_backup(self, name: str) -> bool:
        """True if backups are to be encrypted here and the head of backup *name* does not say that it is.

        Raises:
            BackupNotFoundError: there is no such file.
        """
        settings = self._config.backup
        if not (settings.key_file or settings.passphrase_file):
            return False
        return not listed(find_backup_for_client(self._backup_folder, name)).is_encrypted

    def mark_backup(self, name: str) -> str:
        """Return the present mark (`archive.mark_file`) of backup *name*.

        Raises:
            BackupNotFoundError: there is no such file.
        """
        return mark_file(find_backup_for_client(self._backup_folder, name).stat())

    def open_restoring(self) -> Restoring:
        """Return the service that restores these backups; errors as in `open_backups`."""
        return Restoring(self.open_backups(), store=self._store, index=self._index, scopes=self._scopes)

    def open_importer(self) -> Importer:
        """Return the importer."""
        return Importer(
            store=self._store, index=self._index, scopes=self._scopes, embeddings=self._embeddings,
            config=self._config, clock=self._clock,
        )  # fmt: skip

    def import_folders(self) -> ImportFolders:
        """Return the folders that may be imported from by clients that may not name any path."""
        return ImportFolders.of(self._config.import_.folders, self._home)

    def open_tidier(self) -> Tidier:
        """Return the service that merges, prunes and summarizes."""
        return Tidier(
            store=self._store, index=self._index, scopes=self._scopes, embeddings=self._embeddings,
            config=self._config, clock=self._clock, uses=self._uses, forgettings=self._forgettings,
        )  # fmt: skip

    async def find_purge_reference(self) -> PurgeReference:
        """Return the reference instant for the ages of memories in a requested purge."""
        return await PurgeGuard(self._store, self._config.retention.purge_deleted_days, self._clock).find_reference()

    async def find_duplicates(self, kind: str) -> list[list[MemoryId]]:
        """Return all groups of duplicates; *kind* is "deduplicate" or "merge_similar", see `Tidier.find_groups`."""
        return await self.open_tidier().find_groups(Tidying(kind))

    async def export(
        self, *, form: ExportFormat, scope: str | None, deleted: bool, progress: Progress | None = None
    ) -> Exported:
        """Write an export to the backup folder, once the index is ready; see `transfer.export.export`."""
        await self._index.sidecar()
        return await export(
            self.open_backups().folder, store=self._store, scopes=self._scopes, clock=self._clock,
            form=form, scope=scope, deleted=deleted, progress=progress,
        )  # fmt: skip

    async def service_state(self) -> ServiceState:
        """Return the state of backups, jobs, database and disk; waits `STATE_S` at most."""
        state = ServiceState(shutil.disk_usage(self._home).free, len(self._store.set_aside))
        try:
            async with asyncio.timeout(STATE_S):
                last = await self._store.get_meta("last_backup")
                jobs = [await load_state(self._store, name) for name in JOBS]
        except (InfiniteMemoryError, TimeoutError):
            return state
        last_backup_at = dt.datetime.fromisoformat(last["at"]) if last else None
        finished = tuple(job for job in jobs if job.last_run_at is not None)
        return replace(state, is_database_up=True, last_backup_at=last_backup_at, jobs=finished)

    async def failing_jobs(self) -> list[JobState]:
        """Return the jobs whose last run failed."""
        return await failing_jobs(self._store)
