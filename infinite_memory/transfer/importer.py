"""Importing: entries of a reader become memories, each only once however often it is imported.

A memory gets the id that it had in our export, or one derived from its key in the origin. If that id exists already, live or
forgotten, nothing is changed: importing twice adds nothing, and an interrupted import is finished by repeating it. An entry with a known
key and another text becomes a memory of its own (`Known`).

One batch is written while the next is embedded, so an import runs at the speed of the model. Texts that would each take the model
seconds are stored without a vector and embedded later.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from infinite_memory.clock import Clock
from infinite_memory.config import Config
from infinite_memory.engine.agreement import Agreement
from infinite_memory.engine.records import LONG_CHARS
from infinite_memory.engine.types import Progress
from infinite_memory.errors import (
    ChangedSinceAskedError,
    EmbeddingError,
    InfiniteMemoryError,
    InvalidRequestError,
    ScopeArchivedError,
    ScopeExistsError,
    ScopeNotFoundError,
    StoreUnavailableError,
    format_count,
)
from infinite_memory.file_work import file_work, in_file_thread
from infinite_memory.index.embedding_backlog import embedded_text
from infinite_memory.models import Embedding, MemoryId, MemoryRecord, Scope, ScopeId, fold
from infinite_memory.store.base import Store
from infinite_memory.store.scope_cache import GLOBAL, ScopeCache, check_name
from infinite_memory.tasks import cancel_and_wait
from infinite_memory.transfer.entry_reader import EntryReader
from infinite_memory.transfer.formats import (
    Entry,
    Incoming,
    IncomingFact,
    IncomingLink,
    IncomingScope,
    IncomingVersion,
    Refused,
)
from infinite_memory.transfer.import_folders import ImportFolders, locate_anywhere
from infinite_memory.transfer.known import OTHER, Known
from infinite_memory.transfer.preview import ImportPreview
from infinite_memory.transfer.related import History
from infinite_memory.transfer.validation import Admitted, fault_of_name, to_record

if TYPE_CHECKING:
    from infinite_memory.embedding.service import EmbeddingService
    from infinite_memory.index.sync import IndexSync

AT_ONCE = 2  # batches in progress, one embedded and one written: an interrupted import repeats at most this many
MAX_REPORTED_REFUSALS = 100  # the first of them; all are counted
MAX_REPORTED_REASONS = 50  # each with its count
WAITING_CHARS = 32 << 20  # earlier versions that wait for their memories
OTHER_REASONS = "for other reasons"

T = TypeVar("T")


@dataclass(slots=True)
class Imported:
    """The result of an import, or of a dry run.

    ``beside`` counts those of ``added`` whose key or id belongs to another memory here. ``refused`` lists the first skipped entries,
    ``reasons`` counts all of them; ``also`` counts what was imported beside memories. ``preview`` is set by a dry run.
    """

    form: str
    path: Path | None = None
    added: int = 0
    present: int = 0
    beside: int = 0
    refused_count: int = 0
    refused: list[Refused] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    also: Counter[str] = field(default_factory=Counter)
    contents: tuple[str, ...] = ()  # digests of the input, part by part
    preview: ImportPreview | None = None

    def refuse(self, entry: Refused) -> None:
        """Record a skipped entry."""
        self.refused_count += entry.count
        is_counted = entry.reason in self.reasons or len(self.reasons) < MAX_REPORTED_REASONS
        self.reasons[entry.reason if is_counted else OTHER_REASONS] += entry.count
        if len(self.refused) < MAX_REPORTED_REFUSALS:
            self.refused.append(entry)


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """Imports into one home."""

    store: Store
    index: IndexSync
    scopes: ScopeCache
    embeddings: EmbeddingService
    config: Config
    clock: Clock

    @file_work()
    async def import_path(
        self,
        path: Path | str,
        *,
        folders: ImportFolders | None = None,
        form: str | None = None,
        scope: str | None = None,
        dry_run: bool = False,
        agreement: Agreement | None = None,
        progress: Progress | None = None,
    ) -> Imported:
        """Import a file or folder.

        Args:
            folders: Where it has to be; None for callers who may name any path.
            form: Name of its format; None detects it.
            scope: Target of all memories; None keeps the scopes of our own exports, and means Global otherwise.
            dry_run: Only report what would be added.
            agreement: What the user agreed to; nothing else is imported.
            progress: Told how many entries were read; of how many is not known (0).

        Raises:
            InvalidRequestError: it is elsewhere, does not exist, or has no known format.
            ChangedSinceAskedError: it differs from what was *agreement*; says what was added before.
            StoreUnavailableError: MongoDB cannot be reached, or its disk is nearly full; what was imported so far stays.
        """
        root, names = locate_anywhere(Path(path)) if folders is None else folders.locate(str(path))
        await self.index.sidecar()
        with EntryReader(self.config.limits) as reader:
            opened = await reader.open(root, names, form)
            done = Imported(opened.form.name, opened.source.path)
            work = _Import(self, scope, done, dry_run=dry_run, agreement=agreement)
            return await work.run(reader, progress)

    @file_work()
    async def import_legacy(
        self,
        uri: str,
        database: str | None,
        *,
        scope: str | None = None,
        dry_run: bool = False,
        agreement: Agreement | None = None,
        progress: Progress | None = None,
    ) -> Imported:
        """Import the MongoDB database of the older InfiniteMemoryMCP, opened read-only.

        Raises:
            InvalidRequestError: it is on a machine that the settings do not allow, cannot be reached, or is no such database.
            StoreUnavailableError: our own MongoDB cannot be reached; what was imported so far stays.
        """
        # Importing PyMongo takes 40 ms, so it is imported here.
        from infinite_memory.store.mongo.legacy_mongodb import LegacyDatabase, check_hosts
        from infinite_memory.transfer.formats.legacy_mongodb import NAME as OLDER
        from infinite_memory.transfer.formats.legacy_mongodb import read_legacy

        check_hosts(uri, self.config.mongodb.uri, self.config.mongodb.import_hosts)
        await self.index.sidecar()
        with (
            await in_file_thread(lambda: LegacyDatabase(uri, database)) as older,
            EntryReader(self.config.limits) as reader,
        ):
            reader.entries = read_legacy(older)
            work = _Import(self, scope, Imported(OLDER), dry_run=dry_run, agreement=agreement)
            return await work.run(reader, progress)


class _Import:
    """One running import."""

    def __init__(
        self, importer: Importer, scope: str | None, done: Imported, *, dry_run: bool, agreement: Agreement | None
    ) -> None:
        self._store, self._index, self._scopes = importer.store, importer.index, importer.scopes
        self._embeddings, self._clock = importer.embeddings, importer.clock
        self._scope, self._done, self._dry_run, self._agreement = scope, done, dry_run, agreement
        done.preview = ImportPreview() if dry_run else None
        self._writing, self._read = asyncio.Lock(), 0
        self._known = Known(importer.store)
        self._archived: set[str] = set()  # scopes that are archived in their origin, by folded name
        self._put_away: set[ScopeId] = set()  # scopes that were archived when something was imported into them
        self._planned: set[str] = set()  # scopes that a dry run would create
        self._revisions: dict[MemoryId, int] = {}  # of the added memories
        self._history = History(
            self._store, self._scope_of, self._version, self._revisions, done.refuse, into=scope, dry_run=dry_run
        )

    async def run(self, reader: EntryReader, progress: Progress | None) -> Imported:
        """Import everything that a reader yields.

        Raises:
            StoreUnavailableError: MongoDB went away, or its disk is nearly full; says what was added before.
        """
        try:
            return await self._run(reader, progress)
        except StoreUnavailableError as exc:
            if self._dry_run or not self._done.added:
                raise
            raise StoreUnavailableError(
                f"{exc}; {self._count_added()} added before, importing the same again adds the rest"
            ) from exc

    async def _run(self, reader: EntryReader, progress: Progress | None) -> Imported:
        done, under_way = self._done, deque[asyncio.Task[None]]()
        try:
            while batch := await reader.next_batch():
                if self._agreement is not None:
                    self._check_agreed(self._agreement, reader.digests)
                while len(under_way) >= AT_ONCE:
                    await under_way.popleft()
                memories = await self._take(batch)
                under_way.append(asyncio.create_task(self._keep(memories, len(batch), progress), name="import"))
                if self._history.waiting_chars > WAITING_CHARS:
                    while under_way:
                        await under_way.popleft()
                    await self._history.take_waiting_versions()
            while under_way:
                await under_way.popleft()
        finally:
            await cancel_and_wait(under_way)
            await asyncio.gather(*under_way, return_exceptions=True)  # report the first failure, not its consequences
        await self._history.finish()
        done.also += self._history.added
        done.contents = tuple(reader.digests)
        return done

    def _check_agreed(self, agreement: Agreement, digests: list[str]) -> None:
        """Raise `ChangedSinceAskedError` if the last batch is not what the user agreed to."""
        if agreement.contents[len(digests) - 1 : len(digests)] != (digests[-1],):
            added = f"{self._count_added()} added before that, as it was then"
            raise ChangedSinceAskedError(
                "what is to be imported was changed", added if self._done.added else "nothing was changed"
            )

    def _count_added(self) -> str:
        return f"{format_count(self._done.added, 'memory')} {'was' if self._done.added == 1 else 'were'}"

    async def _take(self, batch: list[Entry | Admitted]) -> list[MemoryRecord]:
        """Import everything of a batch but its memories, and return the memories to store."""
        memories: list[Admitted] = []
        others: list[IncomingVersion | IncomingFact | IncomingLink] = []
        for entry in batch:
            if isinstance(entry, Refused):
                self._done.refuse(entry)
            elif isinstance(entry, IncomingScope):
                await self._take_scope(entry)
            elif isinstance(entry, Admitted):
                memories.append(entry)
            elif not isinstance(entry, Incoming):
                others.append(entry)
        fresh = await self._fresh(memories)
        await self._history.take(others)
        return fresh

    async def _take_scope(self, incoming: IncomingScope) -> None:
        """Create a scope as it was; an existing one is left unchanged."""
        if self._scope is not None:
            return
        name = incoming.name.strip()
        if (fault := _fault_of_scope(name)) is not None:
            self._done.refuse(Refused("a scope", fault))
            return
        if incoming.archived_at is not None:
            self._archived.add(fold(name))
        scope = await self._find(name)
        if scope is None and fold(name) not in self._planned:
            self._done.also["scopes"] += 1
            self._planned.add(fold(name))
            if not self._dry_run:
                made_at = incoming.created_at or self._clock()
                with contextlib.suppress(ScopeExistsError):  # somebody else created it just now
                    scope = await self._store.create_scope(name, incoming.description, made_at)
        if scope is None or self._dry_run:
            return
        if incoming.archived_at is not None and scope.archived_at is None and await self._is_empty(scope):
            await self._store.set_scope_archived(scope.scope_id, incoming.archived_at)
        await self._scopes.refresh()
        self._index.scopes_changed()

    async def _is_empty(self, scope: Scope) -> bool:
        store = self._store
        live = (await store.count_live()).get(scope.scope_id, 0)
        return not live and not await store.deleted_ids([scope.scope_id], None)

    async def _find(self, name: str) -> Scope | None:
        with contextlib.suppress(ScopeNotFoundError):
            return await self._scopes.get(name)
        return None

    async def _scope_of(self, name: str) -> Scope | None:
        """Return the target scope for entries of scope *name*; None if a dry run would create it.

        Raises:
            ScopeArchivedError: it is archived here, but not in its origin.
            InvalidRequestError: its name is reserved, too long or not printable.
        """
        name = (self._scope or name).strip()
        if (fault := _fault_of_scope(name)) is not None:
            raise InvalidRequestError("", fault)
        scope = await self._find(name)
        if scope is None and self._dry_run:
            return None
        if scope is None or scope.archived_at is None:
            return scope or await self._scopes.get_open(name, create=True)
        if self._scope is not None or fold(name) not in self._archived:
            raise ScopeArchivedError(scope.name)
        self._put_away.add(scope.scope_id)
        return scope

    async def _fresh(self, batch: list[Admitted]) -> list[MemoryRecord]:
        """Return records of the entries that do not exist yet."""
        done = self._done
        groups = await self._known.sort(batch)
        done.present += groups.present
        done.beside += groups.beside
        for entry in groups.other:
            done.refuse(Refused(entry.memory.where, OTHER))
        memories = []
        for memory_id, entry in groups.fresh.items():
            try:
                scope = await self._scope_of(entry.memory.scope or GLOBAL)
            except InfiniteMemoryError as exc:
                done.refuse(Refused(entry.memory.where, str(exc)))
                continue
            scope_id = scope.scope_id if scope else ScopeId("")
            if done.preview is not None:
                name = scope.name if scope else (self._scope or entry.memory.scope or GLOBAL).strip()
                done.preview.note(entry.memory, name, is_new=scope is None)
            memories.append(to_record(memory_id, entry.memory, scope_id, self._clock(), entry.content_hash))
        self._revisions |= {memory.memory_id: memory.revision for memory in memories}
        return memories

    def _version(self, memory_id: MemoryId, incoming: IncomingVersion, scope_id: ScopeId) -> MemoryRecord:
        record = to_record(memory_id, incoming.memory, scope_id, self._clock())
        return dataclasses.replace(record, revision=incoming.revision)

    async def _keep(self, memories: list[MemoryRecord], read: int, progress: Progress | None) -> None:
        """Embed and store the new ones of *read* entries; batches are embedded concurrently and written in order."""
        if memories and not self._dry_run:
            embeddings = await self._embed([embedded_text(memory) for memory in memories])
            embedded = [
                dataclasses.replace(memory, embedding=vectors)
                for memory, vectors in zip(memories, embeddings, strict=True)
            ]
            async with self._writing:
                if (shortage := await self._store.copies.find_shortage()) is not None:
                    raise StoreUnavailableError(f"{shortage}; make room")
                # A scope archived in the meantime may be about to be removed by a caller who does not count these.
                for is_put_away in (False, True):
                    some = [memory for memory in embedded if (memory.scope_id in self._put_away) is is_put_away]
                    await self._store.insert(some, include_archived=is_put_away)
                await self._index.on_written([memory for memory in embedded if memory.deleted_at is None])
        self._done.added += len(memories)
        self._read += read
        if progress is not None:
            progress(self._read, 0)

    async def _embed(self, texts: list[str]) -> list[Embedding | None]:
        """Embed texts; long ones are embedded later, as in `add`, and so are all of them if the model fails."""
        short = [text for text in texts if len(text) <= LONG_CHARS]
        try:
            embeddings = iter(await self._embeddings.embed_memories(short) if short else [])
        except EmbeddingError:
            return [None] * len(texts)
        return [next(embeddings) if len(text) <= LONG_CHARS else None for text in texts]


def _fault_of_scope(name: str) -> str | None:
    """Return why a scope name is invalid, without quoting it; None if it is valid."""
    if (fault := fault_of_name(name)) is not None:
        return fault
    try:
        check_name(name)
    except InfiniteMemoryError:
        return "its scope has a name that is reserved"
    return None
