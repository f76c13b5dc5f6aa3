"""Data related to imported memories: earlier versions, facts of their scopes, links between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TypeVar

from infinite_memory.errors import InfiniteMemoryError
from infinite_memory.models import (
    Fact,
    FactId,
    Link,
    MemoryId,
    MemoryRecord,
    Scope,
    ScopeId,
    floor_to_millisecond,
    fold,
)
from infinite_memory.store.base import Store
from infinite_memory.store.copies import FactPlace
from infinite_memory.transfer.formats import IncomingFact, IncomingLink, IncomingVersion, Refused

BATCH = 500
T = TypeVar("T")


class History:
    """Imports the data related to the memories of one import, after them.

    Args:
        scope_of: Returns the scope of a name, None if a dry run would create it; raises if it cannot be used.
        record: Builds a memory's record from an entry.
        known: Revisions of the memories that this import added, or would add.
        refuse: Called with each skipped entry.
        into: Target scope of everything, whatever its original scope.
    """

    def __init__(
        self,
        store: Store,
        scope_of: Callable[[str], Awaitable[Scope | None]],
        record: Callable[[MemoryId, IncomingVersion, ScopeId], MemoryRecord],
        known: Mapping[MemoryId, int],
        refuse: Callable[[Refused], None],
        *,
        into: str | None,
        dry_run: bool,
    ) -> None:
        self._store, self._scope_of, self._record = store, scope_of, record
        self._known, self._refuse, self._dry_run = known, refuse, dry_run
        self._into = into
        self._planned: dict[str, ScopeId] = {}  # of scopes that a dry run would create, by folded name
        self._holding: set[FactPlace] = set()
        self._links: list[IncomingLink] = []
        self._versions: list[IncomingVersion] = []
        self.waiting_chars = 0  # of the waiting versions
        self.added: Counter[str] = Counter()

    async def take(self, entries: Iterable[IncomingVersion | IncomingFact | IncomingLink]) -> None:
        """Import facts at once; versions and links wait for `finish`, when all memories exist."""
        facts: list[IncomingFact] = []
        for entry in entries:
            if isinstance(entry, IncomingFact):
                facts.append(entry)
            elif isinstance(entry, IncomingLink):
                self._links.append(entry)
            else:
                self._versions.append(entry)
                self.waiting_chars += len(entry.memory.text)
        await self._take_facts(facts)

    async def finish(self) -> None:
        """Import what is waiting."""
        await self.take_waiting_versions()
        for links in _batches(self._links):
            await self._take_links(links)

    async def take_waiting_versions(self) -> None:
        """Import the waiting versions once their memories are stored, so that fewer are kept in memory."""
        waiting, self._versions, self.waiting_chars = self._versions, [], 0
        for versions in _batches(waiting):
            await self._take_versions(versions)

    async def _take_facts(self, incoming: Sequence[IncomingFact]) -> None:
        facts = []
        for record in incoming:
            try:
                scope = await self._scope_of(record.scope)
            except InfiniteMemoryError as exc:
                self._refuse(Refused(f"fact {record.fact_id}", str(exc)))
                continue
            scope_id = scope.scope_id if scope is not None else self._planned_id(record.scope)
            facts.append(
                Fact(
                    FactId(record.fact_id), scope_id, record.subject, record.predicate, record.object, record.valid_from, record.valid_to,
                    record.confidence, record.provenance,
                )
            )  # fmt: skip
        copies = self._store.copies
        existing = await copies.find_facts(facts)
        fresh = {entry.fact_id: entry for entry in facts if entry.fact_id not in existing}
        refused = await copies.add_facts(list(fresh.values()), self._holding, dry_run=self._dry_run)
        self.added["facts"] += len(fresh) - len(refused)
        for fact in refused:
            self._refuse(Refused(f"fact {fact.fact_id}", "something else holds here of the same subject and predicate"))

    def _planned_id(self, name: str) -> ScopeId:
        """Return a stable placeholder id for a scope that a dry run would create."""
        return self._planned.setdefault(fold((self._into or name).strip()), ScopeId(self._store.new_id()))

    async def _take_versions(self, incoming: Sequence[IncomingVersion]) -> None:
        ids = {MemoryId(record.memory.memory_id or "") for record in incoming}
        located = await self._store.locate(list(ids))
        memories = await self._store.fetch(located, deleted=None)
        revisions = {key: memory.revision for key, memory in memories.items()} | {
            key: revision for key, revision in self._known.items() if key in ids
        }
        versions = []
        for record in incoming:
            memory_id = MemoryId(record.memory.memory_id or "")
            if revisions.get(memory_id, 0) > record.revision:
                versions.append(self._record(memory_id, record, located.get(memory_id, ScopeId(""))))
            else:
                self._refuse(
                    Refused(f"version {record.revision} of {memory_id}", "there is no newer form of the memory here")
                )
        self.added["revisions"] += await self._store.copies.add_revisions(versions, dry_run=self._dry_run)

    async def _take_links(self, incoming: Sequence[IncomingLink]) -> None:
        ends = {MemoryId(end) for record in incoming for end in (record.from_id, record.to_id)}
        located = await self._store.locate([end for end in ends if end not in self._known or not self._dry_run])
        links = []
        for record in incoming:
            link = Link(
                MemoryId(record.from_id),
                MemoryId(record.to_id),
                record.relation,
                floor_to_millisecond(record.created_at),
            )
            missing = {link.from_id, link.to_id} - located.keys() - (self._known.keys() if self._dry_run else set())
            if missing:
                self._refuse(Refused(f"link from {link.from_id} to {link.to_id}", "one of its memories is not here"))
            else:
                scope_id = located.get(link.from_id) or ScopeId(self._store.new_id())
                links.append((link, scope_id))
        self.added["links"] += await self._store.copies.add_links(links, dry_run=self._dry_run)


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, BATCH)):
        yield batch
