"""The engine's embedding service: the model is loaded in the background, shared by all requests, and may fail.

Concurrent requests are batched: while one batch is computed, the next one is collected. Single requests share one worker, because two
measured slower under load on two cores; full batches, as from an import, use one worker per core. A repeated question is embedded once.

Questions take priority over memories being stored, these over background embedding; a batch never mixes them. Texts are passed to the model
in slices, so the next request waits for one slice (an eighth of a second of a core at most), whatever else is embedded.
"""

from __future__ import annotations

import asyncio
import enum
import logging
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from infinite_memory.embedding.base import Embedder, Preparing
from infinite_memory.embedding.languages import is_foreign, judge_by_vocabulary
from infinite_memory.embedding.vocabulary import READ, Reading
from infinite_memory.errors import EmbeddingError
from infinite_memory.malloc_tuning import release_freed
from infinite_memory.models import Embedding

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

log = logging.getLogger(__name__)

CACHED_QUERIES = 1024  # 1.5 kB each at 384 dimensions
BATCH_TEXTS = 16  # passed to the model in one call
BATCH_CHARS = 4000
"""Characters of those texts in total: about four windows of the default model, which gains nothing from larger batches."""
MAX_WORKERS = 4  # each takes about 30 MB while computing
SHORT_CHARS = 500  # of a text that is tokenised on the event loop, in a quarter of a millisecond
RETRY_S = 30.0  # delay before retrying to load a model that failed


class Priority(enum.IntEnum):
    """Which texts are embedded first."""

    QUESTION = 0
    STORING = 1
    BACKGROUND = 2


@dataclass(frozen=True, slots=True)
class _Request:
    """Waiting texts, few enough for one batch."""

    texts: Sequence[str]
    priority: Priority
    future: asyncio.Future[Vectors]

    @property
    def chars(self) -> int:
        """Total number of characters."""
        return sum(map(len, self.texts))


