"""Storage interface of the engine. The store is the single source of truth, whichever database and driver implement it.

A write that returned is durable (acknowledged by a majority and journalled). Every method may raise `StoreUnavailableError` if the database
cannot be reached; a write that raised it may or may not have been applied, and is retried silently only if that is safe.
"""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from infinite_memory.models import Embedding, IndexBatch, MemoryId, MemoryRecord, Scope, ScopeId
from infinite_memory.store.api_tokens import ApiTokens
from infinite_memory.store.belongings import Links, Uses
from infinite_memory.store.conditions import ANY, Condition
from infinite_memory.store.copies import Copies
from infinite_memory.store.facts import Facts
from infinite_memory.store.members import Members
from infinite_memory.store.owners import Owners

if TYPE_CHECKING:  # they import the driver's `bson`, which the interface does not need
    from infinite_memory.store.repairs import Repairs
    from infinite_memory.store.set_aside import SetAside

UNKNOWN_REVISION = -1
"""Stands for a revision that a change or version does not carry, or that is invalid: the memory must be read."""

Located = Mapping[MemoryId, ScopeId]
"""Memory ids, each with the scope whose collection holds it."""


class ChangeKind(enum.Enum):
    """The kind of a change to the store."""

    WRITTEN = "written"
    REMOVED = "removed"
    SCOPE_REMOVED = "scope_removed"
    SCOPES_CHANGED = "scopes_changed"


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the change feed, from this process or another.

    ``revision`` is the document's after the change (WRITTEN only), or `UNKNOWN_REVISION`; the document itself is not included, the reader
    fetches it if it does not have that revision. ``token``, opaque bytes, resumes the feed after this entry.
    """

    kind: ChangeKind
    token: bytes
    scope_id: ScopeId | None = None
    memory_id: MemoryId | None = None
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Version:
    """Scope and revision of a live memory, to compare a sidecar with the store without reading texts."""

    memory_id: MemoryId
    scope_id: ScopeId
    revision: int


class Deletion(NamedTuple):
    """When a memory was soft-deleted, with its scope and revision."""

    deleted_at: dt.datetime
    memory_id: MemoryId
    scope_id: ScopeId


@dataclass(frozen=True, slots=True)
class RevisionPage:
    """Earlier versions of a memory, oldest first; how many are ``older``; and when a move followed a revision, if known."""

    revisions: tuple[MemoryRecord, ...]
    older: int
    moved_at: Mapping[int, dt.datetime]


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What the database reports about itself. ``deployment``: "replica set", "sharded" or "standalone"."""

    server_version: str
    deployment: str
    size_bytes: int
    database: str


@dataclass(frozen=True, slots=True)
class StoreCompaction:
    """Bytes freed by compacting the database's files, by collection (with a dry run, what could be freed); only those with any.

    ``problem`` says why the server does not compact, or not everything.
    """

    freed_bytes: Mapping[str, int]
    problem: str | None = None

    @property
    def total_bytes(self) -> int:
        """Total bytes freed."""
        return sum(self.freed_bytes.values())


@dataclass(frozen=True, slots=True)
class ScopeContents:
    """The memories of a scope, unreadable ones included, and whether others are being moved into it without a transaction."""

    memory_ids: frozenset[MemoryId]
    is_receiving: bool


@dataclass(frozen=True, slots=True)
class HiddenDoubles:
    """Hidden memories that were ``merged`` into others, and those ``alike``: with the hash of one of ``originals``, merged or not."""

    merged: Located
    alike: Located
    originals: Located


