"""The second vector space: for texts and questions in languages that the first model cannot read, kept in sync with the first.

A second, multilingual model embeds every text, English ones included, once a text or question needs it (`activate`); before that it costs
nothing, and a home with English alone never loads it. Its index is a `VectorIndex` like the first, in separate files, with the same
memories. Those that the first model cannot read are marked there by a tag whose key no user tag can have.

Why its vectors are not stored in documents: the model makes a thousand in a second or two from the text alone. The database and its
backups do not grow, a change of model needs no cleanup, and lost vectors are recomputed in the background.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from infinite_memory.embedding.service import EmbeddingService, Priority
from infinite_memory.errors import EmbeddingError, SidecarError, StoreError
from infinite_memory.index.base import VectorIndex, VectorIndexFiles, call
from infinite_memory.index.embedding_backlog import embedded_text
from infinite_memory.index.reconcile import find_differences
from infinite_memory.malloc_tuning import release_freed
from infinite_memory.models import Embedding, Filter, IndexRow, MemoryId, MemoryRecord, ScopeId, TagsMode
from infinite_memory.store.base import Store
from infinite_memory.tasks import cancel_and_wait

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

log = logging.getLogger(__name__)

FOREIGN = "\0foreign"
"""Tag of memories that the first model cannot read; user tags with a NUL are refused."""

BATCH = 32  # memories embedded at a time, so that queries are not held up
MAX_CHARS = 200_000  # of memories embedded before their request is answered: about a second of one core
RETRY_S = 30.0  # pause after the model or the store failed
OFF, AUTO, ALWAYS = "off", "auto", "always"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SecondQuestion:
    """A question in the second space, and whether it is foreign: the first model cannot read it."""

    index: VectorIndex
    vector: Vectors
    is_foreign: bool

    def narrowed(self, where: Filter) -> Filter:
        """Exclude memories that the first space ranks better, if it can read the question; a filter for any of several tags is kept."""
        return where if self.is_foreign else narrowed_to_foreign(where)

    def find_foreign(self, memory_ids: Collection[MemoryId]) -> frozenset[MemoryId]:
        """Return those of *memory_ids* that are ranked by the second space: all for a foreign question, else the foreign ones."""
        if self.is_foreign:
            return frozenset(memory_ids)
        where = Filter(memory_ids=frozenset(memory_ids), tag_keys=frozenset({FOREIGN}))
        return frozenset(self.index.list_page(where, len(memory_ids), None, newest_first=True).memory_ids)


def narrowed_to_foreign(where: Filter) -> Filter:
    """Narrow *where* to memories that the first model cannot read, unless it asks for any of several tags."""
    if where.tag_keys and where.tags_mode is TagsMode.ANY:
        return where
    return dataclasses.replace(where, tag_keys=where.tag_keys | {FOREIGN}, tags_mode=TagsMode.ALL)


class SecondSpace:
    """The index of the second space and its upkeep. Used from one event loop; index operations run in threads.

    Args:
        first: The first model, which detects the texts it cannot read.
        embeddings: The second model.
        mode: "auto", "always" or "off", as ``embedding.second_model`` says.
    """

    def __init__(
        self, store: Store, primary: EmbeddingService, embeddings: EmbeddingService, files: VectorIndexFiles, mode: str
    ) -> None:
        self._store, self._first, self.embeddings, self._files, self._mode = store, primary, embeddings, files, mode
        self._index: VectorIndex | None = None
        self._archived: frozenset[ScopeId] = frozenset()
        self._wanted = mode == ALWAYS
        self._is_level = self._was_sought = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.problem: str | None = None
        self.sidecar: Callable[[], Awaitable[VectorIndex]] = _no_sidecar  # returns the first index, once it is open
        self.on_changed: Callable[[], None] = lambda: None  # called when there is something to save
        embeddings.on_ready = self._wake.set

    @property
    def is_active(self) -> bool:
        """True if there is a second index or one is being built."""
        return self._wanted

    @property
    def is_off(self) -> bool:
        """True if it is disabled in the settings."""
        return self._mode == OFF

    @property
    def state(self) -> str:
        """Its state: ``off``, ``not needed``, or the state of the second model (see `EmbeddingService.state`)."""
        if not self._wanted:
            return OFF if self._mode == OFF else "not needed"
        return self.embeddings.state

    def count(self) -> int:
        """Count the memories of the second index; 0 if there is none yet."""
        return sum(self._index.count_by_scope().values()) if self._index is not None else 0

    def count_pending(self) -> int:
        """Count memories without a vector of the second space; 0 if there is no index yet."""
        return self._index.count_pending() if self._index is not None else 0

    # opening and closing

    def open(self) -> None:
        """Start syncing with the first index, which was just put into use."""
        self._is_level = False
        if self._mode != OFF and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="second space")
        self._wake.set()

    def activate(self) -> None:
        """Enable the second index; it is built in the background."""
        if not self._wanted and self._mode != OFF:
            log.info("another language than English: the second model is used", extra={"event": "second_space_wanted"})
            self._wanted = True
            self._wake.set()

    async def close(self) -> None:
        """Stop running work and release the index; unsaved vectors are recomputed later."""
        if self._task is not None:
            await cancel_and_wait([self._task])
        if self._index is not None:
            self._index.close()

    async def save(self, token: bytes) -> None:
        """Save the index.

        Raises:
            SidecarError: it could not be written; the previous files are kept.
        """
        if (index := self._index) is not None:
            await asyncio.to_thread(lambda: self._files.save(index, self._store.identity, token))

    # questions

    async def read(self, question: str, where: Filter, wait_s: float | None = None) -> SecondQuestion | None:
        """Return *question* for the second space; None if searching there is of no use.

        Raises:
            EmbeddingError: it needs the second model, which cannot be used.
        """
        if self._mode == OFF:
            return None
        [is_foreign] = await self._first.find_foreign([question])
        if is_foreign:
            self.activate()
        index = self._index
        if index is None:
            if is_foreign:
                raise EmbeddingError(self.problem or "the second model is being made ready")
            return None
        if not is_foreign and not index.count(narrowed_to_foreign(where)):
            return None
        vector = await self.embeddings.embed_query(question, wait_s)
        return SecondQuestion(index, vector, is_foreign)

    # what happens to memories

    async def on_upserted(self, memories: Sequence[MemoryRecord]) -> None:
        """Add memories just written to the first index; they can be found from now on, or once the model is ready."""
        if self._mode == OFF or not memories:
            return
        foreign = await self._first.find_foreign([embedded_text(memory) for memory in memories])
        if any(foreign):
            self.activate()
        if self._index is not None:
            await self._enter(self._index, memories, foreign, await self._embed_if_ready(memories))

    async def _embed_if_ready(self, memories: Sequence[MemoryRecord]) -> Sequence[Embedding | None]:
        texts = [embedded_text(memory) for memory in memories]
        if self.embeddings.state == "ready" and sum(map(len, texts)) <= MAX_CHARS:
            try:
                return await self.embeddings.embed_memories(texts)
            except EmbeddingError as exc:
                self.problem = str(exc)
        self._wake.set()
        return [None] * len(memories)

    async def _enter(
        self, index: VectorIndex, memories: Sequence[MemoryRecord], foreign: Sequence[bool],
        embeddings: Sequence[Embedding | None],
    ) -> None:  # fmt: skip
        rows = [
            dataclasses.replace(
                row := IndexRow.of(memory), embedding=embedding, tag_keys=row.tag_keys | ({FOREIGN} if own else set())
            )
            for memory, own, embedding in zip(memories, foreign, embeddings, strict=True)
        ]
        await asyncio.to_thread(index.upsert, rows)
        self.on_changed()

    def removed(self, memory_ids: Iterable[MemoryId]) -> None:
        """Remove memories."""
        if self._index is not None:
            self._index.remove(memory_ids)

    def scope_merged(self, source: ScopeId, target: ScopeId) -> None:
        """Move all memories of a scope to another."""
        if self._index is not None:
            self._index.move_scope(source, target)

    def scope_removed(self, scope_id: ScopeId) -> None:
        """Remove a whole scope."""
        if self._index is not None:
            self._index.remove_scope(scope_id)

    def set_archived(self, scope_ids: frozenset[ScopeId]) -> None:
        """Set which scopes are archived."""
        self._archived = scope_ids
        if self._index is not None:
            self._index.set_archived(scope_ids)

    # upkeep

    async def _run(self) -> None:
        """Open, sync and embed when woken; the outermost loop of this job."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._work()
                self.problem = None
            except (EmbeddingError, StoreError, SidecarError) as exc:
                self.problem = str(exc)
                log.info("the second space waits: %s", exc, extra={"event": "second_space_waits"})
                self._wake_later()
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("keeping the second space failed", extra={"event": "second_space_failed"})
                self.problem = "the index of the second model failed; see the log"
                self._wake_later()

    def _wake_later(self) -> None:
        asyncio.get_running_loop().call_later(RETRY_S, self._wake.set)

    async def _work(self) -> None:
        sidecar = await self.sidecar()
        if self._index is None and not self._was_sought:
            await self._load()
        if not self._wanted:
            return
        if self._index is None:
            index = await asyncio.to_thread(self._files.create, self.embeddings.space, self.embeddings.dim)
            index.set_archived(self._archived)
            self._index, self._is_level = index, False
        await self.embeddings.ready()
        if not self._is_level:
            self._is_level = True
            await self._level(self._index, sidecar)
        before: Sequence[MemoryId] = ()
        while (pending := self._index.pending(BATCH)) and pending != before:  # unchanged: its vectors are unusable
            await self._read_again(self._index, sidecar, pending)
            before = pending
        await asyncio.to_thread(release_freed)  # what loading the model and embedding many texts left behind

    async def _load(self) -> None:
        """Load the saved index if it belongs to this store and model."""
        self._was_sought = True
        space, dim = self.embeddings.space, self.embeddings.dim
        try:
            index, _ = await asyncio.to_thread(self._files.load, self._store.identity, space, dim)
        except SidecarError as exc:
            log.debug("no second index is loaded: %s", exc, extra={"event": "second_space_not_loaded"})
            return
        index.set_archived(self._archived)
        self._index, self._wanted, self._is_level = index, True, False

    async def _level(self, index: VectorIndex, sidecar: VectorIndex) -> None:
        """Compare revisions with the first index and repair differences."""
        surplus, missing = await asyncio.to_thread(find_differences, index, sidecar)
        located = await call(sidecar, lambda: sidecar.locate(surplus))
        index.remove(surplus - located.keys())
        for offset in range(0, len(missing), BATCH):
            await self._read_again(index, sidecar, missing[offset : offset + BATCH])
        log.info("the second space is level: %d memories", len(missing), extra={"event": "second_space_level"})

    async def _read_again(self, index: VectorIndex, sidecar: VectorIndex, memory_ids: Sequence[MemoryId]) -> None:
        """Reload memories from the store and embed them; those that no longer exist are removed.

        Raises:
            EmbeddingError: the second model cannot be used.
            StoreError: the store cannot be read.
        """
        located = await call(sidecar, lambda: sidecar.locate(memory_ids))
        by_id = await self._store.fetch(located, latest=True)
        memories = list(by_id.values())
        texts = [embedded_text(memory) for memory in memories]
        await self._first.ready()  # needed to detect what it can read
        foreign = await self._first.find_foreign(texts)
        embeddings = await self.embeddings.embed_memories(texts, Priority.BACKGROUND)
        await self._enter(index, memories, foreign, embeddings)
        located = await call(sidecar, lambda: sidecar.locate(memory_ids))
        index.remove([memory_id for memory_id in memory_ids if memory_id not in by_id or memory_id not in located])


async def _no_sidecar() -> VectorIndex:
    raise SidecarError("there is no index yet")
