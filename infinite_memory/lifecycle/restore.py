"""Restoring a backup: all of it or nothing, into an empty memory or over an existing one.

The file is read to its end and every part checked before anything is put into place. Names of collections inside the file are
checked against the few forms that we write; no path is ever taken from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from infinite_memory.engine.parts import Parts, Progress
from infinite_memory.errors import BackupError, InvalidRequestError, StoreError
from infinite_memory.lifecycle.backup import Backup, Backups
from infinite_memory.lifecycle.ciphers import Secret
from infinite_memory.lifecycle.folder import find_backup
from infinite_memory.lifecycle.format import BackupReader, Part
from infinite_memory.store.copies import Chunk, Restore, Restored, RestoreMode, RestorePlan

_CHOOSE = "there are memories already: replace puts the backup in their place, merge adds what is missing"

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore did. ``saved`` is the backup of what was there before, where it was replaced."""

    file: Path
    mode: RestoreMode
    done: Restored
    saved: Backup | None


class Restoring:
    """Restores into one home."""

    def __init__(self, parts: Parts, backups: Backups, secret: Secret | None = None) -> None:
        self._parts, self._backups, self._secret = parts, backups, secret

    @classmethod
    def of(cls, parts: Parts) -> Restoring:
        """Restore from the backups that the settings name; errors as in `Backups.of`."""
        backups = Backups.of(parts)
        return cls(parts, backups, backups.secret)

    async def restore(
        self,
        name: str,
        mode: RestoreMode | None = None,
        *,
        only_scope: str | None = None,
        as_scope: str | None = None,
        progress: Progress | None = None,
    ) -> RestoreReport:
        """Restore a backup by its name or path.

        Args:
            mode: None restores into an empty memory only.
            only_scope: Restore this scope alone, as a new one named *as_scope* (default: its own name).

        Raises:
            BackupNotFoundError: there is no such file.
            BackupError: it is damaged, cut off, newer or locked by another secret; nothing was changed.
            InvalidRequestError: there are memories, and *mode* does not say what becomes of them.
            ScopeExistsError: the new scope's name is taken.
        """
        await self._parts.index.sidecar()
        file = find_backup(self._backups.folder, name)
        copies = self._parts.store.copies
        empty = await copies.is_empty()
        with opened(file, self._secret) as reader:
            if mode is None and not empty and only_scope is None:
                raise InvalidRequestError("mode", _CHOOSE)
            given = mode
            if only_scope is not None:
                mode = RestoreMode.MERGE
            elif mode is None or empty:  # into an empty memory, everything comes back under its own ids
                mode = RestoreMode.REPLACE
            plan = RestorePlan(mode, int(reader.head.get("schema_version", 0)), only_scope, as_scope)
            restore = await copies.restore(plan)
            try:
                await _stage(reader, restore, progress)
                replaces = mode is RestoreMode.REPLACE and only_scope is None
                putting = asyncio.create_task(
                    self._put(restore, given, progress, file.name, replaces=replaces), name="restore"
                )
                done, saved = await finished(putting)
            finally:
                with contextlib.suppress(StoreError):  # what is staged harms nobody, and is removed later
                    await restore.abort()
        return RestoreReport(file, mode, done, saved)

    async def _put(
        self, restore: Restore, given: RestoreMode | None, progress: Progress | None, name: str, *, replaces: bool
    ) -> tuple[Restored, Backup | None]:
        """Put everything into place, then bring schema, scopes and index level with it."""
        parts, copies = self._parts, self._parts.store.copies
        async with parts.index.resting():
            async with copies.exclusive():
                saved = None
                if replaces and not await copies.is_empty():
                    if given is not RestoreMode.REPLACE:
                        raise InvalidRequestError("mode", _CHOOSE)  # they were stored in the meantime
                    saved = await self._backups.create("before_restore")
                done = await restore.commit()
                await parts.store.connect()
            await parts.scopes.refresh()
            parts.index.restored()
            if replaces or done.memories > (parts.index.count() or 0):
                await parts.index.rebuild(words=True, progress=progress)
            else:
                await parts.index.catch_up()
            parts.index.scopes_changed()
        log.info("restored %s: %d memories", name, done.memories, extra={"event": "backup_restored"})
        return done, saved


async def finished(task: asyncio.Task[T]) -> T:
    """Wait for *task* to its end, also when who asked for it leaves: half a restore would be worse than an unwanted one.

    Raises:
        CancelledError: they left; the task is done, and its failure is in the log, for nobody else is told of it.
    """
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled() and (problem := task.exception()) is not None:
            log.error("a restore whose client had left failed", exc_info=problem, extra={"event": "restore_failed"})
        raise


async def _stage(reader: BackupReader, restore: Restore, progress: Progress | None) -> None:
    """Stage every part; while one is written, the next is read and checked."""
    done, parts = 0, reader.parts()

    def read() -> asyncio.Task[Part | None]:
        return asyncio.create_task(asyncio.to_thread(lambda: next(parts, None)))

    following = read()
    try:
        while (part := await following) is not None:
            following = read()
            taking = asyncio.create_task(restore.take(Chunk(part.collection, part.count, part.documents)))
            await finished(taking)  # or the server would go on with it after all was cleared away
            done += part.count
            if progress is not None:
                progress(done, 0)
    finally:
        await asyncio.wait({following})  # a thread reads the file, which is closed next
    _ = reader.summary  # raises unless the file was read to its end


@contextlib.contextmanager
def opened(file: Path, secret: Secret | None) -> Iterator[BackupReader]:
    """Open a backup for reading.

    Raises:
        BackupError: it cannot be read, or is none of this version.
    """
    try:
        handle = file.open("rb")
    except OSError as problem:
        raise BackupError(f"{file.name} cannot be read: {problem.strerror}") from problem
    with handle:
        yield BackupReader(handle, file.name, secret)
