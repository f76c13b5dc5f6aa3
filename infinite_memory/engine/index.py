"""Keeps the sidecar level with the store: loaded or rebuilt at start, brought up to date, saved.

Own writes enter the sidecar before their request is answered, so a memory just stored is found by the next request. What others
write arrives through the store's change feed; the echo of an own write is known by its revision. The feed's token is saved with
the sidecar, never ahead of what was applied: the next start reads only what happened since.

Why a token and no comparison at start: comparing a million ids takes seconds, reading the changes of a night takes none. The
comparison is the fallback when the token is too old, and what `check` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial

from infinite_memory.engine.comparing import Checked, compare
from infinite_memory.engine.embeddings import Embeddings
from infinite_memory.engine.filling import fill
from infinite_memory.engine.garbage import keep_what_is_here
from infinite_memory.engine.gate import Gate
from infinite_memory.engine.newest import Newest
from infinite_memory.engine.pending import PendingEmbeddings
from infinite_memory.engine.save_times import SaveTimes
from infinite_memory.engine.scopes import ScopeBook
from infinite_memory.engine.tasks import cancel_and_wait
from infinite_memory.engine.text_feed import TextFeed
from infinite_memory.errors import (
    EmbeddingError,
    FeedLostError,
    InfiniteMemoryError,
    SidecarError,
    SidecarNotReadyError,
    StoreError,
    StoreUnavailableError,
)
from infinite_memory.models import MemoryId, MemoryRecord, Row, ScopeId
from infinite_memory.sidecar.base import Sidecar, SidecarFiles, TextIndex
from infinite_memory.store.base import Change, ChangeKind, Located, Store

log = logging.getLogger(__name__)

BATCH = 500  # changes applied together at most: few enough to keep the loop responsive
FEW_ROWS = 4  # entered without a thread: quicker than its round trip, and far below what the loop may be held up
HOLD_S = 0.1  # a change waits at most about this long for company
RETRY_S = 1.0  # pause after the store was unreachable
EARLY_KEPT = 1000  # memories written before the sidecar was there that are found by the very next request
EARLY_WAIT_S = 2.0  # for the sidecar, once MongoDB is there: a new home has its files before a write is answered
SAVED_FIRST = 10_000  # memories up to which a new sidecar is written before it opens: in some hundredths of a second
NO_SPACE = "none"  # stands for the space of a model that is not there: everything is pending


class Index:
    """The sidecar with its upkeep. Used from one event loop; the sidecar's own work runs in threads."""

    def __init__(
        self, store: Store, scopes: ScopeBook, embeddings: Embeddings, files: SidecarFiles, words: TextFeed,
        *, wait_s: float, save_every_s: float,
    ) -> None:  # fmt: skip
        self._store, self._scopes, self._embeddings, self._files = store, scopes, embeddings, files
        self._words = words
        self._words.level_with = lambda: self._token
        self._wait_s = wait_s
        self._sidecar: Sidecar | None = None
        self.partial: Sidecar | None = None  # being rebuilt at a start, while the words alone can be searched
        self._next: Sidecar | None = None  # being built to take its place; own writes enter both
        self._early: dict[MemoryId, MemoryRecord] = {}  # written before the sidecar was there
        self._token = b""
        self._save_times = SaveTimes(save_every_s)
        self._removals, self._writes = Newest(), Newest()
        self._patient_until = 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._connected, self._worded, self._opened = Gate(), Gate(), Gate()
        self._resting, self._closed = 0, False
        self._saving, self._rebuilding = asyncio.Lock(), asyncio.Lock()
        self._pending = PendingEmbeddings(store, embeddings, self.sidecar, self._read_again)
        self.on_change: Callable[[Change], None] = lambda _: None  # is told of every change, once it can be found
        self.state = "waiting for MongoDB"

    # opening and closing

    def start(self) -> None:
        """Begin to open in the background; needs a running event loop."""
        self._tasks = [
            asyncio.create_task(self._run(), name="index"),
            asyncio.create_task(self._pending.run(), name="pending embeddings"),
        ]

    async def close(self) -> None:
        """Stop following, and save what is not saved."""
        self._closed = True
        await cancel_and_wait(self._tasks)
        if self._sidecar is not None and self._save_times.has_changes:
            try:
                await self.save()
            except (SidecarError, StoreError) as problem:
                log.warning("the sidecar was not saved: %s", problem, extra={"event": "sidecar_not_saved"})
        await self._words.close()

    @property
    def words(self) -> TextIndex | None:
        """The text index, or None while it is being opened."""
        return self._words.index

    @property
    def words_state(self) -> str:
        """Where the text index stands; see `TextFeed.state`."""
        return self._words.state

    async def connected(self) -> None:
        """Return once the store can be written; waits at most the configured time. The sidecar may still be loading.

        Raises:
            StoreUnavailableError: MongoDB could not be reached at the last try.
        """
        if not await self._connected.passed(self._wait_s):
            raise StoreUnavailableError(f"MongoDB is not ready after {self._wait_s:g} s; try again in a moment")

    async def sidecar(self) -> Sidecar:
        """Give the sidecar once it is level with the store; waits at most the configured time.

        Raises:
            StoreUnavailableError: MongoDB could not be reached at the last try.
            SidecarNotReadyError: it is still loading or being rebuilt.
        """
        if self._sidecar is None and not await self._opened.passed(self._wait_s):
            raise SidecarNotReadyError(f"the index is not ready yet ({self.state}); try again in a moment")
        assert self._sidecar is not None
        return self._sidecar

    async def for_words(self, patience_s: float = 0.0) -> Sidecar:
        """Give what a search by words alone needs: the sidecar, or sooner what there is of it while it is rebuilt (`partial`).

        Waits and raises as `sidecar` does.

        Args:
            patience_s: How long to wait for the whole where there is only a part.
        """
        if self.partial is None and self._sidecar is None:
            await self._worded.passed(self._wait_s)
        if self._sidecar is None:
            await self._opened.passed(min(patience_s, self._wait_s))
        return self.partial or await self.sidecar()

    async def _run(self) -> None:
        """Open, then follow the store for as long as the process lives; the one outermost loop of this job."""
        while True:
            try:
                await self._store.connect()
                await self._scopes.refresh()
                if not self._connected.is_open:
                    await self._pending.claim()
                    self._connected.open()
                    self._patient_until = time.monotonic() + EARLY_WAIT_S
                await self._open_and_follow()
            except StoreError as problem:
                self._fail(problem)
                log.info("the store cannot be followed: %s", problem, extra={"event": "not_followed"})
            except asyncio.CancelledError:
                self.partial = None
                raise
            except Exception as problem:
                log.exception("keeping the index failed", extra={"event": "index_failed"})
                said = f"the index could not be opened ({type(problem).__name__}); see the log"
                self._fail(SidecarNotReadyError(said))
            await asyncio.sleep(RETRY_S)

    def _fail(self, problem: InfiniteMemoryError) -> None:
        self.partial = None
        for gate in (self._connected, self._worded, self._opened):
            gate.fail(problem)

    @contextlib.asynccontextmanager
    async def resting(self) -> AsyncIterator[None]:
        """Follow nothing meanwhile: for who changes very much, and then calls `rebuild` or `catch_up` inside."""
        self._resting += 1
        try:
            await cancel_and_wait(self._tasks[:1])
            yield
        finally:
            self._resting -= 1
            self._go_on()

    def _go_on(self) -> None:
        """Follow again, unless somebody is at work who wants it still."""
        if not self._resting and not self._closed and self._tasks[0].done():
            self._tasks[0] = asyncio.create_task(self._run(), name="index")

    async def _open_and_follow(self) -> None:
        sidecar, token = self._sidecar, self._token
        if sidecar is None:
            sidecar, token = await self._load_or_rebuild()
        self._set_archived(sidecar)
        await self._words.open(sidecar, token)
        try:
            await self._follow(sidecar, token)
        except FeedLostError as problem:
            log.info("the change feed cannot be resumed, comparing instead: %s", problem, extra={"event": "feed_lost"})
            token = await self._store.change_token()
            await self._compared(sidecar)
            self._words.compare(sidecar)
            self._save_times.changed()
            await self._follow(sidecar, token)

    async def _load_or_rebuild(self) -> tuple[Sidecar, bytes]:
        self.state = "loading"
        space, dim = self._space()
        try:
            return await asyncio.to_thread(lambda: self._files.load(self._store.identity, space, dim))
        except SidecarError as problem:
            log.info("the sidecar is rebuilt: %s", problem, extra={"event": "sidecar_rebuilt"})
        # From where the words are level with the store: what happened since is read into both.
        token = await self._words.open_early() or await self._store.change_token()
        sidecar = await asyncio.to_thread(lambda: self._files.create(space, dim))
        self._set_archived(sidecar)
        if self._words.index is not None:
            self.partial = sidecar
            self._worded.open()
        await self._fill(sidecar)
        if sum(sidecar.count_by_scope().values()) <= SAVED_FIRST:
            await self._save_first(sidecar, token)
            return sidecar, token
        self._save_times.changed()
        self._save_times.hasten()  # once it is open: a million vectors take seconds to be written
        return sidecar, token

    async def _save_first(self, sidecar: Sidecar, token: bytes) -> None:
        """Write a new sidecar before anybody writes into it; what cannot be written now is tried again."""
        try:
            await asyncio.to_thread(lambda: self._files.save(sidecar, self._store.identity, token))
        except SidecarError as problem:
            log.warning("the sidecar was not saved: %s", problem, extra={"event": "sidecar_not_saved"})
            self._save_times.changed()

    def _space(self) -> tuple[str, int]:
        try:
            return self._embeddings.space, self._embeddings.dim
        except EmbeddingError:
            return NO_SPACE, 1

    async def _fill(self, sidecar: Sidecar, progress: Callable[[int, int], None] | None = None) -> None:
        total = sum((await self._store.count_live()).values()) if progress is not None else 0

        def report(count: int) -> None:
            self.state = f"rebuilding, {count:,} memories so far"
            if progress is not None:
                progress(count, total)

        await fill(self._store, sidecar, self._removals, report)

    async def _follow(self, sidecar: Sidecar, token: bytes) -> None:
        """Apply what the feed tells for as long as *sidecar* is the one in use.

        Changes are gathered for a moment and applied together. The sidecar counts as level when the feed is silent, or has told
        all that had happened when the following began: others may write without a pause.
        """
        self._token, mark = token, await self._store.change_token()
        batch: list[Change] = []
        first_at = 0.0
        async with contextlib.aclosing(self._store.changes(token)) as changes:
            async for change in changes:
                if self._sidecar is not None and self._sidecar is not sidecar:
                    return
                now = time.monotonic()
                if change is not None:
                    first_at = first_at if batch else now
                    batch.append(change)
                is_level = change is None or (self._sidecar is None and self._store.has_reached(change.token, mark))
                if batch and (is_level or now - first_at > HOLD_S or len(batch) >= BATCH):
                    await self._apply(sidecar, batch)
                    self._token = batch[-1].token
                    for one in batch:
                        self.on_change(one)
                    batch = []
                if is_level and self._sidecar is None:
                    await self._open(sidecar)
                await self._save_if_due()

    async def _open(self, sidecar: Sidecar) -> None:
        while self._early:  # the feed may be behind them, and who wrote them may ask for them next
            early, self._early = list(self._early.values()), {}
            began = self._removals.count
            await _upsert(sidecar, [Row.of(memory) for memory in early])
            await self._words.entered(sidecar, early)
            self._remove(sidecar, self._removals.since(began, [one.memory_id for one in early]))
        self._sidecar, self.partial, self.state = sidecar, None, "ready"
        self._worded.open()
        self._opened.open()
        keep_what_is_here()
        log.info("the index is ready", extra={"event": "index_ready"})
        self._pending.wake()

    def save_soon(self) -> None:
        """Save within a second or two: what was removed for good is to leave the files as well."""
        self._save_times.hasten()
        self._words.purge_soon()

    def _set_archived(self, sidecar: Sidecar) -> None:
        archived = self._scopes.archived_ids()
        sidecar.set_archived(archived)
        self._words.set_archived(archived)

    async def _save_if_due(self) -> None:
        if self._sidecar is not None:
            await self._words.tend(self._sidecar)
        if self._sidecar is not None and self._save_times.is_due:
            try:
                await self.save()
            except SidecarError as problem:
                log.warning("the sidecar was not saved: %s", problem, extra={"event": "sidecar_not_saved"})
                self._save_times.put_off()

    # what happens to memories

    async def wrote(self, memories: Sequence[MemoryRecord]) -> None:
        """Enter memories that this process just wrote; they are found from now on, or as soon as the sidecar is there."""
        memory_ids = [memory.memory_id for memory in memories]
        self._removals.discard(memory_ids)
        self._writes.add(memory_ids)
        rows = [Row.of(memory) for memory in memories]
        for sidecar in (self._next, self._sidecar):
            if sidecar is not None:
                await _upsert(sidecar, rows)
        if self._sidecar is None:
            self._early |= {memory.memory_id: memory for memory in memories}
            while len(self._early) > EARLY_KEPT:  # a bulk of them is left to the feed
                self._early.pop(next(iter(self._early)))
            if (left_s := self._patient_until - time.monotonic()) > 0:
                with contextlib.suppress(InfiniteMemoryError):  # it is written, and found later
                    await self._opened.passed(left_s)
        else:
            await self._words.entered(self._sidecar, memories)
            self._save_times.changed()
            if self._pending.are_pending(memories):
                self._pending.wake()

    @contextlib.asynccontextmanager
    async def removing(self, located: Located) -> AsyncIterator[None]:
        """Take out memories that this process deletes inside, softly or for good; they are not found from then on.

        One that is written meanwhile, for somebody brings it back, is read again afterwards.
        """
        began = self._writes.count
        yield
        for memory_id in located:
            self._early.pop(memory_id, None)
        self._removals.add(located)
        if self._next is not None:
            self._next.remove(located)
        if self._sidecar is not None:
            self._remove(self._sidecar, located)
            self._save_times.changed()
            if again := self._writes.since(began, located):
                await self._take_over(self._sidecar, {one: located[one] for one in again})

    def restored(self) -> None:
        """Take what was removed a moment ago for what may be there again: a restore brought it back."""
        self._removals.clear()

    def scope_removed(self, scope_id: ScopeId) -> None:
        """Take out a whole scope that this process just dropped."""
        self._early = {one: memory for one, memory in self._early.items() if memory.scope_id != scope_id}
        if self._next is not None:
            self._next.remove_scope(scope_id)
        if self._sidecar is not None:
            self._remove_scope(self._sidecar, scope_id)

    def scopes_changed(self) -> None:
        """Take over which scopes are archived now."""
        if self._sidecar is not None:
            self._set_archived(self._sidecar)

    def _remove(self, sidecar: Sidecar, memory_ids: Iterable[MemoryId]) -> None:
        gone = list(memory_ids)
        self._words.removed(sidecar, gone)
        sidecar.remove(gone)

    def _remove_scope(self, sidecar: Sidecar, scope_id: ScopeId) -> None:
        sidecar.remove_scope(scope_id)
        self._words.scope_removed(scope_id)
        self._save_times.changed()

    async def _apply(self, sidecar: Sidecar, changes: Sequence[Change]) -> None:
        """Bring the sidecar level with what the feed told, own echoes included."""
        wanted: dict[MemoryId, ScopeId] = {}
        for change in changes:
            if change.kind is ChangeKind.SCOPES_CHANGED:
                await self._scopes.refresh()
                self._set_archived(sidecar)
            elif change.kind is ChangeKind.SCOPE_REMOVED and change.scope_id:
                self._remove_scope(sidecar, change.scope_id)
                self.save_soon()
                wanted = {one: scope for one, scope in wanted.items() if scope != change.scope_id}
            elif change.kind is ChangeKind.REMOVED and change.memory_id:
                wanted.pop(change.memory_id, None)
                self._remove(sidecar, [change.memory_id])
                self._save_times.changed()
                self.save_soon()  # whoever removed it, it is to leave these files
            elif change.memory_id and change.scope_id and not self._knows(sidecar, change.memory_id, change.revision):
                wanted[change.memory_id] = change.scope_id
        if wanted:
            await self._take_over(sidecar, wanted)

    def _knows(self, sidecar: Sidecar, memory_id: MemoryId, revision: int) -> bool:
        """Tell whether both know a memory: of two files saved one after the other, one may lack what the other has."""
        return sidecar.is_current(memory_id, revision) and self._words.is_current(memory_id, revision)

    async def _read_again(self, wanted: Located) -> None:
        await self._take_over(await self.sidecar(), wanted)

    async def _take_over(self, sidecar: Sidecar, wanted: Located) -> None:
        """Read memories from the store into the sidecar; those that are not live there go."""
        began = self._removals.count
        memories = await self._store.fetch(wanted, vectors=True)
        for one in self._removals.since(began, list(memories)):  # what was read of it may be older
            del memories[one]
        self._remove(sidecar, wanted.keys() - memories.keys())
        found = list(memories.values())
        self._writes.add(memories)
        await _upsert(sidecar, [Row.of(memory) for memory in found])
        await self._words.entered(sidecar, found)
        self._save_times.changed()
        if self._pending.are_pending(found):
            self._pending.wake()

    # upkeep

    async def save(self) -> None:
        """Write the sidecar's files now.

        Raises:
            SidecarError: they could not be written; the ones before are still there.
        """
        async with self._saving:
            sidecar = await self.sidecar()  # the one in use by now: the token is that of no other
            with self._save_times.saving():
                token = self._token
                await self._words.flush()
                await asyncio.to_thread(lambda: self._files.save(sidecar, self._store.identity, token))

    async def check(self) -> Checked:
        """Compare every memory's revision with the store and mend what differs."""
        return await self._compared(await self.sidecar())

    async def catch_up(self) -> None:
        """Compare and mend as `check` does, and follow from this moment on; to be called while `resting`."""
        async with self._rebuilding:  # or what is being built would take the place of what was compared
            sidecar, token = await self.sidecar(), await self._store.change_token()
            await self._compared(sidecar)
            self._token = token
            self._save_times.changed()

    async def _compared(self, sidecar: Sidecar) -> Checked:
        return await compare(self._store, sidecar, partial(self._take_over, sidecar), partial(self._remove, sidecar))

    async def rebuild(self, *, words: bool = False, progress: Callable[[int, int], None] | None = None) -> int:
        """Build the sidecar anew from the store and put it in the place of the old one, which answers meanwhile.

        What is written meanwhile by this process enters both; what others write is told by the feed, which is read again from
        where it was when the building began.

        Args:
            words: Whether to return only when the text index is written anew as well; it is done in the background otherwise.
            progress: Told how many memories are in it, of how many; with *words* then the same of the text index.

        Returns:
            The number of memories in it.
        """
        async with self._rebuilding:
            await self.sidecar()
            # Words that are not written anew with it know nothing of what the feed has not told yet.
            token = await self._store.change_token() if words else self._token
            space, dim = self._space()
            sidecar = await asyncio.to_thread(lambda: self._files.create(space, dim))
            self._next = sidecar
            try:
                await self._fill(sidecar, progress)
                self._set_archived(sidecar)
                await cancel_and_wait(self._tasks[:1])
                self._sidecar, self._token = sidecar, token
            finally:
                self._next, self.state = None, "ready"
                self._go_on()
            self._save_times.changed()
            if words:
                await self._words.renew(sidecar, progress)
            else:
                await self._words.interrupt()
                self._words.purge_soon()
            self._pending.wake()
            await self.save()
            return sum(sidecar.count_by_scope().values())

    def count(self) -> int | None:
        """Count the memories that the sidecar knows; None before it is there."""
        return sum(self._sidecar.count_by_scope().values()) if self._sidecar is not None else None

    def count_pending(self) -> int:
        """Count memories that still lack a vector of the current space; 0 before the sidecar is there."""
        return self._sidecar.count_pending() if self._sidecar is not None else 0

    @property
    def pending_problem(self) -> str | None:
        """Why pending memories cannot be embedded at the moment; None when nothing is in the way."""
        return self._pending.problem


async def _upsert(sidecar: Sidecar, rows: Sequence[Row]) -> None:
    if len(rows) <= FEW_ROWS:
        sidecar.upsert(rows)
    else:
        await asyncio.to_thread(lambda: sidecar.upsert(rows))
