"""Statistics of the memory, health of its parts, and a hint if the model does not fit the memories' language."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass

from infinite_memory.config import Config
from infinite_memory.embedding.manifest import SECOND_MODEL
from infinite_memory.embedding.service import EmbeddingService
from infinite_memory.engine.access import Access
from infinite_memory.engine.maintenance import FIRST_LOOK_S, Maintenance
from infinite_memory.engine.memories import Memories
from infinite_memory.engine.types import ScopedFilter
from infinite_memory.errors import EmbeddingError, InfiniteMemoryError, SidecarError
from infinite_memory.index.base import call
from infinite_memory.index.sync import IndexSync
from infinite_memory.models import Filter
from infinite_memory.store.base import Store
from infinite_memory.store.scope_cache import ScopeCache
from infinite_memory.store.set_aside import SetAsideDocument

NEWEST = 200  # newest memories checked for their language
TEXT_CHARS = 400  # characters of each
MIN_COUNT = 20  # no hint below this many memories
FOREIGN_WORDS = 0.25  # a memory counts as foreign above this share of words that the model's vocabulary lacks
MANY = 0.2  # the hint is shown from this share of foreign memories


@dataclass(frozen=True, slots=True)
class SecondModelStats:
    """The second model: name, state ("off", "not needed", or that of a model), space, and the number of memories without a vector there.

    ``problem`` is the reason why it does not work; None if there is none.
    """

    name: str
    state: str
    space: str
    pending: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class Stats:
    """Statistics of the whole memory. Counts are of live memories in scopes that are not archived, unless named otherwise."""

    total: int
    by_scope: dict[str, int]
    archived: dict[str, int]
    conversations: int
    soft_deleted: int
    facts: int
    pending: int
    last_backup: str | None
    size_bytes: int
    server: str
    deployment: str
    model: str
    model_state: str
    model_failure: str | None
    space: str | None
    sidecar_state: str
    sidecar_count: int
    set_aside: int = 0
    language_hint: str | None = None
    second: SecondModelStats | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """Health of each part, "ok" or the problem; and the documents that are set aside."""

    mongodb: str
    model: str
    sidecar: str
    set_aside: tuple[SetAsideDocument, ...] = ()

    @property
    def is_well(self) -> bool:
        """Whether all parts work."""
        return (self.mongodb, self.model, self.sidecar) == ("ok", "ok", "ok")


@dataclass(frozen=True, slots=True)
class State:
    """Current state of the parts, without querying the database. Counts are None until the index can be searched."""

    model: str
    prepared_percent: int | None
    index: str
    indexed: int | None
    text_index: str
    pending: int


class StatsService:
    """Counts what a caller may see, and checks the parts."""

    def __init__(
        self, *, access: Access, memories: Memories, maintenance: Maintenance, store: Store, index: IndexSync,
        scopes: ScopeCache, embeddings: EmbeddingService, config: Config,
    ) -> None:  # fmt: skip
        self._access, self._memories, self._maintenance = access, memories, maintenance
        self._store, self._index, self._scopes = store, index, scopes
        self._embeddings, self._config = embeddings, config

    async def state(self) -> State:
        """Return the state of the parts; waits only for an index on a server, whose counts are omitted if it does not answer."""
        embeddings, index = self._embeddings, self._index
        percent = embeddings.prepared_percent if embeddings.state == "preparing" else None
        try:
            count, pending = await index.count(), await index.count_pending()
        except SidecarError:
            count, pending = None, 0
        return State(embeddings.state, percent, index.state, count, index.words_state, pending)

    @property
    def pending_problem(self) -> str | None:
        """Why memories cannot get their vectors; None if there is no problem."""
        return self._index.pending_problem

    async def collect(self) -> Stats:
        """Return the statistics. Counts come from the store, the source of truth; for restricted callers only of what they see."""
        stats = await self._collect()
        return stats if self._access.sees_everything else await self._narrow_to_seen(stats)

    async def _collect(self) -> Stats:
        sidecar = await self._index.sidecar()
        counts = await self._store.count_live()
        info = await self._store.info()
        scopes = self._scopes.all()
        live = {scope.name: counts.get(scope.scope_id, 0) for scope in scopes if scope.archived_at is None}
        scope_ids = {scope.scope_id for scope in scopes}
        indexed = await call(sidecar, sidecar.count_by_scope)
        last = await self._store.get_meta("last_backup")
        try:
            space: str | None = self._embeddings.space
        except EmbeddingError:
            space = None
        return Stats(
            total=sum(live.values()),
            by_scope=live,
            archived={scope.name: counts.get(scope.scope_id, 0) for scope in scopes if scope.archived_at is not None},
            conversations=await call(sidecar, lambda: sidecar.count_conversations(Filter())),
            soft_deleted=await self._store.count_deleted(),
            facts=await self._store.facts.count({scope.scope_id for scope in scopes if scope.archived_at is None}),
            pending=await self._index.count_pending(),
            language_hint=await self._language_hint(),
            last_backup=last["at"] if last else None,
            size_bytes=info.size_bytes,
            server=info.server_version,
            deployment=info.deployment,
            model=self._config.embedding.model,
            model_state=self._embeddings.state,
            model_failure=self._embeddings.failure,
            space=space,
            sidecar_state=self._index.state,
            sidecar_count=sum(count for scope_id, count in indexed.items() if scope_id in scope_ids),
            set_aside=len(await self._maintenance.set_aside(recheck=False)),
            second=await self._second(),
        )

    async def _second(self) -> SecondModelStats:
        """Return the state of the second model."""
        space = self._index.second
        missing = max(0, (await self._index.count() or 0) - space.count()) if space.is_active else 0
        problem = space.problem or space.embeddings.failure
        return SecondModelStats(
            SECOND_MODEL, space.state, space.embeddings.space, space.count_pending() + missing, problem
        )

    async def _narrow_to_seen(self, whole: Stats) -> Stats:
        """Return the statistics of the visible memories; of the whole memory's only those about its parts are kept."""
        sidecar = await self._index.sidecar()
        scopes, filter_ = await self._access.resolve(ScopedFilter(None))
        each = {scope.name: dataclasses.replace(filter_, scope_ids=frozenset({scope.scope_id})) for scope in scopes}
        by_scope = await call(sidecar, lambda: {name: sidecar.count(where) for name, where in each.items()})
        hidden = await self._store.deleted_ids([scope.scope_id for scope in scopes], None)
        total = sum(by_scope.values())
        return dataclasses.replace(
            whole, total=total, by_scope=by_scope, archived={},
            conversations=await call(sidecar, lambda: sidecar.count_conversations(filter_)),
            soft_deleted=len(await self._access.keep_allowed(hidden)), facts=0, set_aside=0, pending=0, last_backup=None,
            size_bytes=0, sidecar_count=total, second=None,
        )  # fmt: skip

    async def _language_hint(self) -> str | None:
        """Check the newest memories, unless a second model reads them; see `language_hint`."""
        second = await self._second()
        if second.state != "off" and second.problem is None:
            return None
        page = await self._memories.list_page(ScopedFilter(None), NEWEST)
        shares = await self._embeddings.spelled_out([memory.text[:TEXT_CHARS] for memory in page.memories])
        return language_hint(shares, self._config.embedding.model)

    async def health(self, *, recheck: bool = True) -> Health:
        """Check each part; never raises.

        Args:
            recheck: Whether to check documents too, which takes longer; for infrequent callers.
        """

        async def tried(awaitable: Awaitable[object]) -> str:
            try:
                await awaitable
            except InfiniteMemoryError as exc:
                return str(exc)
            return "ok"

        mongodb, sidecar = await tried(self._store.ping()), await tried(self._index.probe())
        set_aside = await self._quietly_looked() if recheck and (mongodb, sidecar) == ("ok", "ok") else None
        model = await tried(self._embeddings.ready())
        if model == "ok" and self._index.second.embeddings.failure is not None:
            model = f"the second model: {self._index.second.embeddings.failure}"
        return Health(mongodb, model, sidecar, tuple(set_aside or ()))

    async def _quietly_looked(self) -> Sequence[SetAsideDocument] | None:
        """Return the documents that are set aside; None while the store cannot be read."""
        try:
            async with asyncio.timeout(FIRST_LOOK_S * 2):
                return await self._maintenance.set_aside()
        except (InfiniteMemoryError, TimeoutError):
            return None


def language_hint(shares: Sequence[float | None], model: str) -> str | None:
    """Return the hint for the statistics; None if there is none.

    Args:
        shares: For each checked memory, the share of its words that are not in the model's vocabulary; None if undecidable.
    """
    decidable = [share for share in shares if share is not None]
    foreign = sum(share > FOREIGN_WORDS for share in decidable)
    if len(decidable) < MIN_COUNT or foreign < MANY * len(decidable):
        return None
    return (
        f"{foreign} of the {len(decidable)} newest memories that tell are in words that the vocabulary of {model} lacks, as another"
        " language is: they are found by their words, hardly by meaning. The second model (embedding.second_model) reads 16"
        " languages, and embeds them in the background."
    )
