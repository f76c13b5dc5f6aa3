"""Return unused space in MongoDB's files to the filesystem, with the server's `compact` command.

WiredTiger reuses freed blocks and never shrinks a file by itself: after a large deletion the files keep their size. Only collections with
much free space are compacted, because the command rewrites blocks. It blocks neither reads nor writes (since MongoDB 4.4).

A replica set keeps data deleted in the last five minutes for its snapshots (``minSnapshotHistoryWindowInSeconds``), which backups need; the
next run returns that space.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from pymongo.errors import OperationFailure

from infinite_memory.store.base import StoreCompaction
from infinite_memory.store.mongo import schema
from infinite_memory.store.mongo.client import Connection, Database
from infinite_memory.store.mongo.drivers import aggregate

MIN_FREE_BYTES = 1 << 20  # WiredTiger skips files smaller than a megabyte
MIN_FREE_SHARE = 0.1  # share of a collection with its indexes; below a tenth WiredTiger finds nothing to do
TIME_FACTOR = 240  # times the request timeout: 20 minutes per collection by default

_REFUSED = {13, 59, 115, 8000}  # Unauthorized, CommandNotFound, CommandNotSupported, Atlas-specific
_GONE = {26, 175}  # NamespaceNotFound, QueryPlanKilled: the collection was dropped concurrently
_NOT_ALLOWED = "the server does not let this account compact; whoever runs it can"
_ROUTER = "a router of a sharded cluster has no compact; run it on each shard"


@dataclass(frozen=True, slots=True)
class _Size:
    file_bytes: int
    free_bytes: int

    @property
    def is_worth_it(self) -> bool:
        return self.free_bytes >= max(MIN_FREE_BYTES, self.file_bytes * MIN_FREE_SHARE)


async def compact(connection: Connection, *, deployment: str, dry_run: bool) -> StoreCompaction:
    """Return the bytes freed by compacting our collections, by collection, or with *dry_run* what could be freed.

    Raises:
        StoreUnavailableError: the server went away; collections compacted before that stay so.
    """
    if deployment == "sharded":
        return StoreCompaction({}, _ROUTER)
    async with connection.operation(factor=10) as database:
        if not dry_run:
            await _checkpoint(database)
        candidates = [(name, size) async for name, size in _sizes(database) if size.is_worth_it]
    freed: dict[str, int] = {}
    for name, size in candidates:
        count = size.free_bytes if dry_run else await _compact_collection(connection, name)
        if count is None:
            return StoreCompaction(freed, _NOT_ALLOWED)
        if count > 0:
            freed[name] = count
    return StoreCompaction(freed)


async def _checkpoint(database: Database) -> None:
    """Force a checkpoint: blocks freed since the last one do not count as free yet."""
    # If it is not permitted, space freed in the last minute is left for the next run.
    with contextlib.suppress(OperationFailure):
        await database.client.admin.command("fsync")


async def _compact_collection(connection: Connection, name: str) -> int | None:
    """Return the bytes freed by compacting one collection, or None if the server does not permit it."""
    async with connection.operation(factor=TIME_FACTOR) as database:
        before = await _size(database, name)
        try:
            # A primary needs `force`: it slows down while compacting, so this runs at night.
            await database.command("compact", name, force=True)
        except OperationFailure as exc:
            if exc.code in _REFUSED:
                return None
            if exc.code in _GONE:
                return 0
            raise
        after = await _size(database, name)
    return max(0, before.file_bytes - after.file_bytes)


async def _sizes(database: Database) -> AsyncIterator[tuple[str, _Size]]:
    for name in sorted(await database.list_collection_names(filter={"type": "collection"})):
        if name in schema.ALL or name.startswith(schema.PREFIX):
            yield name, await _size(database, name)


async def _size(database: Database, name: str) -> _Size:
    """Return the size in bytes of a collection's files, indexes included, and how many of them are free."""
    shards = await aggregate(database[name], [{"$collStats": {"storageStats": {}}}])
    file_bytes = free_bytes = 0
    for stats in (shard["storageStats"] for shard in shards):
        file_bytes += int(stats.get("storageSize", 0)) + int(stats.get("totalIndexSize", 0))
        free_bytes += int(stats.get("freeStorageSize", 0))
        for details in stats.get("indexDetails", {}).values():
            free_bytes += int(details.get("block-manager", {}).get("file bytes available for reuse", 0))
    return _Size(file_bytes, free_bytes)