class EmbeddingService:
    """Embeds texts off the event loop. Used from one event loop.

    Args:
        wait_s: How long a request waits for a model that is being loaded.
    """

    def __init__(self, embedder: Embedder, wait_s: float) -> None:
        self._embedder, self._wait_s = embedder, wait_s
        self._max_workers = max(1, min(MAX_WORKERS, os.cpu_count() or 1))
        self._threads = ThreadPoolExecutor(self._max_workers, thread_name_prefix="embedding")
        self._waiting: dict[Priority, deque[_Request]] = {priority: deque() for priority in Priority}
        self._workers: set[asyncio.Task[None]] = set()
        self._loading: asyncio.Task[None] | None = None
        self._failed_at: float | None = None
        self._queries: OrderedDict[str, Vectors] = OrderedDict()
        self.failure: str | None = None
        self.on_ready: Callable[[], None] = lambda: None  # called each time the model has been loaded

    @property
    def space(self) -> str:
        """Name of the vector space.

        Raises:
            EmbeddingError: the model is missing.
        """
        return self._embedder.space

    @property
    def dim(self) -> int:
        """Length of a vector; raises like `space`."""
        return self._embedder.dim

    @property
    def state(self) -> str:
        """State of the model: "preparing" while it is downloaded or written, "loading", "ready" or "failed"."""
        if self.failure is not None:
            return "failed"
        if self._loading is not None and self._loading.done():
            return "ready"
        return "loading" if self.prepared_percent is None else "preparing"

    @property
    def prepared_percent(self) -> int | None:
        """Progress of the preparation in percent; None if the model is on this machine already."""
        return self._embedder.preparing if isinstance(self._embedder, Preparing) else None

    def start(self) -> None:
        """Start loading the model in the background; needs a running event loop."""
        self._loading = asyncio.create_task(self._load())

    async def close(self) -> None:
        """Reject running and waiting requests; a batch that the model is computing is allowed to finish."""
        if isinstance(self._embedder, Preparing):
            await asyncio.to_thread(self._embedder.stop)
        for task in (*self._workers, self._loading):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        for requests in self._waiting.values():
            for request in requests:
                request.future.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)

    async def ready(self, wait_s: float | None = None) -> None:
        """Return once the model is loaded; wait at most *wait_s*, by default the configured time.

        Does not wait for a model that is being prepared: that takes a minute or two.

        Raises:
            EmbeddingError: it failed to load, is still loading after that time, or is being prepared.
        """
        loop = asyncio.get_running_loop()
        limit_s = self._wait_s if wait_s is None else wait_s
        if self._loading is None or (self._failed_at is not None and loop.time() - self._failed_at > RETRY_S):
            self._failed_at = None
            self.start()
        assert self._loading is not None
        if not self._loading.done() and (percent := self.prepared_percent) is not None:
            raise EmbeddingError(f"preparing the model ({percent} %)")
        try:
            await asyncio.wait_for(asyncio.shield(self._loading), limit_s)
        except TimeoutError:
            raise EmbeddingError(f"the embedding model is still loading after {limit_s:g} s; try again") from None
        if self.failure is not None:
            raise EmbeddingError(self.failure)

    async def embed_query(self, text: str, wait_s: float | None = None) -> Vectors:
        """Return the vector of a question: float32 of shape ``(dim,)``. Waits for a loading model as `ready` does.

        Raises:
            EmbeddingError: the model cannot be used.
        """
        if (cached := self._queries.get(text)) is not None:
            self._queries.move_to_end(text)
            return cached
        await self.ready(wait_s)
        vector: Vectors = (await self._embed([text], Priority.QUESTION))[0]
        self._queries[text] = vector
        if len(self._queries) > CACHED_QUERIES:
            self._queries.popitem(last=False)
        return vector

    async def reading(self, text: str) -> Reading:
        """Return what the model can read of *text*; a missing model is assumed to read everything."""
        if self.state != "ready":
            return READ
        if len(text) <= SHORT_CHARS:
            return self._embedder.reading(text)
        return await asyncio.to_thread(self._embedder.reading, text)

    async def find_foreign(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether it is in a language that the model cannot read; False while the model is not ready."""
        if self.state != "ready":
            return [False] * len(texts)
        if len(texts) == 1 and len(texts[0]) <= SHORT_CHARS:
            verdict = judge_by_vocabulary(self._embedder, texts[0])
            if verdict is not None:
                return [verdict]
        return await asyncio.to_thread(lambda: [is_foreign(self._embedder, text) for text in texts])

    async def embed_memories(self, texts: Sequence[str], priority: Priority = Priority.STORING) -> list[Embedding]:
        """Return the embeddings of whole memories, each in as many overlapping windows as its length needs, in order.

        Raises:
            EmbeddingError: the model cannot be used.
        """
        await self.ready()
        loop = asyncio.get_running_loop()
        windows = await loop.run_in_executor(None, lambda: [self._embedder.windows(text) for text in texts])
        pieces = [text[window.start : window.end] for text, cut in zip(texts, windows, strict=True) for window in cut]
        vectors = await self._embed_all(pieces, priority)
        embeddings, start = [], 0
        for cut in windows:
            embeddings.append(Embedding(self.space, tuple(cut), vectors[start : start + len(cut)]))
            start += len(cut)
        return embeddings

    async def spelled_out(self, texts: Sequence[str]) -> list[float | None]:
        """Return for each text the share of its words missing from the model's vocabulary; empty while there is no model."""
        if self.state != "ready":
            return []
        return await asyncio.to_thread(lambda: [self._embedder.spelled_out(text) for text in texts])

    async def _load(self) -> None:
        self.failure = None
        try:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._load_embedder)
        except EmbeddingError as exc:
            self._fail(str(exc))
            log.warning("the embedding model failed to load: %s", exc, extra={"event": "model_failed"})
        except Exception as exc:  # the outermost loop of this job: a broken library must not lose a memory
            self._fail(f"the embedding model failed to load ({type(exc).__name__}); see the log")
            log.exception("the embedding model failed to load", extra={"event": "model_failed"})
        else:
            log.info("the embedding model is ready: %s", self.space, extra={"event": "model_ready"})
            self.on_ready()

    def _load_embedder(self) -> None:
        self._embedder.load()
        release_freed()  # of the weights file as read: about 40 MiB

    def _fail(self, reason: str) -> None:
        self.failure, self._failed_at = reason, asyncio.get_running_loop().time()

    async def _embed_all(self, texts: Sequence[str], priority: Priority) -> Vectors:
        """Embed many texts, grouped by similar length.

        One slice per worker at a time, so that a concurrent request waits for one slice and not for all of them.
        """
        import numpy as np  # when there is a model anyway, never at the start of a process

        slices = _slices(texts)
        vectors = np.empty((len(texts), self.dim), np.float32)
        remaining = iter(slices)

        async def work() -> None:
            for indexes in remaining:
                vectors[indexes] = await self._embed([texts[index] for index in indexes], priority)

        await _all_or_first_failure([work() for _ in range(min(self._max_workers, len(slices)))])
        return vectors

    async def _embed(self, texts: list[str], priority: Priority) -> Vectors:
        request = _Request(texts, priority, asyncio.get_running_loop().create_future())
        self._waiting[priority].append(request)
        if not self._workers or (_is_full(request) and len(self._workers) < self._max_workers):
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
        return await request.future

    async def _work(self) -> None:
        """Embed waiting requests, a batch at a time, and deliver the results, until nothing waits."""
        try:
            while any(self._waiting.values()):
                await self._embed_batch()
        finally:
            # Here and not in a callback: the next request must see that no worker is running.
            self._workers.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    def _take_batch(self) -> list[_Request]:
        """Take the waiting requests of the highest priority, as many as fit into one batch."""
        requests = next(requests for requests in self._waiting.values() if requests)
        batch = [requests.popleft()]
        count, chars = len(batch[0].texts), batch[0].chars
        while requests and count + len(requests[0].texts) <= BATCH_TEXTS and chars + requests[0].chars <= BATCH_CHARS:
            batch.append(requests.popleft())
            count, chars = count + len(batch[-1].texts), chars + batch[-1].chars
        return batch

    async def _embed_batch(self) -> None:
        batch = self._take_batch()
        texts = [text for request in batch for text in request.texts]
        try:
            vectors = await asyncio.get_running_loop().run_in_executor(self._threads, self._embedder.embed, texts)
        except asyncio.CancelledError:
            _refuse(batch, "the memory is closing")
            raise
        except EmbeddingError as exc:
            _refuse(batch, str(exc))
            return
        except Exception as exc:  # the outermost loop of this job: waiting callers must get the error
            log.exception("embedding failed", extra={"event": "embedding_failed"})
            _refuse(batch, f"the embedding model failed ({type(exc).__name__}); see the log")
            return
        offset = 0
        for request in batch:
            if not request.future.done():
                request.future.set_result(vectors[offset : offset + len(request.texts)])
            offset += len(request.texts)


def _slices(texts: Sequence[str]) -> list[list[int]]:
    """Split texts, by index, into slices of one batch each, grouped by similar length."""
    slices: list[list[int]] = []
    chars = 0
    for index in sorted(range(len(texts)), key=lambda index: len(texts[index])):
        chars += len(texts[index])
        if not slices or len(slices[-1]) == BATCH_TEXTS or chars > BATCH_CHARS:
            slices.append([])
            chars = len(texts[index])
        slices[-1].append(index)
    return slices


def _is_full(request: _Request) -> bool:
    """True if a request is large enough for its own worker."""
    return len(request.texts) >= BATCH_TEXTS or request.chars > BATCH_CHARS // 2


def _refuse(batch: Sequence[_Request], reason: str) -> None:
    for request in batch:
        if not request.future.done():
            request.future.set_exception(EmbeddingError(reason))


async def _all_or_first_failure(works: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Run *works* concurrently; the first failure cancels the others."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