class Store(Protocol):
    """Scopes, memories and their versions. Not thread-safe: use it from one event loop."""

    @property
    def identity(self) -> str:
        """Identifies this database, even among databases of the same name; known once connected."""

    @property
    def set_aside(self) -> SetAside:
        """The unreadable documents seen so far; reads skip them as if they were absent."""

    @property
    def repairs(self) -> Repairs:
        """Finds and repairs unreadable documents; usable once connected."""

    @property
    def hidden_scopes(self) -> frozenset[ScopeId]:
        """The ids of scopes whose documents are set aside: their memories are hidden with them."""

    @property
    def copies(self) -> Copies:
        """Snapshots, restores, bulk inserts and leases; usable once connected."""

    @property
    def members(self) -> Members:
        """The daemons that share the database, and its servers."""

    @property
    def facts(self) -> Facts:
        """The temporal knowledge graph; usable once connected."""

    @property
    def links(self) -> Links:
        """Relations between memories; usable once connected."""

    @property
    def uses(self) -> Uses:
        """How often memories were recalled; usable once connected."""

    @property
    def owners(self) -> Owners:
        """Counts by owner; usable once connected."""

    @property
    def tokens(self) -> ApiTokens:
        """HTTP API tokens; usable once connected."""

    async def connect(self) -> None:
        """Connect, finish interrupted restores, upgrade old data, create collections, indexes and Global; safe to repeat.

        Raises:
            SchemaTooNewError: a newer version wrote the data.
        """

    async def close(self) -> None:
        """Close all connections; idempotent."""

    async def ping(self) -> None:
        """Return once the database answers."""

    async def info(self) -> StoreInfo:
        """Ask the database for its version, kind and size."""

    async def compact(self, *, dry_run: bool = False) -> StoreCompaction:
        """Return unused space in the database's files to the filesystem; reads and writes continue."""

    # scopes

    async def list_scopes(self) -> list[Scope]:
        """List all scopes, including archived ones, oldest first."""

    async def create_scope(self, name: str, description: str, created_at: dt.datetime) -> Scope:
        """Create a scope with its collection and indexes.

        Raises:
            ScopeExistsError: a name that folds to the same exists, even if another process created it concurrently.
        """

    async def change_scope(
        self, scope_id: ScopeId, *, name: str | None = None, description: str | None = None
    ) -> Scope:
        """Change the name or description of a scope; None leaves it unchanged.

        Raises:
            ScopeExistsError: another scope has that name.
            ScopeNotFoundError: the scope is gone.
        """

    async def set_scope_archived(self, scope_id: ScopeId, archived_at: dt.datetime | None) -> Scope:
        """Archive a scope, or unarchive it with None.

        Raises:
            ScopeNotFoundError: the scope is gone.
        """

    async def drop_scope(self, scope_id: ScopeId) -> None:
        """Permanently remove a scope with its memories, revisions, links and facts; idempotent, completed after a crash."""

    # memories

    def new_id(self) -> MemoryId:
        """Return a new id, larger than all earlier ones of this process; generated locally."""

    async def insert(self, memories: Sequence[MemoryRecord], *, include_archived: bool = False) -> None:
        """Insert memories with new ids. Several are inserted all or none (in one transaction, where the server supports them).

        Raises:
            AlreadyExistsError: one has an id that exists.
            ScopeNotFoundError: a scope no longer exists.
            ScopeArchivedError: a scope is archived, even concurrently; not with *include_archived*.
        """

    async def replace(self, memory: MemoryRecord, *, keep_revision: bool) -> MemoryRecord:
        """Replace the stored memory with the same id if it still has ``memory.revision``; the revision is incremented.

        With *keep_revision* the previous version is kept in ``revisions``.

        Returns:
            The memory as it is now stored.

        Raises:
            MemoryNotFoundError: it no longer exists.
            MemoryChangedError: it was changed concurrently; read it again.
        """

    async def remove_versions(self, memory_id: MemoryId, revisions: Collection[int]) -> None:
        """Permanently remove earlier versions of a memory, by their revisions."""

    async def write_batch(self, new: Sequence[MemoryRecord], changed: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        """Insert *new* memories and replace *changed* ones as `replace` with *keep_revision* does, all or none, in one transaction.

        A standalone server has no transactions: there completed steps are undone if a later one fails.

        Returns:
            The changed memories as they are now stored.

        Raises:
            AlreadyExistsError: one of *new* has an id that exists.
            MemoryNotFoundError, MemoryChangedError: as in `replace`.
        """

    async def move(self, memory: MemoryRecord, target: ScopeId) -> None:
        """Move a live memory that still has ``memory.revision`` into another scope; atomic, even across crashes.

        It keeps its id and timestamps, the revision is incremented, and its versions, links and usage counts move along; the previous
        version is kept in ``revisions``, under the scope it was in.

        Raises:
            MemoryNotFoundError, MemoryChangedError: as in `replace`.
            ScopeNotFoundError: *target* no longer exists.
            ScopeArchivedError: *target* is archived, even concurrently.
        """

    async def find_moved(self, memory_ids: Collection[MemoryId]) -> dict[MemoryId, ScopeId]:
        """Return the scopes of those memories that were ever moved, live or soft-deleted; the others are omitted."""

    async def find_same_text(self, scope_id: ScopeId, content_hash: str) -> list[MemoryId]:
        """List live memories of a scope by content hash, a few at most; scans the whole scope if no index can answer."""

    async def set_embedding(self, memory_id: MemoryId, scope_id: ScopeId, revision: int, embedding: Embedding) -> bool:
        """Set the vectors of a memory that still has *revision* (which is incremented); False if it was changed or removed."""

    async def fetch(
        self, located: Located, *, deleted: bool | None = False, vectors: bool = False, latest: bool = False
    ) -> dict[MemoryId, MemoryRecord]:
        """Read memories; those not found are omitted.

        Args:
            deleted: False reads live ones, True soft-deleted ones, None both.
            vectors: Whether to read embeddings too; without, ``embedding`` is None.
            latest: Whether reads must see every acknowledged write: otherwise writes acknowledged just before a failover may be missing for
                a moment. For callers that treat a missing memory as removed.
        """

    async def locate(self, memory_ids: Collection[MemoryId]) -> dict[MemoryId, ScopeId]:
        """Return the scopes of memories, live or soft-deleted, by searching every scope's collection; slow with many scopes."""

    async def find_hidden_doubles(self, located: Located) -> HiddenDoubles:
        """Return what was merged into some memories, live or soft-deleted; reads all soft-deleted memories of their scopes."""

    async def soft_delete(
        self, located: Located, deleted_at: dt.datetime, *, pruned: bool = False, merged_into: MemoryId | None = None,
        revisions: Mapping[MemoryId, int] | None = None, condition: Condition = ANY,
    ) -> list[MemoryId]:  # fmt: skip
        """Hide live memories that meet a condition.

        Args:
            pruned: Mark them as pruned to free space; other purges leave these.
            merged_into: Mark them as duplicates of that memory.
            revisions: The revision at which each was read: one changed since is left alone.

        Returns: those that were live until now; the revision of each is incremented.
        """

    async def undelete(self, located: Located) -> list[MemoryId]:
        """Undo `soft_delete`; return those that were hidden until now. Each revision is incremented."""

    async def remove(self, located: Located) -> list[MemoryId]:
        """Hard-delete memories, live or soft-deleted, with their revisions and links; return those that existed."""

    async def purge(self, located: Located, hidden_before: dt.datetime) -> list[MemoryId]:
        """Hard-delete those memories that, at the time of removal, have been hidden since before an instant; return those removed."""

    async def list_contents(self, scope_id: ScopeId) -> ScopeContents:
        """List the current contents of a scope, live and hidden, from the memories themselves."""

    async def deleted_ids(
        self, scope_ids: Collection[ScopeId] | None, before: dt.datetime | None, *, pruned: bool | None = None
    ) -> dict[MemoryId, ScopeId]:
        """List soft-deleted memories of some scopes (None: all), deleted before an instant (None: at any time).

        Args:
            pruned: True lists only pruned ones, False only the others, None both.
        """

    async def find_quoting(self, memory_ids: Collection[MemoryId] | None) -> dict[MemoryId, ScopeId]:
        """List memories, live or soft-deleted, that quote one of some memories (None: any memory), see `id_keys.SOURCES`."""

    async def list_deleted(
        self, scope_ids: Collection[ScopeId] | None, limit: int, before: Deletion | None = None
    ) -> list[Deletion]:
        """List the soft-deleted memories of some scopes (None: all), latest first; at most *limit*, those that follow *before*."""

    async def get_revisions(self, memory_id: MemoryId, before: int | None = None) -> RevisionPage:
        """Return the latest of a memory's earlier versions (*before* a revision; None: any), without vectors."""

    # full scans

    def rows(self) -> AsyncGenerator[IndexBatch, None]:
        """Yield the sidecar's fields of every live memory in batches, by scope and id; reads no texts."""

    def stream(self, scope_ids: Collection[ScopeId] | None = None) -> AsyncIterator[MemoryRecord]:
        """Yield every live memory of some scopes (None: all, archived ones too), with vectors, in no particular order."""

    def versions(self) -> AsyncIterator[Version]:
        """Yield the version of every live memory, archived scopes included, from a covering index if possible."""

    async def count_live(self) -> dict[ScopeId, int]:
        """Return the exact number of live memories by scope."""

    async def count_deleted(self, scope_ids: Collection[ScopeId] | None = None) -> int:
        """Return the number of soft-deleted memories of some scopes (None: all)."""

    # small values that are not memories

    async def get_meta(self, key: str) -> Mapping[str, Any] | None:
        """Return the value stored under *key* in ``meta``."""

    async def set_meta(self, key: str, value: Mapping[str, Any]) -> None:
        """Store a value under *key* in ``meta``."""

    async def ensure_meta(self, key: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Store a value under *key* in ``meta`` unless there is one; return the one now stored."""

    async def list_meta(self, prefix: str) -> list[Mapping[str, Any]]:
        """Return the values of all keys in ``meta`` that start with *prefix*, by key."""

    # changes by other processes

    async def change_token(self) -> bytes:
        """Return a token from which `changes` reports everything from now on."""

    def has_reached(self, token: bytes, mark: bytes) -> bool:
        """True if a feed that has reached *token* has reported everything that happened before *mark* was issued."""

    def changes(self, after: bytes) -> AsyncGenerator[Change | None, None]:
        """Follow changes to the store after a token, by change stream, or by polling on a standalone server.

        Yields None whenever it has caught up, and then about once a second while idle.

        Raises:
            FeedLostError: the token is too old or foreign; compare `versions` instead and start from a new token.
        """
