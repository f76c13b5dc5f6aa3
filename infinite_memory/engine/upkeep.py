"""What keeps the memory sound: figures, health, maintenance that changes no user's words."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from infinite_memory.engine.forget import Forgetting
from infinite_memory.engine.languages import NEWEST, TEXT_CHARS, language_hint
from infinite_memory.engine.parts import Where
from infinite_memory.errors import EmbeddingError, InfiniteMemoryError
from infinite_memory.models import Filter


class Operation(enum.Enum):
    """What `optimize` can be asked for; none of these changes a user's words."""

    COMPACT = "compact"
    CHECK_SIDECAR = "check_sidecar"
    PURGE_DELETED = "purge_deleted"


@dataclass(frozen=True, slots=True)
class Done:
    """What one maintenance operation did, or with a dry run would do, to ``count`` memories."""

    operation: Operation
    count: int
    said: str


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of the whole memory. Counts are of live memories in scopes that are not archived, unless named otherwise."""

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
    language_hint: str | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """Whether each part works, with a word on each that does not."""

    mongodb: str
    model: str
    sidecar: str

    @property
    def is_well(self) -> bool:
        """Tell whether nothing is wrong."""
        return (self.mongodb, self.model, self.sidecar) == ("ok", "ok", "ok")


class Upkeep(Forgetting):
    """The engine's methods that look at the memory as a whole."""

    async def figures(self) -> Figures:
        """Count and measure. Counts come from the store, which is the truth."""
        sidecar = await self.parts.index.sidecar()
        counts = await self.parts.store.count_live()
        info = await self.parts.store.info()
        scopes = self.parts.scopes.all()
        live = {one.name: counts.get(one.scope_id, 0) for one in scopes if one.archived_at is None}
        last = await self.parts.store.get_meta("last_backup")
        try:
            space: str | None = self.parts.embeddings.space
        except EmbeddingError:
            space = None
        return Figures(
            total=sum(live.values()),
            by_scope=live,
            archived={one.name: counts.get(one.scope_id, 0) for one in scopes if one.archived_at is not None},
            conversations=sidecar.count_conversations(Filter()),
            soft_deleted=await self.parts.store.count_deleted(),
            facts=await self.parts.store.facts.count(),
            pending=self.parts.index.count_pending(),
            language_hint=await self._language_hint(),
            last_backup=last["at"] if last else None,
            size_bytes=info.size_bytes,
            server=info.server_version,
            deployment=info.deployment,
            model=self.parts.config.embedding.model,
            model_state=self.parts.embeddings.state,
            model_failure=self.parts.embeddings.failure,
            space=space,
            sidecar_state=self.parts.index.state,
            sidecar_count=sum(sidecar.count_by_scope().values()),
        )

    async def _language_hint(self) -> str | None:
        """Look at the newest memories; see `language_hint`."""
        page = await self.list_memories(Where(None), NEWEST)
        shares = await self.parts.embeddings.spelled_out([one.text[:TEXT_CHARS] for one in page.memories])
        return language_hint(shares, self.parts.config.embedding.model)

    async def health(self) -> Health:
        """Try each part; never raises."""

        async def tried(work: Awaitable[object]) -> str:
            try:
                await work
            except InfiniteMemoryError as problem:
                return str(problem)
            return "ok"

        return Health(
            mongodb=await tried(self.parts.store.ping()),
            model=await tried(self.parts.embeddings.ready()),
            sidecar=await tried(self.parts.index.sidecar()),
        )

    async def optimize(self, operations: Sequence[Operation], *, dry_run: bool = False) -> list[Done]:
        """Carry out maintenance in the order given; each entry of the result says what was really done."""
        return [await self._optimize(one, dry_run=dry_run) for one in operations]

    async def _optimize(self, operation: Operation, *, dry_run: bool) -> Done:
        if operation is Operation.PURGE_DELETED:
            keep = dt.timedelta(days=self.parts.config.retention.purge_deleted_days)
            await self.parts.index.sidecar()
            expired = await self.parts.store.deleted_ids(None, self.parts.clock() - keep, pruned=False)
            if (days := self.parts.config.retention.purge_pruned_days) is not None:
                before = self.parts.clock() - dt.timedelta(days=days)
                expired |= await self.parts.store.deleted_ids(None, before, pruned=True)
            if dry_run:
                return Done(operation, len(expired), f"would_purge_{len(expired)}_expired_deletions")
            gone = await self.purge(expired)
            return Done(operation, len(gone), f"purged_{len(gone)}_expired_deletions")
        if operation is Operation.CHECK_SIDECAR:
            if dry_run:
                return Done(operation, 0, "would_check_sidecar")
            checked = await self.parts.index.check()
            said = f"checked_sidecar_repaired_{checked.faults}_entries"
            return Done(operation, checked.faults, said)
        if dry_run:
            return Done(operation, 0, "would_compact_sidecar")
        await self.parts.index.save()  # saving leaves tombstones behind
        return Done(operation, 0, "compacted_sidecar")

    async def reindex(self, progress: Callable[[int, int], None] | None = None) -> int:
        """Build the sidecar anew from the store; gives the number of memories in it. *progress* as in `Index.rebuild`."""
        return await self.parts.index.rebuild(progress=progress)
