"""Restore a backup, all or nothing, into an empty memory or over an existing one.

The whole file is read and every part checked before anything is committed. Collection names in the file are checked against the
few patterns that we write; no path is ever taken from it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from infinite_memory.backup.archive import BackupReader
from infinite_memory.backup.folder import display_name, find_backup_for_client
from infinite_memory.backup.service import Backup, Backups, checked_chunks, open_backup, read_all
from infinite_memory.engine.types import Progress
from infinite_memory.errors import (
    BackupError,
    ChangedSinceAskedError,
    InfiniteMemoryError,
    InvalidRequestError,
    SidecarNotReadyError,
    StoreError,
    StoreUnavailableError,
)
from infinite_memory.file_work import file_work, in_file_thread
from infinite_memory.store.base import Store
from infinite_memory.store.copies import Chunk, Restore, Restored, RestoreMode, RestorePlan, retry_while_away
from infinite_memory.store.scope_cache import ScopeCache, check_name

if TYPE_CHECKING:
    from infinite_memory.index.sync import IndexSync

_CHOOSE = "there are memories already: replace puts the backup in their place, merge adds what is missing"
_NEW_SCOPE = "one scope of a backup is restored as a new one and replaces nothing; leave mode out"

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What a restore did, or would do in a dry run.

    ``saved`` is the backup of the previous data, if that was replaced.
    """

    file: Path
    mode: RestoreMode
    done: Restored
    saved: Backup | None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Wish:
    """Options of a restore.

    Args:
        mode: None restores into an empty memory only.
        only_scope: Restore this scope alone, as a new one named *as_scope* (default: its own name).
        dry_run: Check everything and report what would change, without changing anything.
        allow_unlocked: Accept an unencrypted backup although the settings name a passphrase or key file.
        mark: `archive.mark_file` of the file when a user was asked to confirm; None if nobody was asked.
    """

    mode: RestoreMode | None = None
    only_scope: str | None = None
    as_scope: str | None = None
    dry_run: bool = False
    allow_unlocked: bool = False
    mark: str | None = None


_AS_USUAL = Wish()


