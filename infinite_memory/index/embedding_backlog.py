"""Gives vectors to memories that have none of the current space, in the background and a few at a time.

They lack one because the model failed when they were stored, or because another model made theirs. Two daemons with different
models over one database must not take each other's vectors for ever: the one that came last has the say, the other searches
by words and says so in its log and in the statistics.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from infinite_memory.embedding.service import EmbeddingService, Priority
from infinite_memory.errors import EmbeddingError, SidecarError, StoreError
from infinite_memory.index.base import VectorIndex, call
from infinite_memory.models import MemoryId, MemoryRecord
from infinite_memory.store.base import Located, Store

log = logging.getLogger(__name__)

EMBED_BATCH = 32  # memories embedded at a time, so that questions get their turn
RETRY_S = 30.0  # pause after the model or the store failed
CLAIM = "embedding"  # key in ``meta`` under which the last daemon says which space it embeds in


class EmbeddingBacklog:
    """The job that embeds what is pending. Used from one event loop.

    Args:
        sidecar: Gives the sidecar once it is there.
        take_over: Reads memories from the store into the sidecar, and takes out those that are gone.

    Attributes:
        problem: Why what is pending cannot be embedded; None when nothing is in the way.
        is_behind: Whether memories are known to be pending.
    """

    def __init__(
        self, store: Store, embeddings: EmbeddingService, sidecar: Callable[[], Awaitable[VectorIndex]],
        take_over: Callable[[Located], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._store, self._embeddings = store, embeddings
        self._sidecar, self._take_over = sidecar, take_over
        self._wake = asyncio.Event()
        self.problem: str | None = None
        self.is_behind = False

    def wake(self) -> None:
        """Look for pending memories now."""
        self._wake.set()

    def are_pending(self, memories: Sequence[MemoryRecord]) -> bool:
        """True if any of *memories* lacks a vector of the current space."""
        try:
            space = self._embeddings.space
        except EmbeddingError:
            return False  # nothing can be embedded, so nobody is to be woken
        return any(memory.embedding is None or memory.embedding.space != space for memory in memories)

    def on_entered(self, memories: Sequence[MemoryRecord]) -> None:
        """Look for pending memories where any of *memories*, which entered the index, is one."""
        if self.are_pending(memories):
            self.is_behind = True
            self.wake()

    async def claim(self) -> None:
        """Record in the database that vectors are of our space from now on; called once, when first connected."""
        try:
            await self._store.set_meta(CLAIM, {"space": self._embeddings.space})
        except EmbeddingError:
            return  # without a model there is nothing to claim

    async def run(self) -> None:
        """Embed whenever woken; the outermost loop of this job."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                while await self._embed_some():
                    pass
                self.problem = None
            except (EmbeddingError, StoreError, SidecarError) as exc:
                self.problem = str(exc)
                log.warning("embedding what is pending is postponed: %s", exc, extra={"event": "pending_put_off"})
                self._wake_later()
            except asyncio.CancelledError:
                raise
            except Exception:
                log.exception("embedding what is pending failed", extra={"event": "pending_failed"})
                self._wake_later()

    def _wake_later(self) -> None:
        asyncio.get_running_loop().call_later(RETRY_S, self._wake.set)

    async def _embed_some(self) -> bool:
        """Embed one batch; returns whether there may be more."""
        sidecar = await self._sidecar()
        pending = await call(sidecar, lambda: sidecar.pending(EMBED_BATCH))
        self.is_behind = bool(pending)
        if not pending:
            return False
        await self._embeddings.ready()
        claimed = await self._store.get_meta(CLAIM)
        if claimed is not None and claimed["space"] != self._embeddings.space:
            raise EmbeddingError(
                f"another daemon embeds these memories as {claimed['space']!r}, this one would as {self._embeddings.space!r}:"
                " it finds them by words only; set embedding.model and its options alike, or restart the one that is to stay"
            )
        located = await call(sidecar, lambda: sidecar.locate(pending))
        memories: dict[MemoryId, MemoryRecord] = await self._store.fetch(located)
        made = await self._embeddings.embed_memories(
            [embedded_text(one) for one in memories.values()], Priority.BACKGROUND
        )
        for memory, embedding in zip(list(memories.values()), made, strict=True):
            # False when it changed meanwhile: its writer or the change feed brings the new form.
            await self._store.set_embedding(memory.memory_id, memory.scope_id, memory.revision, embedding)
        await self._take_over(located)
        log.info("embedded %d memories", len(made), extra={"event": "pending_embedded"})
        return True


def embedded_text(memory: MemoryRecord) -> str:
    """Return the text of a memory that is embedded: its own and nothing else.

    Measured on two public sets of conversations (share of the relevant ones among the first ten, by meaning alone): the text .590 and
    .741; speaker before it .597 and .741; tags behind it .608 and .731; date before it .559 and .730; the turn before it .551 and less.
    None gains on both; speaker, date and the turn before count in the text index.
    """
    return memory.text
