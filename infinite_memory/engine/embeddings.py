"""The embedding model as the engine sees it: loaded beside everything else, shared by all requests, allowed to fail.

Requests that arrive together are embedded together: while one batch is computed, the next one gathers. Single requests share one
worker, because two were measured to be slower under load on two cores; full batches, as an import brings them, go to a worker for
each core. A question asked twice is embedded once.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, cast

from infinite_memory.embedding.base import Embedder
from infinite_memory.errors import EmbeddingError
from infinite_memory.models import Embedding

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

log = logging.getLogger(__name__)

CACHED_QUERIES = 1024  # 1.5 kB each at 384 dimensions
BATCH_TEXTS = 16  # handed to the model in one go: a question waits half a second at most, behind the longest texts
MOST_WORKERS = 4  # each takes some 30 MB while it computes
RETRY_S = 30.0  # a model that failed to load is tried again after this long


class Embeddings:
    """Embeds texts off the event loop. Used from one event loop."""

    def __init__(self, embedder: Embedder, wait_s: float) -> None:
        self._embedder, self._wait_s = embedder, wait_s
        self._most_workers = max(1, min(MOST_WORKERS, os.cpu_count() or 1))
        self._threads = ThreadPoolExecutor(self._most_workers, thread_name_prefix="embedding")
        self._waiting: list[tuple[list[str], asyncio.Future[Vectors]]] = []
        self._workers: set[asyncio.Task[None]] = set()
        self._loading: asyncio.Task[None] | None = None
        self._failed_at: float | None = None
        self._queries: OrderedDict[str, Vectors] = OrderedDict()
        self.failure: str | None = None

    @property
    def space(self) -> str:
        """Name of the vector space.

        Raises:
            EmbeddingError: the model is not there.
        """
        return self._embedder.space

    @property
    def dim(self) -> int:
        """Length of a vector; the same errors as `space`."""
        return self._embedder.dim

    @property
    def state(self) -> str:
        """How the model is: "loading", "ready" or "failed"."""
        if self.failure is not None:
            return "failed"
        return "ready" if self._loading is not None and self._loading.done() else "loading"

    def start(self) -> None:
        """Begin to load the model in the background; needs a running event loop."""
        self._loading = asyncio.create_task(self._load())

    async def close(self) -> None:
        """Refuse what is under way and what waits; a batch that the model computes already is let end."""
        for task in (*self._workers, self._loading):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        for _, future in self._waiting:
            future.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)

    async def ready(self, wait_s: float | None = None) -> None:
        """Return when the model is loaded; waits at most *wait_s*, without it the configured time.

        Raises:
            EmbeddingError: it failed to load, or is still loading when the time is over.
        """
        loop = asyncio.get_running_loop()
        limit_s = self._wait_s if wait_s is None else wait_s
        if self._loading is None or (self._failed_at is not None and loop.time() - self._failed_at > RETRY_S):
            self._failed_at = None
            self.start()
        assert self._loading is not None
        try:
            await asyncio.wait_for(asyncio.shield(self._loading), limit_s)
        except TimeoutError:
            raise EmbeddingError(f"the embedding model is still loading after {limit_s:g} s; try again") from None
        if self.failure is not None:
            raise EmbeddingError(self.failure)

    async def embed_query(self, text: str, wait_s: float | None = None) -> Vectors:
        """Embed one question; float32 of shape ``(dim,)``. A model that is loading is waited for as in `ready`.

        Raises:
            EmbeddingError: the model cannot be used.
        """
        if (known := self._queries.get(text)) is not None:
            self._queries.move_to_end(text)
            return known
        await self.ready(wait_s)
        vector: Vectors = (await self._embed([text], first=True))[0]
        self._queries[text] = vector
        if len(self._queries) > CACHED_QUERIES:
            self._queries.popitem(last=False)
        return vector

    async def embed_memories(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed whole memories, each in as many overlapping windows as its length needs, in order.

        Raises:
            EmbeddingError: the model cannot be used.
        """
        await self.ready()
        loop = asyncio.get_running_loop()
        windows = await loop.run_in_executor(None, lambda: [self._embedder.windows(text) for text in texts])
        pieces = [text[one.start : one.end] for text, cut in zip(texts, windows, strict=True) for one in cut]
        vectors = await self._embed_all(pieces)
        made, at = [], 0
        for cut in windows:
            made.append(Embedding(self.space, tuple(cut), vectors[at : at + len(cut)]))
            at += len(cut)
        return made

    async def spelled_out(self, texts: Sequence[str]) -> list[float | None]:
        """Tell for each text which share of its words the model's vocabulary lacks; nothing while there is no model."""
        if self.state != "ready":
            return []
        return await asyncio.to_thread(lambda: [self._embedder.spelled_out(text) for text in texts])

    async def _load(self) -> None:
        self.failure = None
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._embedder.load)
        except EmbeddingError as problem:
            self._fail(str(problem))
            log.warning("the embedding model failed to load: %s", problem, extra={"event": "model_failed"})
        except Exception as problem:  # the outermost loop of this job: a broken library must not lose a memory
            self._fail(f"the embedding model failed to load ({type(problem).__name__}); see the log")
            log.exception("the embedding model failed to load", extra={"event": "model_failed"})
        else:
            log.info("the embedding model is ready: %s", self.space, extra={"event": "model_ready"})

    def _fail(self, why: str) -> None:
        self.failure, self._failed_at = why, asyncio.get_running_loop().time()

    async def _embed_all(self, texts: Sequence[str]) -> Vectors:
        """Embed many texts, those of similar length together.

        A slice for each worker at a time, so that whoever asks meanwhile waits for one slice and not for all of them.
        """
        import numpy as np  # beside the model, never at the start of a process

        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        slices = [order[at : at + BATCH_TEXTS] for at in range(0, len(order), BATCH_TEXTS)]
        vectors = np.empty((len(texts), self.dim), np.float32)
        coming = iter(slices)

        async def take() -> None:
            for chosen in coming:
                vectors[chosen] = await self._embed([texts[at] for at in chosen])

        await _all_or_first_failure([take() for _ in range(min(self._most_workers, len(slices)))])
        return vectors

    async def _embed(self, texts: list[str], *, first: bool = False) -> Vectors:
        future: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()
        self._waiting.insert(0 if first else len(self._waiting), (texts, future))
        if not self._workers or (len(texts) >= BATCH_TEXTS and len(self._workers) < self._most_workers):
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
        return await future

    async def _work(self) -> None:
        """Take all that waits, up to a batch, embed it, hand it out; until nothing waits."""
        try:
            while self._waiting:
                await self._embed_batch()
        finally:
            # Here and not by a callback: whoever comes next must find that nobody works any more.
            self._workers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _embed_batch(self) -> None:
        batch: list[tuple[list[str], asyncio.Future[Vectors]]] = []
        count = 0
        while self._waiting and (not batch or count + len(self._waiting[0][0]) <= BATCH_TEXTS):
            batch.append(self._waiting.pop(0))
            count += len(batch[-1][0])
        texts = [text for wanted, _ in batch for text in wanted]
        try:
            vectors = await asyncio.get_running_loop().run_in_executor(self._threads, self._embedder.embed, texts)
        except asyncio.CancelledError:
            _refuse(batch, "the memory is closing")
            raise
        except EmbeddingError as problem:
            _refuse(batch, str(problem))
            return
        except Exception as problem:  # the outermost loop of this job: those who wait must hear of it
            log.exception("embedding failed", extra={"event": "embedding_failed"})
            _refuse(batch, f"the embedding model failed ({type(problem).__name__}); see the log")
            return
        at = 0
        for wanted, future in batch:
            if not future.done():
                future.set_result(vectors[at : at + len(wanted)])
            at += len(wanted)


def _refuse(batch: Sequence[tuple[list[str], asyncio.Future[Vectors]]], why: str) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(EmbeddingError(why))


async def _all_or_first_failure(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run *works* together; the first failure ends the others."""
    tasks = [asyncio.ensure_future(one) for one in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
