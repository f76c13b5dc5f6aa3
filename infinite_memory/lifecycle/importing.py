"""Importing: what a reader gives becomes memories, each once however often it is imported.

A memory gets the id that it had in our export, or one made from its origin's name for it. What has that id already, live or
forgotten, is not touched; so importing twice adds nothing, and an import that was cut off is finished by doing it again.

While one batch is written the next is embedded, so that the model never waits: an import goes at its speed.
"""

from __future__ import annotations

import asyncio
import contextlib
import csv
import dataclasses
import sqlite3
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from infinite_memory.engine.parts import Parts, Progress
from infinite_memory.engine.pending import embedded_text
from infinite_memory.engine.scopes import GLOBAL, check_name
from infinite_memory.engine.tasks import cancel_and_wait
from infinite_memory.errors import (
    EmbeddingError,
    InfiniteMemoryError,
    InvalidRequestError,
    ScopeArchivedError,
    ScopeExistsError,
    ScopeNotFoundError,
)
from infinite_memory.lifecycle.admission import fault_of, id_of, record_of
from infinite_memory.lifecycle.history import History
from infinite_memory.lifecycle.importers import (
    Entry,
    Incoming,
    IncomingScope,
    IncomingVersion,
    Refused,
    find_format,
    forget_files,
)
from infinite_memory.models import Embedding, MemoryId, MemoryRecord, Scope, ScopeId, fold

BATCH = 160  # memories embedded and stored together: the loop is held up for some 5 ms at most
BATCH_CHARS = 4 << 20  # of their texts together
AT_ONCE = 2  # batches under way, one embedded and one written: a cut-off import repeats at most so many
REFUSALS_TOLD = 100  # the first of them; all are counted
_NAME_CHARS = 256


@dataclass(slots=True)
class Imported:
    """What an import did, or would do. ``refused`` lists the first of what was left out; ``also`` counts what came beside memories."""

    form: str
    added: int = 0
    present: int = 0
    refused_count: int = 0
    refused: list[Refused] = field(default_factory=list)
    also: Counter[str] = field(default_factory=Counter)

    def refuse(self, one: Refused) -> None:
        """Note an entry that is not taken."""
        self.refused_count += 1
        if len(self.refused) < REFUSALS_TOLD:
            self.refused.append(one)


