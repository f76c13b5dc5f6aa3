"""Backups: one moment of everything, in one file that was read back before anybody is told of it.

A backup is made of a snapshot of the store, so it is of one instant however long writing takes, and requests go on meanwhile.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infinite_memory import __version__
from infinite_memory.engine.parts import Parts, Progress
from infinite_memory.errors import BackupError, StoreError, StoreUnavailableError
from infinite_memory.lifecycle.ciphers import Cipher, Secret, find_secret, new_lock
from infinite_memory.lifecycle.folder import (
    SUFFIX,
    Target,
    find_backup,
    list_names,
    stem_of,
    unwritable,
    written_beside,
)
from infinite_memory.lifecycle.format import BackupReader, BackupWriter, Part, Summary, read_head
from infinite_memory.lifecycle.records import instant_to_text
from infinite_memory.store.copies import MEMORIES_PREFIX, SCOPES, Snapshot

log = logging.getLogger(__name__)

SNAPSHOT_TRIES = 5  # a scope made or dropped while the snapshot is taken costs one
RETRY_S = 0.5
_READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Backup:
    """One whole backup file. ``checksum`` is the SHA-256 of the file, in hexadecimal."""

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
    """A backup as the folder tells of it; ``fault`` says why it cannot be used, as far as its head shows."""

    file: Path
    size_bytes: int
    created_at: str | None
    reason: str | None
    is_encrypted: bool
    fault: str | None


class Backups:
    """The backups of one home."""

    def __init__(self, parts: Parts, folder: Path, secret: Secret | None = None) -> None:
        self._parts, self.folder, self._secret = parts, folder, secret

    @classmethod
    def of(cls, parts: Parts) -> Backups:
        """Give the backups that the settings name.

        Raises:
            BackupError: the passphrase or key file that the settings name cannot be read.
        """
        if parts.backup_folder is None:
            raise BackupError("there is no folder for backups")
        return cls(parts, parts.backup_folder, find_secret(parts.config.backup))

    @property
    def secret(self) -> Secret | None:
        """What the backups are locked with, if they are."""
        return self._secret

    async def create(self, reason: str = "asked", progress: Progress | None = None) -> Backup:
        """Write a backup, read it back, and only then give it its name.

        Args:
            reason: "asked", "scheduled" or "before_restore"; rotation takes scheduled ones only.

        Raises:
            BackupError: it could not be written, or what was read back is not what was written; nothing is left of it.
            StoreUnavailableError: MongoDB cannot be reached.
        """
        for attempt in range(1, SNAPSHOT_TRIES + 1):
            try:
                return await self._create(reason, progress)
            except StoreUnavailableError:
                raise
            except StoreError as problem:
                if attempt == SNAPSHOT_TRIES:
                    raise
                log.info("the snapshot is taken anew: %s", problem, extra={"event": "snapshot_retried"})
                await asyncio.sleep(RETRY_S)
        raise AssertionError("the last try returns or raises")

    async def _create(self, reason: str, progress: Progress | None) -> Backup:
        now = self._parts.clock()
        with written_beside(self.folder, stem_of("backup", now), SUFFIX) as target:
            try:
                async with self._parts.store.copies.snapshot() as snapshot:
                    await self._write(target, snapshot, _head(snapshot, self._parts, now, reason), progress)
                await asyncio.to_thread(target.sync)
                summary, checksum = await asyncio.to_thread(lambda: check_file(target.part, self._secret))
            except OSError as problem:
                raise unwritable(self.folder, problem) from problem
            size_bytes = target.part.stat().st_size
            file = await asyncio.to_thread(target.publish)
        made = _backup(file, size_bytes, checksum, summary)
        await self._parts.store.set_meta(
            "last_backup", {"at": made.created_at, "file": file.name, "memories": made.memories, "reason": reason}
        )
        log.info(
            "backup %s: %d memories, %d bytes", file.name, made.memories, size_bytes, extra={"event": "backup_made"}
        )
        return made

    async def _write(self, target: Target, snapshot: Snapshot, head: dict[str, Any], progress: Progress | None) -> None:
        cipher = None
        if self._secret is not None:
            head["lock"] = new_lock(self._secret)
            secret = self._secret
            cipher = await asyncio.to_thread(lambda: Cipher(secret, head["lock"]))
        writer = BackupWriter(target.file, head, cipher)
        done, total = 0, sum(snapshot.head.totals.values())
        async for chunk in snapshot.chunks():
            part = Part(chunk.collection, chunk.count, chunk.documents)
            await asyncio.to_thread(lambda part=part: writer.add(part))  # type: ignore[misc]
            done += chunk.count
            if progress is not None:
                progress(done, max(done, total))
        await asyncio.to_thread(lambda: writer.finish({}))

    async def verify(self, name: str) -> Backup:
        """Read a whole backup and check every part.

        Raises:
            BackupNotFoundError: there is none of that name or path.
            BackupError: it is damaged, cut off, of a newer version or locked by another secret; says where.
        """
        file = find_backup(self.folder, name)
        return await asyncio.to_thread(lambda: verify_file(file, self._secret))

    async def list_all(self) -> list[Listed]:
        """List what lies in the folder, oldest first."""
        return await asyncio.to_thread(lambda: [listed(file) for file in list_names(self.folder)])


def verify_file(file: Path, secret: Secret | None = None) -> Backup:
    """Read a whole backup and check every part; needs neither a daemon nor MongoDB. Errors as in `Backups.verify`."""
    try:
        summary, checksum = check_file(file, secret)
        return _backup(file, file.stat().st_size, checksum, summary)
    except OSError as problem:
        raise BackupError(f"{file.name} cannot be read: {problem.strerror}") from problem


def check_file(file: Path, secret: Secret | None) -> tuple[Summary, str]:
    """Read a file to its end; gives what it holds and its SHA-256.

    Raises:
        BackupError: it is not as it was written; says where.
        OSError: it cannot be read.
    """
    with file.open("rb") as opened:
        reader = BackupReader(opened, file.name, secret)
        for _ in reader.parts():
            pass
        opened.seek(0)
        digest = hashlib.sha256()
        while block := opened.read(_READ_BYTES):
            digest.update(block)
    return reader.summary, digest.hexdigest()


def listed(file: Path) -> Listed:
    """Tell what a file's head says; never raises for a damaged one."""
    size = 0
    try:
        size = file.stat().st_size
        head = read_head(file)
    except (BackupError, OSError) as problem:
        return Listed(file, size, None, None, False, str(problem))
    return Listed(file, size, head.get("created_at"), head.get("reason"), "lock" in head, None)


def _head(snapshot: Snapshot, parts: Parts, now: dt.datetime, reason: str) -> dict[str, Any]:
    return {
        "product": "infinite-memory",
        "product_version": __version__,
        "created_at": instant_to_text(now),
        "schema_version": snapshot.head.schema_version,
        "consistent": snapshot.head.is_consistent,
        "database": parts.store.identity,
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
    """Sum the collections of memories up; the others stand for themselves."""
    found: dict[str, int] = {"memories": 0}
    for name, count in counts.items():
        kind = "memories" if name.startswith(MEMORIES_PREFIX) else name
        found[kind] = found.get(kind, 0) + count
    return found
