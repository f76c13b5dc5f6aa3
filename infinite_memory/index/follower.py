"""Opens the indexes and keeps them in sync with the store through its change feed, for the lifetime of the process.

Writes of other processes arrive through the feed; the echo of an own write is recognised by its revision. The feed's token is saved with
the index, never ahead of what was applied: the next start reads only the changes since.

Why a token instead of a comparison at start: comparing a million ids takes seconds, reading a night's changes takes none. The comparison
is the fallback if the token is too old, and what `IndexSync.check` does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial

from infinite_memory.errors import (
    FeedLostError,
    IndexUnavailableError,
    InfiniteMemoryError,
    SidecarDamagedError,
    SidecarError,
    SidecarNotReadyError,
    StoreError,
    format_count,
)
from infinite_memory.gc_tuning import keep_what_is_here
from infinite_memory.index.base import VectorIndex, call
from infinite_memory.index.build_lease import build_lease
from infinite_memory.index.feed import gather_changes
from infinite_memory.index.level_clock import LevelClock
from infinite_memory.index.loading import IndexLoader
from infinite_memory.index.offline import OfflineIndex
from infinite_memory.index.readiness import IndexReadiness
from infinite_memory.index.rechecks import Rechecks, is_late
from infinite_memory.index.reconcile import Checked, compare
from infinite_memory.index.save_policy import SavePolicy
from infinite_memory.index.second_space import SecondSpace
from infinite_memory.index.text_sync import TextSync
from infinite_memory.index.words_alone import WordsAlone
from infinite_memory.index.writer import IndexWriter
from infinite_memory.models import MemoryId, ScopeId
from infinite_memory.store.base import Change, ChangeKind, Store
from infinite_memory.store.id_keys import IdKeyring
from infinite_memory.store.scope_cache import ScopeCache
from infinite_memory.tasks import cancel_and_wait

log = logging.getLogger(__name__)

NO_MEMORY = MemoryId("0" * 24)  # queried to see whether a server answers
WARN_EVERY_S = 60.0  # an outage is logged once a minute, not at each attempt
RETRY_S = 1.0  # pause after the store was unreachable
SAVED_FIRST = 10_000  # memories up to which a new index is saved before it opens, in some hundredths of a second


class StoreFollower:
    """The job that opens the indexes and follows the store. Used from one event loop; index operations run in threads."""

    def __init__(
        self, store: Store, scopes: ScopeCache, words: TextSync, second: SecondSpace, writer: IndexWriter,
        loader: IndexLoader, save_policy: SavePolicy, readiness: IndexReadiness,
    ) -> None:  # fmt: skip
        self._store, self._scopes, self._words, self._writer, self._loader = store, scopes, words, writer, loader
        self._second = second
        self._save_policy, self._readiness = save_policy, readiness
        self._task: asyncio.Task[None] | None = None
        self._pauses, self._closed = 0, False
        self._reopens = False  # the index in use no longer exists on its server
        self._is_doubtful = False  # it was reopened, and may lack some of its previous rows
        self._offline: OfflineIndex | None = None  # replaces an index whose server did not answer the last attempt
        self.level_clock = LevelClock(store)
        self.words_alone = WordsAlone(store, scopes, words)
        self._warns_at = 0.0
        self._rechecks = Rechecks()
        self._saving = asyncio.Lock()
        self.token = b""  # up to which the index in use is in sync with the store
        self.id_keys = IdKeyring(store)
        self.on_connected: Callable[[], Awaitable[None]] = _nothing  # before the first write is accepted
        self.on_open: Callable[[], None] = lambda: None  # after an index was put into use
        self.on_change: Callable[[Change], None] = lambda _: None  # called for every change, once it can be found
        self.state = "waiting for MongoDB"

    @property
    def words_token(self) -> bytes:
        """The change token up to which the text index is in sync with the store."""
        return self.words_alone.token or self.token

    # opening and closing

    def start(self) -> None:
        """Start opening in the background; needs a running event loop."""
        self._task = asyncio.create_task(self._run(), name="index")

    async def stop(self) -> None:
        """Stop following, until `go_on`."""
        if self._task is not None:
            await cancel_and_wait([self._task])

    async def close(self) -> None:
        """Stop following permanently."""
        self._closed = True
        await self.stop()

    async def _run(self) -> None:
        """Open, then follow the store for the lifetime of the process; the outermost loop of this job."""
        while True:
            try:
                await self._store.connect()
                await self._scopes.refresh()
                if not self._readiness.connected.is_open:
                    await self.on_connected()
                    self._readiness.connected.open()
                    self._writer.wait_for_early_writes()
                if self._offline is not None:
                    await self._follow_words(self._offline)
                await self._open_and_follow()
            except StoreError as exc:
                self._fail(exc)
                self._report_not_followed(exc)
            except IndexUnavailableError as exc:
                self._index_away(exc)
                # Once it is gone it has to be reopened, however often its server is unreachable in between.
                self._reopens = (exc.is_gone or self._reopens) and self._writer.current is not None
                continue
            except asyncio.CancelledError:
                self._writer.partial = None
                raise
            except Exception as exc:
                log.exception("keeping the index failed", extra={"event": "index_failed"})
                message = f"the index could not be opened ({type(exc).__name__}); see the log"
                self._fail(SidecarNotReadyError(message))
            await asyncio.sleep(RETRY_S)

    def _report_not_followed(self, exc: StoreError) -> None:
        now = time.monotonic()
        level = logging.WARNING if now >= self._warns_at else logging.DEBUG
        self._warns_at = now + WARN_EVERY_S if level == logging.WARNING else self._warns_at
        log.log(level, "the store cannot be followed: %s", exc, extra={"event": "not_followed"})

    def _index_away(self, exc: IndexUnavailableError) -> None:
        """Record that the index's server is unreachable; until it is back, the text index answers alone."""
        if self._offline is None or self._offline.reason != str(exc):
            log.warning("the index cannot be used: %s", exc, extra={"event": "index_away"})
            self._offline = OfflineIndex(str(exc))
        self.state = self._offline.reason
        if self._writer.current is not None:
            self._writer.behind = self.state
        self._readiness.opened.fail(exc)

    async def _follow_words(self, offline: OfflineIndex) -> None:
        """Let the text index follow the store alone for a while, and answer alone if no vector index is open yet."""
        if self._writer.current is None and await self.words_alone.open(offline.reason):
            self._writer.partial = offline
            await self._writer.enter_early_words(offline.reason)
            self._readiness.worded.open()
        await self.words_alone.follow(offline, self.token, RETRY_S)

    def _fail(self, exc: InfiniteMemoryError) -> None:
        self._writer.partial = None
        self._readiness.fail(exc)

    @contextlib.asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Pause following inside the block: for bulk changes, after which the caller calls `rebuild` or `reconcile` inside it."""
        self._pauses += 1
        try:
            await self.stop()
            yield
        finally:
            self._pauses -= 1
            self.go_on()

    def go_on(self) -> None:
        """Resume following, unless another caller still holds a pause."""
        if not self._pauses and not self._closed and (self._task is None or self._task.done()):
            self.start()

    async def _open_and_follow(self) -> None:
        sidecar, token = self._writer.current, self.token
        if sidecar is None or self._reopens:
            sidecar, token = await self._load_or_rebuild()
            if self._words.index is None:
                await self._words.interrupt()  # it is rebuilding from the store alone
            if self._reopens:
                self._writer.current, self._reopens, self._is_doubtful = sidecar, False, True
        self.set_archived(sidecar)
        await self._words.open(sidecar, token)
        self.words_alone.end()
        if self._is_doubtful:  # its server may have lost rows; until this is done replies say so
            checked, self._is_doubtful = await self.compare(sidecar), False
            log.info("%d memories were not as stored", checked.faults, extra={"event": "index_compared"})
        try:
            await self._follow(sidecar, token)
        except FeedLostError as exc:
            log.info("the change feed cannot be resumed, comparing instead: %s", exc, extra={"event": "feed_lost"})
            token = await self._store.change_token()
            await self.compare(sidecar)
            await self._words.compare(sidecar)
            self._save_policy.changed()
            await self._follow(sidecar, token)

    async def _load_or_rebuild(self) -> tuple[VectorIndex, bytes]:
        self.state = "loading"
        try:
            sidecar, token = await self._loader.load()
            return sidecar, await self._older_token(token) if sidecar.is_remote else token
        except IndexUnavailableError:
            raise
        except SidecarError as exc:
            if self._loader.files.is_shared:
                return await self._load_or_build_shared()
            is_first = isinstance(exc, SidecarDamagedError) and exc.is_missing
            log.log(
                logging.INFO if is_first else logging.WARNING,
                "the sidecar is rebuilt: %s",
                exc,
                extra={"event": "sidecar_rebuilt"},
            )
        # From where the text index is in sync: both read the changes since then.
        token = await self._words.open_early() or await self._store.change_token()
        sidecar = await self._loader.create()
        self.set_archived(sidecar)
        if self._words.index is not None:
            self._writer.partial = sidecar
            self._readiness.worded.open()
        await self.fill(sidecar)
        if sum((await call(sidecar, sidecar.count_by_scope)).values()) <= SAVED_FIRST:
            await self._save_first(sidecar, token)
            return sidecar, token
        self._save_policy.changed()
        self._save_policy.hasten()  # once it is open: writing a million vectors takes seconds
        return sidecar, token

    async def _load_or_build_shared(self) -> tuple[VectorIndex, bytes]:
        """Build a shared index that does not exist yet, or wait for the daemon that is building it."""
        while True:
            async with build_lease(self._store) as is_ours:
                with contextlib.suppress(SidecarDamagedError):
                    sidecar, token = await self._loader.load()
                    return sidecar, await self._older_token(token)
                if is_ours:
                    log.info("a shared index is built", extra={"event": "sidecar_rebuilt"})
                    token = await self._words.open_early() or await self._store.change_token()
                    sidecar = await self._loader.create()
                    await self.fill(sidecar)
                    await self._loader.save(sidecar, token)
                    return sidecar, token
            self.state = "being built by another daemon"
            await asyncio.sleep(RETRY_S)

    async def _older_token(self, token: bytes) -> bytes:
        """Return the token to follow a shared index from: the older one, so that this home's text index catches up with it."""
        own = await self._words.open_early() if self._writer.current is None else self.token
        return own if own and token and self._store.has_reached(token, own) else token

    async def _save_first(self, sidecar: VectorIndex, token: bytes) -> None:
        """Save a new index before any write to it; a failed save is retried later."""
        try:
            await self._loader.save(sidecar, token)
        except SidecarError as exc:
            log.warning("the sidecar was not saved: %s", exc.in_full(), extra={"event": "sidecar_not_saved"})
            self._save_policy.changed()

    async def fill(self, index: VectorIndex, progress: Callable[[int, int], None] | None = None) -> None:
        """Add every memory of the store to *index*; *progress* is called with the count so far and the total.

        Raises:
            StoreError: the store cannot be read.
        """
        total = sum((await self._store.count_live()).values()) if progress is not None else 0

        def report(count: int) -> None:
            self.state = f"rebuilding, {format_count(count, 'memory')} so far"
            if progress is not None:
                progress(count, total)

        await self._loader.fill(index, report)

    async def _follow(self, sidecar: VectorIndex, token: bytes) -> None:
        """Apply changes from the feed while *sidecar* is the index in use."""
        self.token = token
        is_open = self._writer.current is not None
        async with contextlib.aclosing(gather_changes(self._store, token, is_level=is_open)) as batches:
            async for batch in batches:
                if self._writer.current is not None and self._writer.current is not sidecar:
                    return
                if batch.changes:
                    await self._apply(sidecar, batch.changes)
                if sidecar.is_remote:
                    self._rechecks.add(batch.changes)
                    await self._recheck(sidecar)  # which also probes the server, however quiet the store is
                if batch.changes:
                    self.token = batch.changes[-1].token
                    for change in batch.changes:
                        self.on_change(change)
                if batch.is_level and self._writer.current is None:
                    await self._open(sidecar)
                is_level = await self.level_clock.told(batch.changes, is_silent=batch.is_level)
                if is_level and self._writer.current is sidecar:
                    self._writer.level()
                    self._offline = None
                self.state = "ready" if is_open else self.state
                await self._save_if_due()

    async def _open(self, sidecar: VectorIndex) -> None:
        await self._writer.enter_early(sidecar)
        self._writer.current, self._writer.partial, self.state = sidecar, None, "ready"
        self._readiness.worded.open()
        self._readiness.opened.open()
        keep_what_is_here()
        log.info("the index is ready", extra={"event": "index_ready"})
        self.on_open()

    async def _apply(self, sidecar: VectorIndex, changes: Sequence[Change]) -> None:
        """Apply changes from the feed to the indexes, own echoes included."""
        if any(change.kind is ChangeKind.SCOPES_CHANGED for change in changes):
            self.id_keys.forget()  # another process may have restored a backup
            await self.reload_scopes(sidecar, self._scopes.hidden_ids())
        await self._writer.apply(sidecar, changes)
        if any(change.kind in (ChangeKind.SCOPE_REMOVED, ChangeKind.REMOVED) for change in changes):
            self.save_soon()  # whoever removed it, it has to be purged from these files

    async def _recheck(self, sidecar: VectorIndex) -> None:
        """Recheck changes made some time ago: a slower daemon may have overwritten them with an older state since."""
        due = self._rechecks.due()
        revisions = await call(sidecar, lambda: sidecar.get_revisions(due or [NO_MEMORY]))
        located = await call(sidecar, lambda: sidecar.locate(due)) if due else {}
        late = {
            memory_id: change.scope_id
            for memory_id, change in due.items()
            if change.scope_id and is_late(change, revisions.get(memory_id), located.get(memory_id))
        }
        if late:
            log.info("%d memories are looked at again", len(late), extra={"event": "index_overwritten"})
            await self._writer.reload(sidecar, late)

    # scopes

    def set_archived(self, sidecar: VectorIndex) -> None:
        """Update the set of archived scopes."""
        archived = self._scopes.archived_ids()
        sidecar.set_archived(archived)
        self._words.set_archived(archived)
        self._second.set_archived(archived)

    async def reload_scopes(self, sidecar: VectorIndex, hidden: frozenset[ScopeId]) -> None:
        """Refresh the scopes, and reload the memories of those no longer hidden."""
        await self._scopes.refresh()
        self.set_archived(sidecar)
        if hidden - self._scopes.hidden_ids():
            await self.compare(sidecar)

    async def compare(self, sidecar: VectorIndex, settle_s: float = 0.0) -> Checked:
        """Compare every memory's revision with the store and repair differences in *sidecar*; *settle_s* as in `reconcile`."""
        reload, remove = partial(self._writer.reload, sidecar), partial(self._writer.remove, sidecar)
        return await compare(self._store, sidecar, reload, remove, settle_s)

    # saving

    async def save(self) -> None:
        """Save the index in use now.

        Raises:
            SidecarError: it could not be written; the previous files are kept.
        """
        async with self._saving:
            sidecar = self._writer.current  # the index in use by now: the token belongs to no other
            if sidecar is None:
                return
            with self._save_policy.saving():
                token = self.token
                await self._words.flush()
                await self._loader.save(sidecar, token)
                await self._second.save(token)

    def save_soon(self) -> None:
        """Save within a second or two, to purge hard-forgotten memories from the files too."""
        self._save_policy.hasten()
        self._words.purge_soon()

    async def _save_if_due(self) -> None:
        if self._writer.current is not None:
            await self._words.run_due_work(self._writer.current)
        if self._writer.current is not None and self._save_policy.is_due:
            try:
                await self.save()
            except SidecarError as exc:
                log.warning("the sidecar was not saved: %s", exc.in_full(), extra={"event": "sidecar_not_saved"})
                self._save_policy.postpone()


async def _nothing() -> None:
    """Do nothing."""