async def import_path(
    parts: Parts,
    path: Path,
    *,
    form: str | None = None,
    scope: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Import a file or folder.

    Args:
        form: Name of its format; None finds it.
        scope: Everything goes there; None keeps the scopes of our own exports, and is Global otherwise.
        dry_run: Only tell what would be added.
        progress: Told how many entries were read; of how many is not known (0).

    Raises:
        InvalidRequestError: there is no such file, or it is in no known form.
        StoreUnavailableError: MongoDB cannot be reached; what was imported until now stays.
    """
    await parts.index.sidecar()
    try:
        chosen = await asyncio.to_thread(find_format, path, form)
        work = _Import(parts, scope, Imported(chosen.name), dry_run=dry_run)
        return await work.run(chosen.read(path), progress)
    finally:
        forget_files()


async def import_older(
    parts: Parts,
    uri: str,
    database: str | None,
    *,
    scope: str | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Import the MongoDB database of the older InfiniteMemoryMCP, which is only read.

    Raises:
        InvalidRequestError: it is on a machine that the settings do not allow, cannot be reached, or is no such database.
        StoreUnavailableError: our own MongoDB cannot be reached; what was imported until now stays.
    """
    # PyMongo costs 40 ms to import, which no start has to pay for.
    from infinite_memory.lifecycle.importers.older import NAME as OLDER
    from infinite_memory.lifecycle.importers.older import read_older
    from infinite_memory.store.older import OlderDatabase, check_hosts

    check_hosts(uri, parts.config.mongodb.uri, parts.config.mongodb.import_hosts)
    await parts.index.sidecar()
    with await asyncio.to_thread(lambda: OlderDatabase(uri, database)) as older:
        return await _Import(parts, scope, Imported(OLDER), dry_run=dry_run).run(read_older(older), progress)


class _Import:
    """One import under way."""

    def __init__(self, parts: Parts, scope: str | None, done: Imported, *, dry_run: bool) -> None:
        self._parts, self._scope, self._done, self._dry_run = parts, scope, done, dry_run
        self._writing, self._read = asyncio.Lock(), 0
        self._seen: set[MemoryId] = set()
        self._archived: set[str] = set()  # scopes that are put away where they come from, by folded name
        self._planned: set[str] = set()  # scopes that a dry run would make
        self._revisions: dict[MemoryId, int] = {}  # of what was added
        self._history = History(
            parts, self._scope_of, self._version, self._revisions, done.refuse, into=scope, dry_run=dry_run
        )

    async def run(self, entries: Iterator[Entry], progress: Progress | None) -> Imported:
        """Take everything that a reader gives."""
        done, under_way = self._done, deque[asyncio.Task[None]]()
        try:
            while batch := await asyncio.to_thread(_next_batch, entries):
                while len(under_way) >= AT_ONCE:
                    await under_way.popleft()
                memories = await self._take(batch)
                under_way.append(asyncio.create_task(self._keep(memories, len(batch), progress), name="import"))
            while under_way:
                await under_way.popleft()
        finally:
            await cancel_and_wait(under_way)
            await asyncio.gather(*under_way, return_exceptions=True)  # the first failure is told, not what followed it
        await self._history.finish()
        done.also += self._history.added
        return done

    async def _take(self, batch: list[Entry]) -> list[MemoryRecord]:
        """Take all of a batch but its memories; gives those that are to be stored."""
        memories, beside = [], []
        for one in batch:
            if isinstance(one, Refused):
                self._done.refuse(one)
            elif isinstance(one, IncomingScope):
                await self._take_scope(one)
            elif isinstance(one, Incoming):
                memories.append(one)
            else:
                beside.append(one)
        fresh = await self._fresh(memories)
        await self._history.take(beside)
        return fresh

    async def _take_scope(self, one: IncomingScope) -> None:
        """Make a scope as it was; one that is there stays as it is."""
        if self._scope is not None:
            return
        name = one.name.strip()[:_NAME_CHARS]
        try:
            check_name(name)
            name.encode()
        except (InfiniteMemoryError, UnicodeEncodeError) as problem:
            self._done.refuse(Refused(f"scope {name[:40]!r}", str(problem)))
            return
        if one.archived_at is not None:
            self._archived.add(fold(name))
        scope = await self._find(name)
        if scope is None and fold(name) not in self._planned:
            self._done.also["scopes"] += 1
            self._planned.add(fold(name))
            if not self._dry_run:
                made_at = one.created_at or self._parts.clock()
                with contextlib.suppress(ScopeExistsError):  # somebody made it at this moment
                    scope = await self._parts.store.create_scope(name, one.description, made_at)
        if scope is None or self._dry_run:
            return
        if one.archived_at is not None and scope.archived_at is None and await self._is_empty(scope):
            await self._parts.store.set_scope_archived(scope.scope_id, one.archived_at)
        await self._parts.scopes.refresh()
        self._parts.index.scopes_changed()

    async def _is_empty(self, scope: Scope) -> bool:
        store = self._parts.store
        live = (await store.count_live()).get(scope.scope_id, 0)
        return not live and not await store.deleted_ids([scope.scope_id], None)

    async def _find(self, name: str) -> Scope | None:
        with contextlib.suppress(ScopeNotFoundError):
            return await self._parts.scopes.get(name)
        return None

    async def _scope_of(self, name: str) -> Scope | None:
        """Give the scope into which what comes from *name* goes; None where a dry run would make it.

        Raises:
            ScopeArchivedError: it was put away here, and not where it comes from.
            InvalidRequestError: its name is reserved.
        """
        name = (self._scope or name).strip()[:_NAME_CHARS]
        check_name(name)
        scope = await self._find(name)
        if scope is None and self._dry_run:
            return None
        if scope is None or scope.archived_at is None:
            return scope or await self._parts.scopes.get_open(name, create=True)
        if self._scope is not None or fold(name) not in self._archived:
            raise ScopeArchivedError(scope.name)
        return scope

    async def _fresh(self, batch: list[Incoming]) -> list[MemoryRecord]:
        """Make records of those that can be stored and are not there yet."""
        done = self._done
        wanted: dict[MemoryId, Incoming] = {}
        for one in batch:
            if (fault := fault_of(one, self._parts.config.limits.text_bytes)) is not None:
                done.refuse(Refused(_named(one), fault))
            elif (memory_id := id_of(one)) in self._seen:
                done.present += 1
            else:
                self._seen.add(memory_id)
                wanted[memory_id] = one
        there = await self._parts.store.locate(list(wanted)) if wanted else {}
        done.present += len(there)
        memories = []
        for memory_id, one in wanted.items():
            if memory_id in there:
                continue
            try:
                scope = await self._scope_of(one.scope or GLOBAL)
            except InfiniteMemoryError as problem:
                done.refuse(Refused(_named(one), str(problem)))
                continue
            memories.append(record_of(memory_id, one, scope.scope_id if scope else ScopeId(""), self._parts.clock()))
        self._revisions |= {one.memory_id: one.revision for one in memories}
        return memories

    def _version(self, memory_id: MemoryId, one: IncomingVersion, scope_id: ScopeId) -> MemoryRecord:
        made = record_of(memory_id, one.memory, scope_id, self._parts.clock())
        return dataclasses.replace(made, revision=one.revision)

    async def _keep(self, memories: list[MemoryRecord], read: int, progress: Progress | None) -> None:
        """Embed and store what is fresh of *read* entries; batches are embedded side by side and written one after the other."""
        if memories and not self._dry_run:
            made: list[Embedding | None] = [None] * len(memories)
            with contextlib.suppress(EmbeddingError):  # they are kept, and embedded later
                made = list(await self._parts.embeddings.embed_memories([embedded_text(one) for one in memories]))
            whole = [dataclasses.replace(one, embedding=vectors) for one, vectors in zip(memories, made, strict=True)]
            async with self._writing:
                await self._parts.store.insert(whole)
                await self._parts.index.wrote([one for one in whole if one.deleted_at is None])
        self._done.added += len(memories)
        self._read += read
        if progress is not None:
            progress(self._read, 0)


def _named(one: Incoming) -> str:
    return (one.title or one.text)[:40].encode("utf-8", "replace").decode()


def _next_batch(entries: Iterator[Entry]) -> list[Entry]:
    batch: list[Entry] = []
    chars = 0
    try:
        while len(batch) < BATCH and chars < BATCH_CHARS and (one := next(entries, None)) is not None:
            batch.append(one)
            chars += len(one.text) if isinstance(one, Incoming) else 0
    except (OSError, UnicodeDecodeError, csv.Error, sqlite3.Error) as problem:
        raise InvalidRequestError("path", f"cannot be read to its end: {problem}") from problem
    return batch
