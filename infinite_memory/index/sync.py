"""The indexes as the engine sees them: the index to search, notification of writes, and maintenance.

Own writes are indexed at once (`writer.py`), writes of other processes arrive through the store's change feed (`follower.py`), memories
without a vector are embedded in the background (`embedding_backlog.py`), and unreadable ones are excluded (`soundness.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence

from infinite_memory.embedding.service import EmbeddingService
from infinite_memory.errors import IndexUnavailableError, SidecarError, SidecarNotReadyError, StoreError
from infinite_memory.index.base import TextIndex, VectorIndex, VectorIndexFiles, call
from infinite_memory.index.embedding_backlog import EmbeddingBacklog
from infinite_memory.index.follower import NO_MEMORY, StoreFollower
from infinite_memory.index.loading import IndexLoader
from infinite_memory.index.offline import OfflineIndex
from infinite_memory.index.readiness import IndexReadiness
from infinite_memory.index.reconcile import SETTLE_S, Checked
from infinite_memory.index.save_policy import SavePolicy
from infinite_memory.index.second_space import SecondSpace
from infinite_memory.index.soundness import Soundness, memories_among
from infinite_memory.index.text_sync import TextSync
from infinite_memory.index.writer import IndexWriter
from infinite_memory.models import MemoryId, MemoryRecord, ScopeId
from infinite_memory.store.base import Change, Located, Store
from infinite_memory.store.id_keys import IdKeyring
from infinite_memory.store.scope_cache import ScopeCache
from infinite_memory.store.set_aside import SetAsideDocument
from infinite_memory.tasks import cancel_and_wait

log = logging.getLogger(__name__)

SLOW_S = 2.5  # a server that takes longer for one row would take half a minute for a recall, which makes some ten calls
SLOW_REST_S = 10.0  # how long it is then not asked again


class IndexSync:
    """The indexes of one store, kept in sync with it. Used from one event loop; index operations run in threads."""

    def __init__(
        self, store: Store, scopes: ScopeCache, embeddings: EmbeddingService, files: VectorIndexFiles, words: TextSync,
        second: SecondSpace, *, wait_s: float, save_every_s: float,
    ) -> None:  # fmt: skip
        self._store, self._scopes, self._words, self.second = store, scopes, words, second
        self._save_policy = SavePolicy(save_every_s)
        self._readiness = IndexReadiness(wait_s)
        self._writer = IndexWriter(store, words, second, self._save_policy, self._readiness.opened)
        self._loader = IndexLoader(store, embeddings, files, self._writer.removals)
        self._follower = StoreFollower(
            store, scopes, words, second, self._writer, self._loader, self._save_policy, self._readiness
        )
        self._backlog = EmbeddingBacklog(store, embeddings, self.sidecar, self._read_again)
        self._soundness = Soundness(store, self._writer.count_by_scope, self.check, self._read_again)
        self._rebuilding = asyncio.Lock()
        self._offline: OfflineIndex | None = None
        self._slow_until = 0.0
        self._backlog_task: asyncio.Task[None] | None = None
        self._excluding: set[asyncio.Task[None]] = set()
        self._words.level_with = lambda: self._follower.words_token
        self._writer.on_entered = self._backlog.on_entered
        self._follower.on_connected = self._backlog.claim
        self._follower.on_open = self._on_open
        embeddings.on_ready = self._backlog.wake
        second.sidecar, second.on_changed = self.sidecar, self._save_policy.changed
        store.set_aside.on_noted = self._exclude_unreadable

    # opening and closing

    def start(self) -> None:
        """Start opening in the background; needs a running event loop."""
        self._follower.start()
        self._backlog_task = asyncio.create_task(self._backlog.run(), name="pending embeddings")

    async def close(self) -> None:
        """Stop following, save unsaved changes, and release the indexes."""
        await self._follower.close()
        await cancel_and_wait(
            [*([self._backlog_task] if self._backlog_task else []), *self._soundness.tasks, *self._excluding]
        )
        if self._writer.current is not None and self._save_policy.has_changes:
            try:
                await self.save()
            except (SidecarError, StoreError) as exc:
                log.warning("the sidecar was not saved: %s", exc.in_full(), extra={"event": "sidecar_not_saved"})
        await self.second.close()
        with contextlib.suppress(SidecarError):  # disk full: the files are marked, and rewritten after the next start
            await self._words.close()
        if self._writer.current is not None:
            self._writer.current.close()

    def _on_open(self) -> None:
        self._backlog.wake()
        self._soundness.begin()
        self.second.open()

    @property
    def state(self) -> str:
        """The state of the index, for people."""
        return self._follower.state

    @property
    def id_keys(self) -> IdKeyring:
        """The keys from which contracts derive ids."""
        return self._follower.id_keys

    def subscribe(self, on_change: Callable[[Change], None]) -> None:
        """Call *on_change* with every change of the store, once it can be found."""
        self._follower.on_change = on_change

    # searching

    @property
    def partial(self) -> VectorIndex | None:
        """The stand-in while only words can be searched: for an index that is being rebuilt at start, or whose server is unreachable."""
        return self._writer.partial or self._offline

    @property
    def why_partial(self) -> str:
        """Why only words can be searched."""
        partial = self.partial
        return partial.reason if isinstance(partial, OfflineIndex) else "the index is being rebuilt"

    @property
    def why_behind(self) -> str | None:
        """Why the searched index lacks recent writes; None if it is in sync with the store."""
        return self._writer.behind if self._writer.current is not None else None

    @property
    def behind_s(self) -> float | None:
        """Seconds since the index was last in sync with the store, about one if it is; None before the first time."""
        level_at = self._follower.level_clock.at
        return None if level_at is None else round(time.monotonic() - level_at, 1)

    @property
    def words(self) -> TextIndex | None:
        """The text index, or None while it is being opened."""
        return self._words.index

    @property
    def words_state(self) -> str:
        """The state of the text index; see `TextSync.state`."""
        return self._words.state

    async def connected(self) -> None:
        """Return once the store can be written; see `IndexReadiness.wait_connected`."""
        await self._readiness.wait_connected()

    async def sidecar(self) -> VectorIndex:
        """Return the vector index once it is in sync with the store; waits at most the configured time.

        Raises:
            StoreUnavailableError: MongoDB could not be reached at the last attempt.
            SidecarNotReadyError: it is still loading or being rebuilt.
        """
        if self._writer.current is None and not await self._readiness.opened.passed(self._readiness.wait_s):
            raise SidecarNotReadyError(f"the index is not ready yet ({self.state}); try again in a moment")
        assert self._writer.current is not None
        return self._writer.current

    async def for_words(self, patience_s: float = 0.0) -> VectorIndex:
        """Return the index for a search by words alone: the vector index, or earlier its stand-in (`partial`).

        Waits and raises as `sidecar` does.

        Args:
            patience_s: How long to wait for the complete index if there is only a stand-in.
        """
        if self._writer.partial is None and self._writer.current is None:
            await self._readiness.worded.passed(self._readiness.wait_s)
        if self._writer.current is None and not isinstance(self._writer.partial, OfflineIndex):
            try:
                await self._readiness.opened.passed(min(patience_s, self._readiness.wait_s))
            except IndexUnavailableError:
                if self._writer.partial is None:
                    raise
        if (current := self._writer.current) is not None and current.is_remote:
            self._offline = await self._find_offline(current)
        return self.partial or await self.sidecar()

    async def probe(self) -> None:
        """Make one call to the index; waits and raises as `sidecar` does, and raises if its server does not answer."""
        index = await self.sidecar()
        if index.is_remote and (offline := await self._find_offline(index)) is not None:
            raise IndexUnavailableError(offline.reason)

    async def _find_offline(self, index: VectorIndex) -> OfflineIndex | None:
        """Return a stand-in if the index's server does not answer in time; None if it does."""
        now = time.monotonic()
        if self._offline is not None and now < self._slow_until:
            return self._offline
        try:
            await asyncio.wait_for(call(index, lambda: index.get_revisions([NO_MEMORY])), SLOW_S)
        except IndexUnavailableError as exc:
            return self._offline if self._offline and self._offline.reason == str(exc) else OfflineIndex(str(exc))
        except TimeoutError:
            self._slow_until = time.monotonic() + SLOW_REST_S
            return OfflineIndex(f"the server of the index takes more than {SLOW_S:g} s to look one memory up")
        return None

    async def count(self) -> int | None:
        """Count the indexed memories; None before the index is open."""
        if self._writer.current is None:
            return None
        return sum((await self._writer.count_by_scope()).values())

    async def count_pending(self) -> int:
        """Count memories without a vector of the current space; 0 before the index is open."""
        index = self._writer.current
        return await call(index, index.count_pending) if index is not None else 0

    @property
    def pending_problem(self) -> str | None:
        """Why pending memories cannot be embedded at the moment; None if they can."""
        return self._backlog.problem

    @property
    def is_behind(self) -> bool:
        """True while memories are known to lack a vector of the current space, because they were stored before the model was ready."""
        return self._backlog.is_behind

    # writes

    async def on_written(self, memories: Sequence[MemoryRecord]) -> None:
        """Index memories that this process just wrote; see `IndexWriter.on_written`."""
        await self._writer.on_written(memories)

    def removing(self, located: Located) -> contextlib.AbstractAsyncContextManager[set[MemoryId]]:
        """Remove memories that this process deletes inside the block; see `IndexWriter.removing`."""
        return self._writer.removing(located)

    async def undelete(self, located: Located) -> list[MemoryRecord]:
        """Restore soft-deleted memories in the store and index them; return those that are live now.

        Raises:
            StoreError: the store cannot be reached.
        """
        restored = await self._store.undelete(located)
        memories = await self._store.fetch({memory_id: located[memory_id] for memory_id in restored}, vectors=True)
        await self.on_written(list(memories.values()))  # the change feed may have removed them
        return list(memories.values())

    async def scope_merged(self, source: ScopeId, target: ScopeId) -> None:
        """Move the memories of a scope to another; see `IndexWriter.scope_merged`."""
        await self._writer.scope_merged(source, target)

    async def scope_removed(self, scope_id: ScopeId) -> None:
        """Remove a whole scope that this process just dropped."""
        await self._writer.scope_removed(scope_id)

    def restored(self) -> None:
        """Forget recent removals: a restore may have brought the memories back."""
        self._writer.removals.clear()
        self._follower.id_keys.forget()

    def scopes_changed(self) -> None:
        """Update the set of archived scopes."""
        if self._writer.current is not None:
            self._follower.set_archived(self._writer.current)

    async def looked(self, wait_s: float) -> None:
        """Return when the first check of the documents is over, or after *wait_s*."""
        await self.sidecar()
        await self._soundness.looked(wait_s)

    async def look_at_documents(self, *, full: bool = False) -> None:
        """Check documents; see `Repairs.look`. Memories no longer set aside can be found again.

        Raises:
            StoreError: the store cannot be read.
        """
        hidden = self._scopes.hidden_ids()
        await self._soundness.look(full=full)
        await self._follower.reload_scopes(await self.sidecar(), hidden)

    async def reload_repaired(self, documents: Sequence[SetAsideDocument]) -> None:
        """Reload documents that `Repairs.repair` changed."""
        sidecar, hidden = await self.sidecar(), self._scopes.hidden_ids()
        await self._follower.reload_scopes(sidecar, hidden)
        if located := memories_among(documents):
            await self._writer.reload(sidecar, located)
        if any(not document.is_of_known_id for document in documents):
            await self.check()

    def _exclude_unreadable(self, document: SetAsideDocument) -> None:
        """Remove an unreadable memory in the background: readers of documents do not wait for an index."""
        task = asyncio.get_running_loop().create_task(self._exclude_quietly(document))
        self._excluding.add(task)
        task.add_done_callback(self._excluding.discard)

    async def _exclude_quietly(self, document: SetAsideDocument) -> None:
        with contextlib.suppress(SidecarError):  # its hits are dropped on read
            await self._writer.exclude_unreadable(document)

    async def _read_again(self, located: Located) -> None:
        await self._writer.reload(await self.sidecar(), located)

    # upkeep

    async def save(self) -> None:
        """Save the index now.

        Raises:
            SidecarError: it could not be written; the previous files are kept.
        """
        await self.sidecar()
        await self._follower.save()

    def save_soon(self) -> None:
        """Save within a second or two, to purge hard-forgotten memories from the files too."""
        self._follower.save_soon()

    def paused(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Pause following inside the block; see `StoreFollower.paused`."""
        return self._follower.paused()

    async def compact(self, *, dry_run: bool = False) -> int:
        """Remove dead rows from the index and its files and return how many, or with *dry_run* how many would be removed.

        Raises:
            SidecarError: the files could not be written; the previous ones are kept.
        """
        sidecar = await self.sidecar()
        if dry_run:
            return sidecar.dead_count
        count = await asyncio.to_thread(lambda: sidecar.compact(all_rows=True))
        await self.save()
        return count

    async def check(self, *, is_patient: bool = False) -> Checked:
        """Compare every memory's revision with the store and repair differences; *is_patient* ignores those that resolve by themselves."""
        return await self._follower.compare(await self.sidecar(), SETTLE_S if is_patient else 0.0)

    async def reconcile(self) -> None:
        """Compare and repair as `check` does, and follow from this moment on; call it while `paused`."""
        async with self._rebuilding:  # otherwise a rebuild could replace the compared index
            sidecar, token = await self.sidecar(), await self._store.change_token()
            await self._follower.compare(sidecar)
            self._follower.token = token
            self._save_policy.changed()

    async def rebuild(self, *, words: bool = False, progress: Callable[[int, int], None] | None = None) -> int:
        """Rebuild the vector index from the store, then replace the old one, which serves queries meanwhile.

        Concurrent writes of this process go to both; writes of other processes arrive through the feed, which is re-read from its position
        at the start of the rebuild.

        Args:
            words: Whether to also wait until the text index is rewritten; otherwise that happens in the background.
            progress: Called with the number of indexed memories and the total; with *words*, then again for the text index.

        Returns:
            The number of indexed memories.
        """
        async with self._rebuilding:
            await self.sidecar()
            # A text index that is not rewritten too still needs the changes not yet delivered by the feed.
            token = await self._store.change_token() if words else self._follower.token
            sidecar = await self._loader.create()
            self._writer.next = sidecar
            try:
                await self._follower.fill(sidecar, progress)
                self._follower.set_archived(sidecar)
                await self._follower.stop()
                self._writer.current, self._follower.token = sidecar, token
            finally:
                self._writer.next, self._follower.state = None, "ready"
                self._follower.go_on()
            self._save_policy.changed()
            if words:
                await self._words.rebuild_now(sidecar, progress)
            else:
                await self._words.interrupt()
                self._words.purge_soon()
            self._backlog.wake()
            self.second.open()
            await self.save()
            return sum((await call(sidecar, sidecar.count_by_scope)).values())
