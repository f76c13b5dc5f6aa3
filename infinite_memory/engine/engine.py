"""The use cases of the memory. Independent of JSON, sockets, MongoDB and FAISS; dependencies are injected.

`Engine` is the facade: a few use cases, each with the collaborators that it needs, limited by one `Visibility`.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from infinite_memory.clock import Clock, system_clock
from infinite_memory.config import Config
from infinite_memory.engine.access import Access
from infinite_memory.engine.entity_mentions import EntityNames
from infinite_memory.engine.forget import Forget
from infinite_memory.engine.graph import Graph
from infinite_memory.engine.layered_recall import LayeredRecall
from infinite_memory.engine.maintenance import Maintenance
from infinite_memory.engine.memories import Memories
from infinite_memory.engine.moving import Moves
from infinite_memory.engine.owners import Owners, Tokens
from infinite_memory.engine.quotations import Forgettings, Listeners, Quotations
from infinite_memory.engine.recall import Recall
from infinite_memory.engine.records import RecordMaker
from infinite_memory.engine.scopes import Scopes
from infinite_memory.engine.search import Searcher
from infinite_memory.engine.stats import StatsService
from infinite_memory.engine.summary_quotes import SummaryQuotes
from infinite_memory.engine.upsert import Locks, Upserts
from infinite_memory.engine.visibility import EVERYTHING, Visibility
from infinite_memory.models import MemoryRecord

if TYPE_CHECKING:
    from infinite_memory.embedding.reranker import Reranker
    from infinite_memory.embedding.service import EmbeddingService
    from infinite_memory.engine.usage import UsageCounter
    from infinite_memory.index.sync import IndexSync
    from infinite_memory.store.base import Store
    from infinite_memory.store.scope_cache import ScopeCache


@dataclass(frozen=True, slots=True)
class Services:
    """Dependencies of the use cases; known to the engine and to ``bootstrap.py``, which injects them.

    ``names``, ``locks``, ``quotation_listeners`` and ``forgettings`` are shared by engines with different visibilities over one memory.
    """

    store: Store
    index: IndexSync
    embeddings: EmbeddingService
    scopes: ScopeCache
    config: Config
    clock: Clock = system_clock
    reranker: Reranker | None = None
    uses: UsageCounter | None = None
    names: EntityNames = field(default_factory=EntityNames)
    locks: Locks = field(default_factory=Locks)
    quotation_listeners: Listeners = field(default_factory=list)
    forgettings: Forgettings = field(default_factory=Forgettings)


class Engine:
    """Everything a caller can request. Methods may run concurrently on one event loop.

    Attributes:
        visibility: What the caller may see; checked by every use case.
        memories: Storing, changing, reading and listing memories.
        recall: Searching memories.
        layers: Searching by importance as well.
        forget: Soft and hard forgetting.
        scopes: Managing scopes.
        graph: Links between memories, and facts.
        owners: Owners of memories, and agents.
        tokens: Tokens of HTTP clients.
        maintenance: Purging, checking, compacting, repairing.
        stats: Statistics and health.
    """

    def __init__(self, services: Services, visibility: Visibility = EVERYTHING) -> None:
        self.visibility = visibility
        self._services = services
        store, index, scopes, clock = services.store, services.index, services.scopes, services.clock
        embeddings, config, uses = services.embeddings, services.config, services.uses
        access = Access(visibility, store=store, index=index, scopes=scopes)
        records = RecordMaker(store=store, embeddings=embeddings, clock=clock)
        searcher = Searcher(
            access=access, store=store, index=index, embeddings=embeddings, names=services.names,
            settings=config.recall, reranker=services.reranker,
        )  # fmt: skip
        quotations = Quotations(
            store=store, index=index, listeners=services.quotation_listeners, forgettings=services.forgettings,
            summaries=SummaryQuotes(access=access, store=store, index=index, scopes=scopes, clock=clock),
        )  # fmt: skip
        upserts = Upserts(
            access=access, store=store, index=index, scopes=scopes, records=records, clock=clock, locks=services.locks
        )
        moves = Moves(access=access, store=store, index=index, scopes=scopes, embeddings=embeddings)
        self.memories = Memories(
            access=access, store=store, index=index, scopes=scopes, records=records, upserts=upserts, moves=moves,
            quotations=quotations,
        )  # fmt: skip
        self.recall = Recall(
            access=access, searcher=searcher, store=store, index=index, scopes=scopes, embeddings=embeddings, uses=uses
        )
        self.layers = LayeredRecall(access=access, searcher=searcher, index=index, clock=clock, uses=uses)
        self.forget = Forget(
            access=access, recall=self.recall, store=store, index=index, scopes=scopes, clock=clock,
            quotations=quotations,
        )  # fmt: skip
        self.scopes = Scopes(access=access, store=store, index=index, scopes=scopes)
        self.graph = Graph(access=access, store=store, index=index, scopes=scopes, clock=clock)
        self.owners = Owners(access=access, store=store, index=index)
        self.tokens = Tokens(access=access, store=store, index=index)
        self.maintenance = Maintenance(
            access=access, forget=self.forget, store=store, index=index, settings=config.retention, clock=clock
        )
        self.stats = StatsService(
            access=access, memories=self.memories, maintenance=self.maintenance, store=store, index=index,
            scopes=scopes, embeddings=embeddings, config=config,
        )  # fmt: skip

    def restricted(self, visibility: Visibility) -> Engine:
        """Return an engine over the same memory for a caller restricted to *visibility*.

        Raises:
            ForbiddenError: this engine is itself restricted.
        """
        self.visibility.check_everything()
        return Engine(self._services, visibility)

    def on_digests_removed(self, listener: Callable[[Sequence[MemoryRecord]], None]) -> None:
        """Call *listener*, which stays registered, with the digests removed because a memory that they quote is forgotten or edited."""
        self.visibility.check_everything()
        if listener not in self._services.quotation_listeners:
            self._services.quotation_listeners.append(listener)

    def now(self) -> dt.datetime:
        """Return the current time of the engine's clock."""
        return self._services.clock()
