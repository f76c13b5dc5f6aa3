"""Backups: a consistent snapshot of all data in one file, which is verified before it is published.

A backup is written from a snapshot of the store, so it shows one instant however long writing takes, and does not block requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from infinite_memory import __version__
from infinite_memory.backup.archive import BackupReader, BackupWriter, read_head
from infinite_memory.backup.archive_format import Part, Summary
from infinite_memory.backup.encryption import Cipher, Secret, find_secret, new_lock
from infinite_memory.backup.folder import (
    SUFFIX,
    Target,
    atomic_write,
    display_name,
    find_backup_for_client,
    list_names,
    make_stem,
    unwritable,
)
from infinite_memory.clock import Clock
from infinite_memory.config import Config
from infinite_memory.engine.types import Progress
from infinite_memory.errors import BackupError, StoreError, StoreUnavailableError
from infinite_memory.file_work import file_work, in_file_thread
from infinite_memory.platform_files import open_regular
from infinite_memory.settings import MIB, BackupSettings
from infinite_memory.store.base import Store
from infinite_memory.store.copies import MEMORIES_PREFIX, SCOPES, Chunk, Snapshot
from infinite_memory.store.mongo.backup_checks import BackupCheck, Separation
from infinite_memory.transfer.serialization import instant_to_text

log = logging.getLogger(__name__)

SNAPSHOT_TRIES = 5  # a scope created or dropped while the snapshot is taken costs one
RETRY_S = 0.5


@dataclass(frozen=True, slots=True)
class Backup:
    """A complete backup file. ``checksum`` is the SHA-256 of the file, in hexadecimal."""

    file: Path
    size_bytes: int
    checksum: str
    created_at: str
    memories: int
    scopes: int
    counts: Mapping[str, int]
    is_encrypted: bool
    is_consistent: bool


@dataclass(frozen=True, slots=True)
class Listed:
    """A backup in a listing, described by its head; ``fault`` says why it cannot be used, if the head shows that."""

    file: Path
    size_bytes: int
    created_at: str | None
    reason: str | None
    is_encrypted: bool
    fault: str | None


class Backups:
    """The backups of one home."""

    def __init__(
        self, folder: Path, *, store: Store, config: Config, clock: Clock, secret: Secret | None = None
    ) -> None:
        self.folder, self._store, self._config, self._clock, self._secret = folder, store, config, clock, secret

    @classmethod
    def open(cls, folder: Path, *, store: Store, config: Config, clock: Clock) -> Backups:
        """Return the backups of a folder, encrypted as configured.

        Raises:
            BackupError: the passphrase or key file that the settings name cannot be read.
        """
        return cls(folder, store=store, config=config, clock=clock, secret=find_secret(config.backup))

    @property
    def settings(self) -> BackupSettings:
        """The backup settings, such as how many are kept."""
        return self._config.backup

    @property
    def database(self) -> str:
        """The identity of the database that is backed up."""
        return self._store.identity

    def now(self) -> dt.datetime:
        """Return the present instant, for a new backup."""
        return self._clock()

    @property
    def secret(self) -> Secret | None:
        """The secret that backups are encrypted with, or None."""
        return self._secret

    async def create(self, reason: str = "asked", progress: Progress | None = None) -> Backup:
        """Write a backup, verify it, and only then publish it under its name.

        Args:
            reason: "asked", "scheduled" or "before_restore"; rotation removes scheduled ones only.

        Raises:
            BackupError: it could not be written or verified; nothing is left of it.
            StoreUnavailableError: MongoDB cannot be reached.
        """
        for attempt in range(1, SNAPSHOT_TRIES + 1):
            try:
                return await self._create(reason, progress)
            except StoreUnavailableError:
                raise
            except StoreError as exc:
                if attempt == SNAPSHOT_TRIES:
                    raise
                log.info("the snapshot is taken again: %s", exc, extra={"event": "snapshot_retried"})
                await asyncio.sleep(RETRY_S)
        raise AssertionError("the last try returns or raises")

    @file_work()
    async def _create(self, reason: str, progress: Progress | None) -> Backup:
        now = self._clock()
        with atomic_write(self.folder, make_stem("backup", now), SUFFIX) as target:
            try:
                async with self._store.copies.snapshot() as snapshot:
                    await self._write(target, snapshot, _head(snapshot, self._store.identity, now, reason), progress)
                await in_file_thread(target.sync)
                summary, checksum = await in_file_thread(lambda: read_back(target.part, self.checks()))
            except OSError as exc:
                raise unwritable(self.folder, exc) from exc
            size_bytes = target.part.stat().st_size
            file = await in_file_thread(target.publish)
        backup = _backup(file, size_bytes, checksum, summary)
        await self._store.set_meta(
            "last_backup", {"at": backup.created_at, "file": file.name, "memories": backup.memories, "reason": reason}
        )
        log.info(
            "backup %s: %d memories, %d bytes", file.name, backup.memories, size_bytes, extra={"event": "backup_made"}
        )
        return backup

    async def _write(
        self, target: Target, snapshot: Snapshot, header: dict[str, Any], progress: Progress | None
    ) -> None:
        cipher = None
        if self._secret is not None:
            header["lock"] = new_lock(self._secret)
            secret = self._secret
            cipher = await in_file_thread(lambda: Cipher(secret, header["lock"]))
        writer = BackupWriter(target.file, header, cipher)
        separation = Separation()
        done, total = 0, sum(snapshot.head.totals.values())

        def write(chunk: Chunk) -> None:
            for sound in separation.separate(chunk):
                writer.add(Part(sound.collection, sound.count, sound.documents))

        async for chunk in snapshot.chunks():
            await in_file_thread(partial(write, chunk))
            done += chunk.count
            if progress is not None:
                progress(done, max(done, total))
        await in_file_thread(lambda: writer.finish({}))

    def checks(self, *, allow_unlocked: bool = False) -> Checks:
        """Return the checks for reading a backup."""
        return Checks.of(self._config, self._secret, allow_unlocked=allow_unlocked)

    async def verify(self, name: str, *, allow_unlocked: bool = False) -> Backup:
        """Read a whole backup and check every part and every document.

        Args:
            allow_unlocked: Accept an unencrypted backup although the settings name a passphrase or key file.

        Raises:
            BackupNotFoundError: there is no backup of that name or path.
            BackupError: it is damaged, truncated, of a newer version, encrypted with another secret or not encrypted; says where.
        """
        file = find_backup_for_client(self.folder, name)
        checks = self.checks(allow_unlocked=allow_unlocked)
        return await in_file_thread(lambda: verify_file(file, checks))

    async def list_all(self) -> list[Listed]:
        """Return the backups in the folder, oldest first."""
        return await in_file_thread(lambda: [listed(file) for file in list_names(self.folder)])


@dataclass(frozen=True, slots=True)
class Checks:
    """Requirements that a backup must meet when it is read.

    Args:
        secret: Decrypts it. If set, an unencrypted file is refused: anybody who can write into the folder can make one.
        allow_unlocked: Accept an unencrypted file all the same.
        max_unpacked: As in `BackupReader`.
    """

    secret: Secret | None = None
    allow_unlocked: bool = False
    max_unpacked: int | None = None

    @classmethod
    def of(cls, config: Config, secret: Secret | None, *, allow_unlocked: bool = False) -> Checks:
        """Return the checks that the settings require."""
        unpacked = config.backup.max_unpacked_mb
        return cls(
            secret,
            allow_unlocked,
            None if unpacked is None else unpacked * MIB,
        )


@contextlib.contextmanager
def open_backup(file: Path, checks: Checks) -> Iterator[BackupReader]:
    """Open a backup for reading.

    Raises:
        BackupError: it cannot be read, has an unsupported version, or is not encrypted although it must be.
    """
    name = display_name(file)
    try:
        opened = open_regular(file)
    except OSError as exc:
        raise BackupError(f"{name} cannot be read: {exc.strerror}") from exc
    with opened:
        reader = BackupReader(opened, name, checks.secret, max_unpacked=checks.max_unpacked)
        if checks.secret is not None and not reader.is_encrypted and not checks.allow_unlocked:
            raise BackupError(
                f"{name} is not locked, and backups of this memory are (backup.key_file, backup.passphrase_file): anybody can "
                "have written it; --allow-unlocked or allow_unlocked takes it all the same"
            )
        yield reader


def verify_file(file: Path, checks: Checks | None = None) -> Backup:
    """Read a whole backup and check it; needs neither a daemon nor MongoDB. Errors as in `Backups.verify`."""
    try:
        summary, checksum = check_file(file, checks or Checks())
        return _backup(file, file.stat().st_size, checksum, summary)
    except OSError as exc:
        raise BackupError(f"{display_name(file)} cannot be read: {exc.strerror}") from exc


def check_file(file: Path, checks: Checks) -> tuple[Summary, str]:
    """Read a whole file and check everything in it; returns its summary and SHA-256.

    Raises:
        BackupError: it is damaged, or contains something that cannot be restored; says where.
        OSError: it cannot be read.
    """
    with open_backup(file, checks) as reader:
        read_all(reader)
        return reader.summary, reader.checksum()


def read_back(file: Path, checks: Checks) -> tuple[Summary, str]:
    """Read a file that was just written. Like `check_file`, but without checking documents: that was done before they were written."""
    with open_backup(file, checks) as reader:
        for _ in reader.parts():
            pass
        return reader.summary, reader.checksum()


def checked_chunks(reader: BackupReader) -> Iterator[Chunk]:
    """Yield everything in a backup, each part once all of its documents are checked.

    Raises:
        BackupError: a part is damaged, or a document cannot be restored; says which.
    """
    check = BackupCheck(int(reader.head.get("schema_version", 0)))
    for part in reader.parts():
        documents = check.check(Chunk(part.collection, part.count, part.documents))
        yield Chunk(part.collection, part.count, b"".join(documents))


def read_all(reader: BackupReader, ended: threading.Event | None = None) -> None:
    """Read a whole backup and check everything in it, unless *ended* is set first. Errors as in `checked_chunks`."""
    for _ in checked_chunks(reader):
        if ended is not None and ended.is_set():
            return


def listed(file: Path) -> Listed:
    """Return the description in a file's head; does not raise for a damaged file."""
    size = 0
    try:
        with open_regular(file) as opened:
            size = os.fstat(opened.fileno()).st_size
            head = read_head(opened, display_name(file))
    except (BackupError, OSError) as exc:
        fault = str(exc) if isinstance(exc, BackupError) else f"it cannot be read: {exc.strerror}"
        return Listed(file, size, None, None, False, fault)
    return Listed(file, size, head.get("created_at"), head.get("reason"), "lock" in head, None)


def _head(snapshot: Snapshot, database: str, now: dt.datetime, reason: str) -> dict[str, Any]:
    return {
        "product": "infinite-memory",
        "product_version": __version__,
        "created_at": instant_to_text(now),
        "schema_version": snapshot.head.schema_version,
        "consistent": snapshot.head.is_consistent,
        "database": database,
        "reason": reason,
    }


def _backup(file: Path, size_bytes: int, checksum: str, summary: Summary) -> Backup:
    head = summary.head
    return Backup(
        file=file,
        size_bytes=size_bytes,
        checksum=checksum,
        created_at=str(head.get("created_at")),
        memories=sum(count for name, count in summary.counts.items() if name.startswith(MEMORIES_PREFIX)),
        scopes=summary.counts.get(SCOPES, 0),
        counts=_by_kind(summary.counts),
        is_encrypted="lock" in head,
        is_consistent=bool(head.get("consistent")),
    )


def _by_kind(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts with all collections of memories summed up as one."""
    totals: dict[str, int] = {"memories": 0}
    for name, count in counts.items():
        kind = "memories" if name.startswith(MEMORIES_PREFIX) else name
        totals[kind] = totals.get(kind, 0) + count
    return totals
