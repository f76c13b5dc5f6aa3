"""The second vector space: for texts and questions in languages that the first model does not read, and level with the first.

A second model of many languages makes vectors of every text, English ones too, once the first text or question came that needs it
(`activate`); before that it costs nothing, and a home of English alone never has it. Its index is a `VectorIndex` like the first, in
files of its own, and holds the same memories. Which of them the first model does not read is kept there as a tag, under a key that no
tag of a user can have.

Why its vectors are in no document: the model makes a thousand in a second or two, from nothing but the text. So the database and its
backups do not grow, a model that changes has nothing to clean up, and what is lost is made again in the background.
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
from infinite_memory.models import Embedding, Filter, IndexRow, MemoryId, MemoryRecord, ScopeId, TagsMode
from infinite_memory.store.base import Store
from infinite_memory.tasks import cancel_and_wait

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

log = logging.getLogger(__name__)

FOREIGN = "\0foreign"
"""Tag of memories that the first model does not read; texts with a NUL are refused as tags."""

BATCH = 32  # memories embedded at a time, so that questions get their turn
MAX_CHARS = 200_000  # of memories that are embedded before their request is answered: about a second of a core
RETRY_S = 30.0  # pause after the model or the store failed
OFF, AUTO, ALWAYS = "off", "auto", "always"


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SecondQuestion:
    """A question in the second space, and whether the first model does not read it."""

    index: VectorIndex
    vector: Vectors
    is_foreign: bool

    def narrowed(self, where: Filter) -> Filter:
        """Leave out what the first space has better, where it reads the question; a filter for any of some tags is left as it is."""
        return where if self.is_foreign else narrowed_to_foreign(where)

    def find_foreign(self, memory_ids: Collection[MemoryId]) -> frozenset[MemoryId]:
        """Return those of *memory_ids* whose place is told by the second space: all for a foreign question, else foreign ones."""
        if self.is_foreign:
            return frozenset(memory_ids)
        where = Filter(memory_ids=frozenset(memory_ids), tag_keys=frozenset({FOREIGN}))
        return frozenset(self.index.list_page(where, len(memory_ids), None, newest_first=True).memory_ids)


def narrowed_to_foreign(where: Filter) -> Filter:
    """Narrow *where* to memories that the first model does not read, unless it is for any of some tags."""
    if where.tag_keys and where.tags_mode is TagsMode.ANY:
        return where
    return dataclasses.replace(where, tag_keys=where.tag_keys | {FOREIGN}, tags_mode=TagsMode.ALL)


class SecondSpace:
    """The index of the second space with its upkeep. Used from one event loop; the index's own work runs in threads.

    Args:
        first: The first model, which tells what it does not read.
        embeddings: The second model.
        mode: "auto", "always" or "off", as ``embedding.second_model`` says.
    """

    def __init__(
        self, store: Store, first: EmbeddingService, embeddings: EmbeddingService, files: VectorIndexFiles, mode: str
    ) -> None:
        self._store, self._first, self.embeddings, self._files, self._mode = store, first, embeddings, files, mode
        self._index: VectorIndex | None = None
        self._archived: frozenset[ScopeId] = frozenset()
        self._wanted = mode == ALWAYS
        self._is_level = self._was_sought = False
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.problem: str | None = None
        self.sidecar: Callable[[], Awaitable[VectorIndex]] = _no_sidecar  # gives the first index, once it is there
        self.on_changed: Callable[[], None] = lambda: None  # is told that there is something to save
        embeddings.on_ready = self._wake.set

    @property
    def is_active(self) -> bool:
        """True if there is a second index, or there is to be one."""
        return self._wanted

    @property
    def is_off(self) -> bool:
        """True if the settings want none."""
        return self._mode == OFF

    @property
    def state(self) -> str:
        """Where it stands: ``off``, ``not needed``, or how the second model is (see `EmbeddingService.state`)."""
        if not self._wanted:
            return OFF if self._mode == OFF else "not needed"
        return self.embeddings.state

    def count(self) -> int:
        """Count the memories that the second index knows; 0 before it is there."""
        return sum(self._index.count_by_scope().values()) if self._index is not None else 0

    def count_pending(self) -> int:
        """Count memories that lack a vector of the second space; 0 before its index is there."""
        return self._index.count_pending() if self._index is not None else 0

    # opening and closing

    def open(self) -> None:
        """Begin to keep level with the first index, which was just taken into use."""
        self._is_level = False
        if self._mode != OFF and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run(), name="second space")
        self._wake.set()

    def activate(self) -> None:
        """Have a second index from now on; it is made in the background."""
        if not self._wanted and self._mode != OFF:
            log.info("another language than English: the second model is used", extra={"event": "second_space_wanted"})
            self._wanted = True
            self._wake.set()

    async def close(self) -> None:
        """Stop what is under way, and release the index; what was not saved is made again."""
        if self._task is not None:
            await cancel_and_wait([self._task])
        if self._index is not None:
            self._index.close()

    async def save(self, token: bytes) -> None:
        """Write the index to its files.

        Raises:
            SidecarError: they could not be written; the ones before are still there.
        """
        if (index := self._index) is not None:
            await asyncio.to_thread(lambda: self._files.save(index, self._store.identity, token))

    # what is asked

    async def read(self, question: str, where: Filter, wait_s: float | None = None) -> SecondQuestion | None:
        """Return *question* as it is asked in the second space; None where it has no use for that.

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
        """Take over memories that were just put into the first index; they are found from now on, or once the model is ready."""
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
        """Take memories out."""
        if self._index is not None:
            self._index.remove(memory_ids)

    def scope_merged(self, source: ScopeId, target: ScopeId) -> None:
        """Let all memories of a scope be of another."""
        if self._index is not None:
            self._index.move_scope(source, target)

    def scope_removed(self, scope_id: ScopeId) -> None:
        """Take a whole scope out."""
        if self._index is not None:
            self._index.remove_scope(scope_id)

    def set_archived(self, scope_ids: frozenset[ScopeId]) -> None:
        """Set which scopes are archived."""
        self._archived = scope_ids
        if self._index is not None:
            self._index.set_archived(scope_ids)

    # upkeep

    async def _run(self) -> None:
        """Open, level and embed whenever woken; the outermost loop of this job."""
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
        while (pending := self._index.pending(BATCH)) and pending != before:  # unchanged: its vectors cannot be used
            await self._read_again(self._index, sidecar, pending)
            before = pending

    async def _load(self) -> None:
        """Load what was saved, if it is of this store and this model."""
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
        """Compare revisions with the first index and mend what differs."""
        surplus, missing = await asyncio.to_thread(find_differences, index, sidecar)
        located = await call(sidecar, lambda: sidecar.locate(surplus))
        index.remove(surplus - located.keys())
        for at in range(0, len(missing), BATCH):
            await self._read_again(index, sidecar, missing[at : at + BATCH])
        log.info("the second space is level: %d memories", len(missing), extra={"event": "second_space_level"})

    async def _read_again(self, index: VectorIndex, sidecar: VectorIndex, wanted: Sequence[MemoryId]) -> None:
        """Read memories from the store, embed them and enter them; those that are gone go.

        Raises:
            EmbeddingError: the second model cannot be used.
            StoreError: the store cannot be read.
        """
        located = await call(sidecar, lambda: sidecar.locate(wanted))
        found = await self._store.fetch(located, latest=True)
        memories = list(found.values())
        texts = [embedded_text(memory) for memory in memories]
        await self._first.ready()  # or nobody could tell what it reads
        foreign = await self._first.find_foreign(texts)
        made = await self.embeddings.embed_memories(texts, Priority.BACKGROUND)
        await self._enter(index, memories, foreign, made)
        located = await call(sidecar, lambda: sidecar.locate(wanted))
        index.remove([one for one in wanted if one not in found or one not in located])


async def _no_sidecar() -> VectorIndex:
    raise SidecarError("there is no index yet")
