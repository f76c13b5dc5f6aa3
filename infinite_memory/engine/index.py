"""Keeps the sidecar level with the store: loaded or rebuilt at start, brought up to date, saved, completed.

Own writes enter the sidecar before their request is answered, so a memory just stored is found by the next request. What others
write arrives through the store's change feed, as do the echoes of own writes, which are known by their revision and cost nothing.
The feed's token is saved with the sidecar: the next start reads only what happened since.

Why a token and no comparison at start: comparing a million ids takes seconds, reading the changes of a night takes none. The
comparison is the fallback when the token is too old, and what `check` does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from infinite_memory.engine.embeddings import Embeddings
from infinite_memory.engine.scopes import ScopeBook
from infinite_memory.engine.text_feed import TextFeed
from infinite_memory.errors import (
    EmbeddingError,
    InfiniteMemoryError,
    SidecarError,
    SidecarNotReadyError,
    StoreError,
    StoreUnavailableError,
)
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId
from infinite_memory.sidecar.base import Row, Sidecar, SidecarFiles, TextIndex
from infinite_memory.store.base import Change, ChangeKind, Located, Store

log = logging.getLogger(__name__)
T = TypeVar("T")

BATCH = 500  # memories fetched or indexed at a time: small enough to keep the loop responsive
EMBED_BATCH = 32  # pending memories embedded at a time, so that questions get their turn
RETRY_S = 1.0  # pause after the store was unreachable
RETRY_EMBED_S = 30.0  # pause after the model failed
REMOVALS_KEPT = 10_000  # memories removed a moment ago, which a slower reader must not bring back
SAVE_SHARE = 20  # after a save, this many times its length without one: a large index must not be written all day
NO_SPACE = "none"  # stands for the space of a model that is not there: everything is pending


@dataclass(frozen=True, slots=True)
class Checked:
    """What a comparison of sidecar and store found and mended."""

    missing: int
    stale: int
    surplus: int

    @property
    def faults(self) -> int:
        """How many memories were not as the store has them."""
        return self.missing + self.stale + self.surplus


class Index:
    """The sidecar with its upkeep. Used from one event loop; the sidecar's own work runs in threads."""

    def __init__(
        self, store: Store, scopes: ScopeBook, embeddings: Embeddings, files: SidecarFiles, words: TextFeed,
        *, wait_s: float, save_every_s: float,
    ) -> None:  # fmt: skip
        self._store, self._scopes, self._embeddings, self._files = store, scopes, embeddings, files
        self._words = words
        self._wait_s, self._save_every_s = wait_s, save_every_s
        self._sidecar: Sidecar | None = None
        self._token = b""
        self._unsaved_since: float | None = None
        self._save_asap = False
        self._saved_at = self._save_took_s = 0.0
        self._removed: OrderedDict[MemoryId, None] = OrderedDict()
        self._removals = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._opening: asyncio.Future[None] | None = None
        self._wake_pending = asyncio.Event()
        self._saving = asyncio.Lock()
        self.on_change: Callable[[Change], None] = lambda _: None  # is told of every change, once it can be found
        self.state = "waiting for MongoDB"

    # opening and closing

    def start(self) -> None:
        """Begin to open in the background; needs a running event loop."""
        self._opening = asyncio.get_running_loop().create_future()
        self._tasks = [asyncio.create_task(self._run(), name="index")]

    async def close(self) -> None:
        """Stop following, and save what is not saved."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._sidecar is not None and self._unsaved_since is not None:
            try:
                await self.save()
            except SidecarError as problem:
                log.warning("the sidecar was not saved: %s", problem, extra={"event": "sidecar_not_saved"})
        await self._words.close()

    @property
    def words(self) -> TextIndex | None:
        """The text index, or None while it is being opened."""
        return self._words.index

    async def sidecar(self) -> Sidecar:
        """Give the sidecar once it is level with the store; waits at most the configured time.

        Raises:
            StoreUnavailableError: MongoDB could not be reached at the last try.
            SidecarNotReadyError: it is still loading or being rebuilt.
        """
        if self._sidecar is not None:
            return self._sidecar
        assert self._opening is not None
        try:
            await asyncio.wait_for(asyncio.shield(self._opening), self._wait_s)
        except TimeoutError:
            raise SidecarNotReadyError(f"the index is not ready yet ({self.state}); try again in a moment") from None
        assert self._sidecar is not None
        return self._sidecar

    async def _run(self) -> None:
        """Open, then follow the store for as long as the process lives; the one outermost loop of this job."""
        while True:
            try:
                await self._store.connect()
                await self._scopes.refresh()
                await self._open_and_follow()
            except StoreError as problem:
                self._fail(problem)
                await asyncio.sleep(RETRY_S)
            except asyncio.CancelledError:
                raise
            except Exception as problem:
                log.exception("keeping the index failed", extra={"event": "index_failed"})
                self._fail(
                    SidecarNotReadyError(f"the index could not be opened ({type(problem).__name__}); see the log")
                )
                await asyncio.sleep(RETRY_S)

    def _fail(self, problem: InfiniteMemoryError) -> None:
        """Tell those who wait, and let later ones wait for the next try."""
        assert self._opening is not None
        if self._sidecar is None and not self._opening.done():
            self._opening.set_exception(problem)
            self._opening.exception()  # it may be that nobody waits
            self._opening = asyncio.get_running_loop().create_future()

    async def _open_and_follow(self) -> None:
        sidecar, token = self._sidecar, self._token
        if sidecar is None:
            sidecar, token = await self._load_or_rebuild()
        self._set_archived(sidecar)
        await self._words.open(sidecar, token)
        try:
            await self._follow(sidecar, token)
        except StoreUnavailableError:
            raise
        except StoreError as problem:
            log.info("the change feed cannot be resumed, comparing instead: %s", problem, extra={"event": "feed_lost"})
            token = await self._store.change_token()
            await self._compare(sidecar)
            self._unsaved_since = time.monotonic()
            await self._follow(sidecar, token)

    async def _load_or_rebuild(self) -> tuple[Sidecar, bytes]:
        self.state = "loading"
        space, dim = self._space()
        try:
            return await _in_thread(lambda: self._files.load(self._store.identity, space, dim))
        except SidecarError as problem:
            log.info("the sidecar is rebuilt: %s", problem, extra={"event": "sidecar_rebuilt"})
        token = await self._store.change_token()
        sidecar = await self._build(space, dim)
        try:
            await _in_thread(lambda: self._files.save(sidecar, self._store.identity, token))
        except SidecarError as problem:
            log.warning("the sidecar was not saved: %s", problem, extra={"event": "sidecar_not_saved"})
            self._unsaved_since = time.monotonic()
        return sidecar, token

    def _space(self) -> tuple[str, int]:
        try:
            return self._embeddings.space, self._embeddings.dim
        except EmbeddingError:
            return NO_SPACE, 1

    async def _build(self, space: str, dim: int) -> Sidecar:
        sidecar = await _in_thread(lambda: self._files.create(space, dim))
        rows: list[Row] = []
        count = 0
        async for memory in self._store.stream():
            rows.append(Row.of(memory))
            if len(rows) >= BATCH:
                count += len(rows)
                self.state = f"rebuilding, {count:,} memories so far"
                await _upsert(sidecar, rows)
                rows = []
        await _upsert(sidecar, rows)
        return sidecar

    async def _follow(self, sidecar: Sidecar, token: bytes) -> None:
        batch: list[Change] = []
        last = token
        async for change in self._store.changes(token):
            if change is not None:
                batch.append(change)
                last = change.token
            if batch and (change is None or len(batch) >= BATCH):
                await self._apply(sidecar, batch)
                for one in batch:
                    self.on_change(one)
                batch = []
            self._token = last
            if change is None and self._sidecar is not sidecar:
                self._open(sidecar)
            await self._save_if_due()

    def _open(self, sidecar: Sidecar) -> None:
        assert self._opening is not None
        self._sidecar, self.state = sidecar, "ready"
        if not self._opening.done():
            self._opening.set_result(None)
        log.info("the index is ready", extra={"event": "index_ready"})
        if len(self._tasks) == 1:
            self._tasks.append(asyncio.create_task(self._embed_pending(), name="pending embeddings"))
        self._wake_pending.set()

    def save_soon(self) -> None:
        """Save within a second or two: what was removed for good is to leave the files as well."""
        self._save_asap = self._unsaved_since is not None
        self._words.purge_soon()

    def _set_archived(self, sidecar: Sidecar) -> None:
        archived = self._scopes.archived_ids()
        sidecar.set_archived(archived)
        self._words.set_archived(archived)

    async def _save_if_due(self) -> None:
        if self._sidecar is not None:
            await self._words.tend(self._sidecar)
        since, now = self._unsaved_since, time.monotonic()
        rested = now - self._saved_at > SAVE_SHARE * self._save_took_s
        due = since is not None and (self._save_asap or now - since > self._save_every_s)
        if self._sidecar is not None and due and rested:
            try:
                await self.save()
            except SidecarError as problem:
                log.warning("the sidecar was not saved: %s", problem, extra={"event": "sidecar_not_saved"})
                self._unsaved_since = time.monotonic()

    # what happens to memories

    async def wrote(self, memories: Sequence[MemoryRecord]) -> None:
        """Enter memories that this process just wrote; they are found from now on."""
        if self._sidecar is not None:
            for memory in memories:
                self._removed.pop(memory.memory_id, None)
            await _upsert(self._sidecar, [Row.of(memory) for memory in memories])
            await self._words.entered(self._sidecar, memories)
            self._changed()
            if any(memory.embedding is None for memory in memories):
                self._wake_pending.set()

    def removed(self, memory_ids: Iterable[MemoryId]) -> None:
        """Take out memories that this process just deleted, softly or for good; they are not found from now on."""
        gone = list(memory_ids)
        for memory_id in gone:
            self._removed[memory_id] = None
            self._removals += 1
        while len(self._removed) > REMOVALS_KEPT:
            self._removed.popitem(last=False)
        if self._sidecar is not None:
            self._remove(self._sidecar, gone)
            self._changed()

    def scope_removed(self, scope_id: ScopeId) -> None:
        """Take out a whole scope that this process just dropped."""
        if self._sidecar is not None:
            self._remove_scope(self._sidecar, scope_id)

    def _remove(self, sidecar: Sidecar, memory_ids: Iterable[MemoryId]) -> None:
        gone = list(memory_ids)
        self._words.removed(sidecar, gone)
        sidecar.remove(gone)

    def _remove_scope(self, sidecar: Sidecar, scope_id: ScopeId) -> None:
        sidecar.remove_scope(scope_id)
        self._words.scope_removed(scope_id)
        self._changed()

    def scopes_changed(self) -> None:
        """Take over which scopes are archived now."""
        if self._sidecar is not None:
            self._set_archived(self._sidecar)

    def _changed(self) -> None:
        if self._unsaved_since is None:
            self._unsaved_since = time.monotonic()

    async def _apply(self, sidecar: Sidecar, changes: Sequence[Change]) -> None:
        """Bring the sidecar level with what the feed told, own echoes included."""
        removals = self._removals
        wanted: dict[MemoryId, ScopeId] = {}
        for change in changes:
            if change.kind is ChangeKind.SCOPES_CHANGED:
                await self._scopes.refresh()
                self._set_archived(sidecar)
            elif change.kind is ChangeKind.SCOPE_REMOVED and change.scope_id:
                self._remove_scope(sidecar, change.scope_id)
                wanted = {one: scope for one, scope in wanted.items() if scope != change.scope_id}
            elif change.kind is ChangeKind.REMOVED and change.memory_id:
                wanted.pop(change.memory_id, None)
                self._remove(sidecar, [change.memory_id])
                self._changed()
            elif change.memory_id and change.scope_id and not sidecar.is_current(change.memory_id, change.revision):
                wanted[change.memory_id] = change.scope_id
        if wanted:
            await self._take_over(sidecar, wanted, removals)

    async def _take_over(self, sidecar: Sidecar, wanted: Located, removals: int) -> None:
        """Read memories from the store into the sidecar; those that are not live there go."""
        memories = await self._store.fetch(wanted, vectors=True)
        if self._removals != removals:  # something was removed while the store was read: what was read may be older
            memories = {one: memory for one, memory in memories.items() if one not in self._removed}
        await _upsert(sidecar, [Row.of(memory) for memory in memories.values()])
        await self._words.entered(sidecar, list(memories.values()))
        self._remove(sidecar, wanted.keys() - memories.keys())
        self._changed()
        if any(memory.embedding is None for memory in memories.values()):
            self._wake_pending.set()

    # upkeep

    async def save(self) -> None:
        """Write the sidecar's files now.

        Raises:
            SidecarError: they could not be written; the ones before are still there.
        """
        sidecar = await self.sidecar()
        async with self._saving:
            began = time.monotonic()
            token, self._unsaved_since, self._save_asap = self._token, None, False
            if not token:
                token = await self._store.change_token()
            await self._words.flush(token)
            try:
                await _in_thread(lambda: self._files.save(sidecar, self._store.identity, token))
            except SidecarError:
                self._changed()
                raise
            finally:
                self._saved_at = time.monotonic()
                self._save_took_s = self._saved_at - began

    async def check(self) -> Checked:
        """Compare every memory's revision with the store and mend what differs."""
        return await self._compare(await self.sidecar())

    async def _compare(self, sidecar: Sidecar) -> Checked:
        known = dict(await _in_thread(sidecar.revisions))
        missing: dict[MemoryId, ScopeId] = {}
        stale: dict[MemoryId, ScopeId] = {}
        removals = self._removals
        async for version in self._store.versions():
            revision = known.pop(version.memory_id, None)
            if revision is None and not sidecar.is_current(version.memory_id, version.revision):
                missing[version.memory_id] = version.scope_id
            elif revision is not None and revision < version.revision:
                stale[version.memory_id] = version.scope_id
        wanted = list((missing | stale).items())
        for at in range(0, len(wanted), BATCH):
            await self._take_over(sidecar, dict(wanted[at : at + BATCH]), removals)
        surplus = 0
        if known:  # unknown to the store when it was read, unless written since
            located = sidecar.locate(known)
            there: set[MemoryId] = set()
            ids = list(located.items())
            for at in range(0, len(ids), BATCH):
                there |= (await self._store.fetch(dict(ids[at : at + BATCH]))).keys()
            gone = known.keys() - there
            self._remove(sidecar, gone)
            surplus = len(gone)
        return Checked(len(missing), len(stale), surplus)

    async def rebuild(self) -> int:
        """Build the sidecar anew from the store and put it in the place of the old one; gives the number of memories."""
        await self.sidecar()
        space, dim = self._space()
        sidecar = await self._build(space, dim)
        self._set_archived(sidecar)
        await self._compare(sidecar)  # what was written while it was built
        self._sidecar = sidecar
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = [asyncio.create_task(self._run(), name="index")]
        self._changed()
        self._wake_pending.set()
        await self.save()
        return sum(sidecar.count_by_scope().values())

    async def _embed_pending(self) -> None:
        """Give vectors to memories that have none of the current space, oldest first; the outermost loop of this job."""
        while True:
            await self._wake_pending.wait()
            self._wake_pending.clear()
            try:
                while await self._embed_some():
                    pass
            except (EmbeddingError, StoreError) as problem:
                log.info("embedding what is pending is put off: %s", problem, extra={"event": "pending_put_off"})
                self._wake_later(RETRY_EMBED_S)
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("embedding what is pending failed", extra={"event": "pending_failed"})
                self._wake_later(RETRY_EMBED_S)

    def _wake_later(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._wake_pending.set)

    async def _embed_some(self) -> bool:
        """Embed one batch of pending memories; tells whether there may be more."""
        sidecar = await self.sidecar()
        pending = list(sidecar.pending())[:EMBED_BATCH]
        if not pending:
            return False
        await self._embeddings.ready()
        memories = await self._store.fetch(sidecar.locate(pending))
        self._remove(sidecar, set(pending) - memories.keys())
        made = await self._embeddings.embed_memories([embedded_text(one) for one in memories.values()])
        for memory, embedding in zip(list(memories.values()), made, strict=True):
            if not await self._store.set_embedding(memory.memory_id, memory.scope_id, memory.revision, embedding):
                continue  # it changed meanwhile; the change feed or its writer brings the new form
        await self._take_over(sidecar, {one.memory_id: one.scope_id for one in memories.values()}, self._removals)
        log.info("embedded %d memories", len(made), extra={"event": "pending_embedded"})
        return True

    def count(self) -> int | None:
        """Count the memories that the sidecar knows; None before it is there."""
        return sum(self._sidecar.count_by_scope().values()) if self._sidecar is not None else None

    def count_pending(self) -> int:
        """Count memories that still lack a vector of the current space; 0 before the sidecar is there."""
        return len(self._sidecar.pending()) if self._sidecar is not None else 0


def embedded_text(memory: MemoryRecord) -> str:
    """Give the text of a memory that is embedded."""
    return memory.text


async def _upsert(sidecar: Sidecar, rows: Sequence[Row]) -> None:
    if len(rows) <= 4:  # quicker than a thread's round trip, and far below what the loop may be held up
        sidecar.upsert(rows)
    else:
        await _in_thread(lambda: sidecar.upsert(rows))


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, work)
