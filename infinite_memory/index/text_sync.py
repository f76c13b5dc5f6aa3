"""Keeps the text index in sync with the vector index, which is in sync with the store.

A memory is searched together with the previous turn, so a write may also affect the memory after it; those are reloaded within a
second or so (`run_due_work`). Hard-forgotten memories have to be purged from the files too: the index is then rewritten from the store
into a new generation while the old one keeps serving queries.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence

from infinite_memory.errors import SidecarDamagedError, SidecarError, StoreError
from infinite_memory.gc_tuning import seldom_searched
from infinite_memory.index.base import TextFiles, TextIndex, TextRow, VectorIndex, call
from infinite_memory.index.listing import list_scope
from infinite_memory.index.reconcile import find_differences
from infinite_memory.models import IndexRow, MemoryId, MemoryRecord, ScopeId
from infinite_memory.store.base import Store
from infinite_memory.text.analyzer import is_short

log = logging.getLogger(__name__)

BATCH = 500  # memories read from the store at a time
FEW_ROWS, FEW_CHARS = 4, 20_000  # indexed without a thread, which would take longer: at most 5 ms
FLUSH_ROWS = 512  # changes searched in memory at most: a millisecond
BULK_ROWS = 8_000  # changes, in an index that is not searched yet: a commit costs much the same whatever its size
FLUSH_S = 10.0  # a change is flushed after about this long
OPEN_WAIT_S = 5.0  # how long the rest waits for the text index at start
AGAIN_S = 5.0  # pause after a generation could not be written: the disk may be full
REST_SHARE = 20  # pause between new generations, as a multiple of the time the last one took


class TextSync:
    """The text index and its upkeep. Used from one event loop; index operations run in threads."""

    def __init__(self, store: Store, files: TextFiles) -> None:
        self._store, self._files = store, files
        self._index: TextIndex | None = None
        self._next: TextIndex | None = None
        self._touched: set[MemoryId] = set()
        self._stale: set[MemoryId] = set()
        self._archived: frozenset[ScopeId] = frozenset()
        self._waiting_since: float | None = None
        self._purge = False
        self._behind = False  # changes arrived before the index was open
        self._rebuilt_at = self._rebuild_took_s = 0.0
        self._opening: asyncio.Task[None] | None = None
        self._rebuilding: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()
        self._early = b""  # token of an index that was opened before the vector index
        self.level_with: Callable[[], bytes] = lambda: b""  # returns the change token up to which everything is indexed

    @property
    def index(self) -> TextIndex | None:
        """The index, or None while it is being opened."""
        return self._index

    @property
    def state(self) -> str:
        """The state: ``loading``, ``being built``, ``ready``, or ``being written anew`` while the old one serves queries."""
        if self._index is None:
            return "loading" if self._next is None else "being built"
        return "ready" if self._next is None else "being written anew"

    # opening and closing

    async def open(self, sidecar: VectorIndex, token: bytes) -> None:
        """Start opening the index and syncing it with *sidecar*, whose change token is *token*.

        Waits a short time; rebuilding a large index continues in the background.
        """
        if self._index is None and (self._opening is None or self._opening.done()):
            self._opening = asyncio.create_task(self._open_quietly(sidecar, token), name="opening the text index")
            await asyncio.wait({self._opening}, timeout=OPEN_WAIT_S)

    async def open_early(self) -> bytes:
        """Open the saved index before there is a vector index to sync it with.

        Returns:
            The change token up to which it is current; empty if that is unknown and nothing was opened.
        """
        if self._index is None:
            try:
                index, token = await asyncio.to_thread(lambda: self._files.load(self._store.identity))
            except SidecarError:
                return b""
            if not token or self._behind:
                return b""
            index.set_archived(self._archived)
            self._index, self._early = index, token
            self._purge = self._purge or self._files.is_unclean
        return self._early

    async def open_alone(self, load: Callable[[], AsyncIterator[tuple[VectorIndex, Sequence[MemoryRecord]]]]) -> None:
        """Start adding what *load* yields to a new index if there is no vector index; waits a short time.

        It is rewritten once there is one, which knows the previous turns.
        """
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open_alone(load), name="reading the words from the store")
        await asyncio.wait({self._opening}, timeout=OPEN_WAIT_S)

    async def _open_alone(self, load: Callable[[], AsyncIterator[tuple[VectorIndex, Sequence[MemoryRecord]]]]) -> None:
        try:
            token = await self._store.change_token()
            index = await asyncio.to_thread(lambda: self._files.create(self._store.identity))
            await asyncio.to_thread(lambda: self._files.settle(index))
            index.set_archived(self._archived)
            self._next, self._touched = index, set()
            async for sidecar, memories in load():
                await self._enter(
                    index, sidecar, [memory for memory in memories if memory.memory_id not in self._touched]
                )
                if index.buffered >= BULK_ROWS:
                    await asyncio.to_thread(index.flush)
            self._index, self._early = index, token
            self.purge_soon()
            self._changed()
        except (StoreError, SidecarError) as exc:
            log.warning("the words could not be read: %s", exc, extra={"event": "text_not_opened"})
        finally:
            self._next = None

    async def compare(self, sidecar: VectorIndex) -> None:
        """Sync an index that was opened early with *sidecar* by comparing: the feed does not reach back far enough.

        Waits a short time; comparing a large index continues in the background.
        """
        if self._index is not None and self._early and (self._opening is None or self._opening.done()):
            self._opening = asyncio.create_task(self._compare_quietly(self._index, sidecar), name="comparing the words")
            await asyncio.wait({self._opening}, timeout=OPEN_WAIT_S)

    async def _compare_quietly(self, index: TextIndex, sidecar: VectorIndex) -> None:
        try:
            await self._level(index, sidecar)
        except (StoreError, SidecarError) as exc:
            log.warning("the text index could not be compared: %s", exc, extra={"event": "text_not_compared"})
            self._purge = True  # it is rewritten

    async def _open_quietly(self, sidecar: VectorIndex, token: bytes) -> None:
        try:
            await self._open(sidecar, token)
        except (StoreError, SidecarError) as exc:
            log.warning("the text index could not be opened: %s", exc, extra={"event": "text_not_opened"})
        finally:
            self._next = None

    async def _open(self, sidecar: VectorIndex, token: bytes) -> None:
        level = is_empty = False
        try:
            index, saved = await asyncio.to_thread(lambda: self._files.load(self._store.identity))
            level = bool(token and saved) and self._reaches(saved, token) and not self._behind
        except SidecarDamagedError as exc:
            severity = logging.INFO if exc.is_missing else logging.WARNING
            log.log(severity, "the text index is rebuilt: %s", exc, extra={"event": "text_rebuilt"})
            index = await asyncio.to_thread(lambda: self._files.create(self._store.identity))
            await asyncio.to_thread(lambda: self._files.settle(index))
            is_empty = True
        index.set_archived(self._archived)
        self._next, self._touched = index, set()
        if is_empty:
            await self._write_all(index, sidecar, None)
        if not level:
            await self._level(index, sidecar)
        self._index, self._behind = index, False
        self._purge = self._purge or self._files.is_unclean
        self._changed()

    def _reaches(self, saved: bytes, token: bytes) -> bool:
        """True if the saved index is at *token* or later: changes beyond it are delivered again, which is harmless."""
        has_reached = self._store.has_reached
        return saved == token or (has_reached(saved, token) and not has_reached(token, saved))

    async def close(self) -> None:
        """Stop running work. If a purge is still due, the files are dropped, and rebuilt at the next start."""
        await self.interrupt()
        if self._purge and self._index is not None:
            fresh = await asyncio.to_thread(lambda: self._files.create(self._store.identity))
            await asyncio.to_thread(lambda: self._files.settle(fresh))
            fresh.close()
            self._files.mark_clean()
        elif self._waiting_since is not None:
            await self.flush()  # saves the change token too, or the next start would have to compare
        if self._index is not None:
            self._index.close()

    async def _level(self, index: TextIndex, sidecar: VectorIndex) -> None:
        """Compare revisions with *sidecar* and repair differences."""
        surplus, missing = await asyncio.to_thread(lambda: find_differences(index, sidecar))
        located = await call(sidecar, lambda: sidecar.locate([*surplus, *missing]))
        if surplus := surplus - located.keys():  # some may be hard-forgotten
            index.remove(surplus)
            self.purge_soon()
        for offset in range(0, len(missing), BATCH):
            batch = [memory_id for memory_id in missing[offset : offset + BATCH] if memory_id in located]
            by_id = await self._store.fetch({memory_id: located[memory_id] for memory_id in batch}, latest=True)
            await self._enter(index, sidecar, [by_id[memory_id] for memory_id in batch if memory_id in by_id])
            if index.buffered >= BULK_ROWS:
                await asyncio.to_thread(index.flush)

    # writes

    def is_current(self, memory_id: MemoryId, revision: int) -> bool:
        """True if the words of a memory are indexed at *revision* or a later one, or will be."""
        index = self._index or self._next
        self._behind = self._behind or index is None
        return index is None or index.is_current(memory_id, revision)

    async def on_upserted(self, sidecar: VectorIndex, memories: Sequence[MemoryRecord]) -> None:
        """Add memories just written to *sidecar*; they can be found by their words from now on."""
        self._behind = self._behind or (self._index is None and self._next is None)
        for index in (self._index, self._next):
            if index is not None:
                await self._enter(index, sidecar, memories)
        if self._next is not None:
            self._touched |= {memory.memory_id for memory in memories}
        if self._index is not None:
            self._changed()
            if self._index.buffered >= FLUSH_ROWS and not self._flushing.locked():
                await self.flush()

    async def removed(self, sidecar: VectorIndex, memory_ids: Sequence[MemoryId]) -> None:
        """Remove memories; call it before they leave *sidecar*, which knows the turns after them."""
        if self._index is None and self._next is None:
            self._behind = True
            return
        neighbours = await call(sidecar, lambda: sidecar.neighbours(memory_ids))
        self._stale |= {neighbour.after for neighbour in neighbours.values() if neighbour.after is not None}
        self._stale -= set(memory_ids)
        for index in (self._index, self._next):
            if index is not None:
                index.remove(memory_ids)
        self._touched |= set(memory_ids) if self._next is not None else set()
        self._changed()

    def scope_removed(self, scope_id: ScopeId) -> None:
        """Remove a whole scope."""
        self._behind = self._behind or (self._index is None and self._next is None)
        for index in (self._index, self._next):
            if index is not None:
                index.remove_scope(scope_id)
        self._changed()

    def set_archived(self, scope_ids: frozenset[ScopeId]) -> None:
        """Set which scopes are archived."""
        self._archived = scope_ids
        for index in (self._index, self._next):
            if index is not None:
                index.set_archived(scope_ids)

    def _changed(self) -> None:
        if self._waiting_since is None:
            self._waiting_since = time.monotonic()

    async def _enter(self, index: TextIndex, sidecar: VectorIndex, memories: Sequence[MemoryRecord]) -> None:
        revisions = await call(sidecar, lambda: sidecar.get_revisions([memory.memory_id for memory in memories]))
        current = [memory for memory in memories if revisions.get(memory.memory_id) == memory.revision]
        texts = {memory.memory_id: memory.text for memory in current}
        talks = [memory.memory_id for memory in current if memory.conversation_id is not None]
        neighbours = await call(sidecar, lambda: sidecar.neighbours(talks)) if talks else {}
        before = {
            memory_id: both.before
            for memory_id, both in neighbours.items()
            if both.before is not None and is_short(texts[memory_id])
        }
        absent = {memory_id for memory_id in before.values() if memory_id is not None and memory_id not in texts}
        if absent:
            absent_memories = await self._store.fetch(await call(sidecar, lambda: sidecar.locate(absent)))
            texts |= {memory_id: memory.text for memory_id, memory in absent_memories.items()}
        rows = []
        for memory in current:
            prior = texts.get(before.get(memory.memory_id) or MemoryId(""), "")
            rows.append(
                TextRow(IndexRow.of(memory), memory.text, memory.title, memory.tags, prior if is_short(prior) else "")
            )
        if len(rows) <= FEW_ROWS and sum(len(row.text) for row in rows) <= FEW_CHARS:
            index.upsert(rows)
        else:
            await asyncio.to_thread(lambda: index.upsert(rows))
        revisions = await call(sidecar, lambda: sidecar.get_revisions([memory.memory_id for memory in current]))
        outdated = [memory.memory_id for memory in current if revisions.get(memory.memory_id, -1) < memory.revision]
        if outdated:  # removed while the store was read
            index.remove(outdated)
        after = {both.after for both in neighbours.values() if both.after is not None}
        self._stale |= after - texts.keys() if index is self._index else set()

    # upkeep

    async def run_due_work(self, sidecar: VectorIndex) -> None:
        """Do what is due: reload memories after a changed turn, flush, start a new generation."""
        if self._index is None:
            await self.open(sidecar, b"")
            return
        if self._stale:
            stale, self._stale = list(self._stale)[:BATCH], set(list(self._stale)[BATCH:])
            memories = await self._store.fetch(await call(sidecar, lambda: sidecar.locate(stale)))
            await self.on_upserted(sidecar, list(memories.values()))
            self._stale -= memories.keys()
        now = time.monotonic()
        if self._waiting_since is not None and now - self._waiting_since > FLUSH_S:
            await self.flush()
        rested = now - self._rebuilt_at > REST_SHARE * self._rebuild_took_s
        if self._purge and rested and (self._rebuilding is None or self._rebuilding.done()):
            self._purge = False
            self._rebuilding = asyncio.create_task(self._rebuild_now(sidecar), name="text index")

    def purge_soon(self) -> None:
        """Write a new generation soon, without the words of removed memories; if necessary at the next start."""
        if not self._purge:
            self._files.mark_unclean()
        self._purge = True

    async def flush(self) -> None:
        """Flush buffered changes; a failure is logged and retried later."""
        async with self._flushing:
            index, token, self._waiting_since = self._index, self.level_with(), None
            if index is None:
                return
            try:
                await asyncio.to_thread(lambda: index.flush(token))
            except SidecarError as exc:
                log.warning("the text index was not saved: %s", exc.in_full(), extra={"event": "text_not_saved"})
                self._changed()

    async def interrupt(self) -> None:
        """Stop opening or rebuilding against a vector index that is no longer in use and gets no more changes."""
        for task in (self._opening, self._rebuilding):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def rebuild_now(self, sidecar: VectorIndex, progress: Callable[[int, int], None] | None = None) -> None:
        """Rebuild the index at once; a failure is retried later. *progress* is called with the count so far and the total."""
        await self.interrupt()
        self._purge = False
        await self._rebuild_now(sidecar, progress)

    async def _rebuild_now(self, sidecar: VectorIndex, progress: Callable[[int, int], None] | None = None) -> None:
        try:
            await self.rebuild(sidecar, progress)
        except (StoreError, SidecarError) as exc:
            log.info("a new text index is postponed: %s", exc, extra={"event": "text_put_off"})
            self._purge = True
            self._rebuilt_at, self._rebuild_took_s = time.monotonic(), AGAIN_S / REST_SHARE

    async def rebuild(self, sidecar: VectorIndex, progress: Callable[[int, int], None] | None = None) -> None:
        """Rebuild the index from the store, then replace the old one, which serves queries meanwhile.

        Args:
            progress: Called with the number of memories indexed and the total.

        Raises:
            StoreError: the store cannot be read.
            SidecarError: the files cannot be written.
        """
        began = time.monotonic()
        index = await asyncio.to_thread(lambda: self._files.create(self._store.identity))
        index.set_archived(self._archived)
        self._next, self._touched = index, set()
        try:
            with seldom_searched():
                await self._write_all(index, sidecar, progress)
            await self._level(index, sidecar)
            async with self._flushing:  # otherwise a flush of the old generation would find its folder gone
                token = self.level_with()
                await asyncio.to_thread(lambda: index.flush(token))
                self._index = index
                await asyncio.to_thread(lambda: self._files.settle(index))
            if not self._purge:  # nothing was hard-forgotten meanwhile
                self._files.mark_clean()
        finally:
            self._next = None
            self._rebuilt_at = time.monotonic()
            self._rebuild_took_s = self._rebuilt_at - began
        log.info("the text index was rebuilt", extra={"event": "text_renewed"})

    async def _write_all(
        self, index: TextIndex, sidecar: VectorIndex, progress: Callable[[int, int], None] | None
    ) -> None:
        """Add every memory of the store that was not written or removed since the rebuild started.

        By scope and time, so that consecutive turns are read together.
        """
        sizes = await asyncio.to_thread(sidecar.count_by_scope)
        total, done = sum(sizes.values()), 0
        for scope_id in sizes:
            async for listed in list_scope(sidecar, scope_id, BATCH):
                untouched = [memory_id for memory_id in listed if memory_id not in self._touched]
                by_id = await self._store.fetch(dict.fromkeys(untouched, scope_id))
                await self._enter(
                    index, sidecar, [by_id[memory_id] for memory_id in untouched if memory_id in by_id and memory_id not in self._touched]
                )  # fmt: skip
                if index.buffered >= BULK_ROWS:
                    await asyncio.to_thread(index.flush)
                done += len(listed)
                if progress is not None:
                    progress(min(done, total), total)