class Restoring:
    """Restores into one home."""

    def __init__(self, backups: Backups, *, store: Store, index: IndexSync, scopes: ScopeCache) -> None:
        self._backups, self._store, self._index, self._scopes = backups, store, index, scopes

    @file_work()
    async def restore(self, name: str, wish: Wish = _AS_USUAL, progress: Progress | None = None) -> RestoreReport:
        """Restore a backup by its name or path.

        The whole file, documents included, is read and checked before anything is written. Existing data may be damaged and the
        index unusable: replacing rescues a home that cannot open its own data.

        Raises:
            BackupNotFoundError: there is no such file.
            BackupError: it is damaged, truncated, newer, encrypted with another secret, not encrypted, contains an invalid
                document, or does not fit on the server's disk; nothing was changed.
            ChangedSinceAskedError: the file was replaced or modified since *mark* of the wish was taken; nothing was changed.
            InvalidRequestError: there are memories, and the mode does not say what to do with them; or the wish contradicts itself.
            ScopeExistsError: the new scope's name is taken.
        """
        if wish.as_scope is not None:
            check_name(wish.as_scope, "as_scope")
        if wish.only_scope is not None and wish.mode is RestoreMode.REPLACE:
            raise InvalidRequestError("mode", _NEW_SCOPE)
        if wish.only_scope is None and wish.as_scope is not None:
            raise InvalidRequestError("as_scope", "names the new scope of a restored scope; name that in scope")
        await self._connected()
        file = find_backup_for_client(self._backups.folder, name)
        copies = self._store.copies
        empty = await copies.is_empty()
        if wish.mode is None and not empty and wish.only_scope is None:
            raise InvalidRequestError("mode", _CHOOSE)
        mode = wish.mode
        if wish.only_scope is not None:
            mode = RestoreMode.MERGE
        elif mode is None or empty:  # in an empty memory, everything is restored with its original ids
            mode = RestoreMode.REPLACE
        checks = self._backups.checks(allow_unlocked=wish.allow_unlocked)
        with open_backup(file, checks) as reader:
            await read_in_thread(reader)
            await self._check_room(reader.unpacked_bytes)
            version = int(reader.head.get("schema_version", 0))
            plan = RestorePlan(mode, version, wish.only_scope, wish.as_scope, wish.dry_run)
            restore = await copies.restore(plan)
            try:
                await _stage(reader, restore, progress)
                if wish.mark is not None and reader.mark() != wish.mark:
                    raise ChangedSinceAskedError(f"{display_name(file)} was changed")
                if wish.dry_run:
                    return RestoreReport(file, mode, await restore.commit(), None, dry_run=True)
                replaces = mode is RestoreMode.REPLACE and wish.only_scope is None
                putting = asyncio.create_task(
                    self._put(restore, wish.mode, progress, display_name(file), replaces=replaces), name="restore"
                )
                done, saved = await finished(putting)
            finally:
                with contextlib.suppress(StoreError):  # staged data is harmless, and removed later
                    await restore.abort()
        return RestoreReport(file, mode, done, saved)

    async def _connected(self) -> None:
        """Wait for the server; its data need not be readable.

        Raises:
            StoreUnavailableError: it cannot be reached.
        """
        try:
            await self._index.connected()
        except StoreUnavailableError:
            raise
        except InfiniteMemoryError as exc:
            log.warning("restoring into a memory that does not open: %s", exc, extra={"event": "restore_into_broken"})

    async def _check_room(self, needed: int) -> None:
        """Refuse a backup that does not fit, before it fills the disk.

        Raises:
            BackupError: there is not enough room.
        """
        if (shortage := await self._store.copies.find_shortage(needed)) is not None:
            raise BackupError(f"the backup unpacks into {needed >> 20:,} MiB, and {shortage}; nothing was changed")

    async def _put(
        self, restore: Restore, mode: RestoreMode | None, progress: Progress | None, name: str, *, replaces: bool
    ) -> tuple[Restored, Backup | None]:
        """Commit the restore, then update schema, scopes and index to match."""
        index, copies = self._index, self._store.copies
        async with index.paused():
            async with copies.exclusive():
                saved = None
                if replaces and not await copies.is_empty():
                    if mode is not RestoreMode.REPLACE:
                        raise InvalidRequestError("mode", _CHOOSE)  # stored in the meantime
                    saved = await self._backups.create("before_restore")
                done = await restore.commit()
                if replaces:  # documents set aside are gone; invalid ones are recorded again
                    for document in self._store.set_aside.documents():
                        self._store.set_aside.discard_collection(document.collection)
                await retry_while_away(self._store.connect)
                await retry_while_away(self._scopes.refresh)
            index.restored()
            if (count := await index.count()) is not None:
                if replaces or done.memories > count:
                    await index.rebuild(words=True, progress=progress)
                else:
                    await index.reconcile()
                index.scopes_changed()
        if count is None:  # it did not open on the previous data; it does now, or keeps trying
            with contextlib.suppress(SidecarNotReadyError):
                await index.sidecar()
        log.info("restored %s: %d memories", name, done.memories, extra={"event": "backup_restored"})
        return done, saved


async def finished(task: asyncio.Task[T]) -> T:
    """Wait until *task* ends, even if the caller is cancelled: half a restore would be worse than an unwanted one.

    Raises:
        CancelledError: the caller was cancelled; the task is done, and a failure of it is logged, as nobody else sees it.
    """
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled() and (exc := task.exception()) is not None:
            log.error("a restore whose client had left failed", exc_info=exc, extra={"event": "restore_failed"})
        raise


async def read_in_thread(reader: BackupReader) -> None:
    """Read and check a whole backup without blocking the event loop; cancelling stops it.

    Raises:
        BackupError: it cannot be restored.
    """
    ended = threading.Event()
    reading = asyncio.create_task(in_file_thread(lambda: read_all(reader, ended)))
    try:
        await asyncio.shield(reading)
    except asyncio.CancelledError:
        ended.set()  # the thread reads the file, which is closed next
        await asyncio.wait({reading})
        raise


async def _stage(checked: BackupReader, restore: Restore, progress: Progress | None) -> None:
    """Stage every part of a checked backup; while one is written, the next is read and checked.

    Raises:
        BackupError: the file was changed since it was checked.
    """
    reader = checked.again()
    done, parts = 0, checked_chunks(reader)

    def read() -> asyncio.Task[Chunk | None]:
        return asyncio.create_task(in_file_thread(lambda: next(parts, None)))

    following = read()
    try:
        while (chunk := await following) is not None:
            following = read()
            taking = asyncio.create_task(restore.take(chunk))
            await finished(taking)  # otherwise the server would go on writing after the cleanup
            done += chunk.count
            if progress is not None:
                progress(done, 0)
    finally:
        await asyncio.wait({following})  # a thread reads the file, which is closed next
    if reader.summary != checked.summary or reader.digest != checked.digest:
        raise BackupError("the file was changed while it was restored; nothing was changed")
