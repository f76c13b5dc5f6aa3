"""What the engine needs of the documents' home: the only source of truth, whichever database and driver keeps it.

A write that returned is durable (acknowledged by a majority and journalled). Every method may raise `StoreUnavailableError` when the
database cannot be reached; a write that raised may or may not have happened and is never repeated silently unless repeating is safe.
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

if TYPE_CHECKING:  # they bring the driver's `bson`, which the interface does without
    from infinite_memory.store.repairs import Repairs
    from infinite_memory.store.set_aside import SetAside

UNKNOWN_REVISION = -1
"""In the place of a revision that a change or a version does not tell, or that is none: the memory must be read."""

Located = Mapping[MemoryId, ScopeId]
"""Memory ids with the scope whose collection holds each."""


class ChangeKind(enum.Enum):
    """What somebody did to the store."""

    WRITTEN = "written"
    REMOVED = "removed"
    SCOPE_REMOVED = "scope_removed"
    SCOPES_CHANGED = "scopes_changed"


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the change feed, from this process or another.

    ``revision`` is the document's after the change (WRITTEN only), or `UNKNOWN_REVISION`; the document itself is not carried, the reader
    fetches it when it does not know that revision. ``token`` resumes the feed after this entry; opaque bytes.
    """

    kind: ChangeKind
    token: bytes
    scope_id: ScopeId | None = None
    memory_id: MemoryId | None = None
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Version:
    """Where a live memory stands, to compare a sidecar with the store without reading texts."""

    memory_id: MemoryId
    scope_id: ScopeId
    revision: int


class Deletion(NamedTuple):
    """When a memory was soft-deleted, and where it stands."""

    deleted_at: dt.datetime
    memory_id: MemoryId
    scope_id: ScopeId


@dataclass(frozen=True, slots=True)
class RevisionPage:
    """Earlier versions of a memory, oldest first, how many are ``older``, and when a move followed on a revision, where that is known."""

    revisions: tuple[MemoryRecord, ...]
    older: int
    moved_at: Mapping[int, dt.datetime]


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What the database says of itself. ``deployment``: "replica set", "sharded" or "standalone"."""

    server_version: str
    deployment: str
    size_bytes: int
    database: str


@dataclass(frozen=True, slots=True)
class StoreCompaction:
    """What compacting the database's files freed, or with a dry run could free: bytes by collection, where any.

    ``problem`` says why the server does not do it, or not all of it.
    """

    freed_bytes: Mapping[str, int]
    problem: str | None = None

    @property
    def total_bytes(self) -> int:
        """All that was freed."""
        return sum(self.freed_bytes.values())


@dataclass(frozen=True, slots=True)
class ScopeContents:
    """The memories of a scope, those too that cannot be read; and whether others are being moved into it without a transaction."""

    memory_ids: frozenset[MemoryId]
    is_receiving: bool


@dataclass(frozen=True, slots=True)
class HiddenDoubles:
    """Hidden memories that were ``merged`` into some, and some ``alike``: of the hash of one of ``originals``, merged or not."""

    merged: Located
    alike: Located
    originals: Located


class Store(Protocol):
    """Scopes, memories and their versions. Single-threaded: used from one event loop."""

    @property
    def identity(self) -> str:
        """Tells this database from every other, also from one of the same name; known once connected."""

    @property
    def set_aside(self) -> SetAside:
        """Which documents cannot be read, as far as was seen; reading leaves them out as if they were absent."""

    @property
    def repairs(self) -> Repairs:
        """What looks for documents that cannot be read, and mends them; usable once connected."""

    @property
    def hidden_scopes(self) -> frozenset[ScopeId]:
        """The ids of scopes whose documents are set aside: their memories are hidden with them."""

    @property
    def copies(self) -> Copies:
        """What backup, restore and the jobs need beside this; usable once connected."""

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
        """How often memories were answers; usable once connected."""

    @property
    def owners(self) -> Owners:
        """Figures by owner; usable once connected."""

    @property
    def tokens(self) -> ApiTokens:
        """Who may come in by HTTP; usable once connected."""

    async def connect(self) -> None:
        """Connect, finish what a restore left undone, upgrade old data, make collections, indexes and Global; safe to repeat.

        Raises:
            SchemaTooNewError: a newer version wrote the data.
        """

    async def close(self) -> None:
        """Let go of all connections; idempotent."""

    async def ping(self) -> None:
        """Return when the database answers."""

    async def info(self) -> StoreInfo:
        """Ask the database for its version, kind and size."""

    async def compact(self, *, dry_run: bool = False) -> StoreCompaction:
        """Return disk space that the database's files hold free to the filesystem; reads and writes go on meanwhile."""

    # scopes

    async def list_scopes(self) -> list[Scope]:
        """List every scope, archived ones too, oldest first."""

    async def create_scope(self, name: str, description: str, created_at: dt.datetime) -> Scope:
        """Create a scope with its collection and indexes.

        Raises:
            ScopeExistsError: a name that folds to the same exists, also when another process made it at this moment.
        """

    async def change_scope(
        self, scope_id: ScopeId, *, name: str | None = None, description: str | None = None
    ) -> Scope:
        """Rename or describe a scope; None leaves a part as it is.

        Raises:
            ScopeExistsError: another scope has that name.
            ScopeNotFoundError: the scope is gone.
        """

    async def set_scope_archived(self, scope_id: ScopeId, archived_at: dt.datetime | None) -> Scope:
        """Put a scope away, or with None take it out again.

        Raises:
            ScopeNotFoundError: the scope is gone.
        """

    async def drop_scope(self, scope_id: ScopeId) -> None:
        """Remove a scope with its memories, revisions, links and facts for good; idempotent, finishes after a crash."""

    # memories

    def new_id(self) -> MemoryId:
        """Make an id that is new and larger than those made before by this process; asks nobody."""

    async def insert(self, memories: Sequence[MemoryRecord], *, archived_too: bool = False) -> None:
        """Add memories with ids that are new. All or none when they are more than one (one transaction where there are any).

        Raises:
            AlreadyExistsError: one has an id that is there.
            ScopeNotFoundError: a scope is gone.
            ScopeArchivedError: a scope is archived, also at this moment; not with *archived_too*.
        """

    async def replace(self, memory: MemoryRecord, *, revise: bool) -> MemoryRecord:
        """Write *memory* over the stored one of the same id if that still has ``memory.revision``; the revision rises by one.

        With *revise* the old version is kept in ``revisions``.

        Returns:
            The memory as it is now stored.

        Raises:
            MemoryNotFoundError: it is gone.
            MemoryChangedError: it changed meanwhile; read it again.
        """

    async def remove_versions(self, memory_id: MemoryId, revisions: Collection[int]) -> None:
        """Remove earlier versions of a memory for good, by their revisions."""

    async def write_batch(self, new: Sequence[MemoryRecord], changed: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        """Add *new* memories and replace *changed* ones as `replace` with *revise* does: all of it or none, by one transaction.

        A standalone server has no transactions: there what was done is taken back when a later part fails.

        Returns:
            The changed memories as they are now stored.

        Raises:
            AlreadyExistsError: one of *new* has an id that is there.
            MemoryNotFoundError, MemoryChangedError: as in `replace`.
        """

    async def move(self, memory: MemoryRecord, target: ScopeId) -> None:
        """Put a live memory that still has ``memory.revision`` into another scope; all of it happens or nothing, whoever dies meanwhile.

        It keeps its id and times, the revision rises by one, and its versions, links and counts of use go along; the version before is
        kept in ``revisions``, in the scope where it was.

        Raises:
            MemoryNotFoundError, MemoryChangedError: as in `replace`.
            ScopeNotFoundError: *target* is gone.
            ScopeArchivedError: *target* is archived, also at this moment.
        """

    async def find_moved(self, memory_ids: Collection[MemoryId]) -> dict[MemoryId, ScopeId]:
        """Return where those of some memories are, live or hidden, that were moved ever; the others are left out."""

    async def find_same_text(self, scope_id: ScopeId, content_hash: str) -> list[MemoryId]:
        """List live memories of a scope by the hash of their text, a few at most; reads the whole scope where nothing else can tell."""

    async def set_embedding(self, memory_id: MemoryId, scope_id: ScopeId, revision: int, embedding: Embedding) -> bool:
        """Put vectors to a memory that still has *revision* (which rises by one); False when it changed or is gone."""

    async def fetch(
        self, located: Located, *, deleted: bool | None = False, vectors: bool = False, latest: bool = False
    ) -> dict[MemoryId, MemoryRecord]:
        """Read memories; those not found are left out.

        Args:
            deleted: False reads live ones, True soft-deleted ones, None both.
            vectors: Whether to read embeddings too; without, ``embedding`` is None.
            latest: Whether to wait until all is read that was acknowledged: without, what was so just before the server's primary
                changed may be missing for a moment. For who takes what is missing as gone.
        """

    async def locate(self, memory_ids: Collection[MemoryId]) -> dict[MemoryId, ScopeId]:
        """Find the scope of memories, live or soft-deleted, by looking into every scope's collection; slow with many scopes."""

    async def find_hidden_doubles(self, located: Located) -> HiddenDoubles:
        """Find what was merged into some memories, live or hidden; reads all that is hidden in their scopes."""

    async def soft_delete(
        self, located: Located, deleted_at: dt.datetime, *, pruned: bool = False, merged_into: MemoryId | None = None,
        read: Mapping[MemoryId, int] | None = None, condition: Condition = ANY,
    ) -> list[MemoryId]:  # fmt: skip
        """Hide live memories that pass a condition.

        Args:
            pruned: As what only made room, which other purges leave.
            merged_into: As doubles of that memory.
            read: The revision at which each was read: one that was changed since stays.

        Returns: those that were live until now; the revision of each rises by one.
        """

    async def undelete(self, located: Located) -> list[MemoryId]:
        """Undo `soft_delete`; returns those that were hidden until now. Each revision rises by one."""

    async def remove(self, located: Located) -> list[MemoryId]:
        """Remove memories for good, live or soft-deleted, with their revisions and links; returns those that were there."""

    async def purge(self, located: Located, hidden_before: dt.datetime) -> list[MemoryId]:
        """Remove for good those memories that are hidden since before an instant when they go; returns those that went."""

    async def list_contents(self, scope_id: ScopeId) -> ScopeContents:
        """List what is in a scope at this moment, live and hidden, from the memories themselves."""

    async def deleted_ids(
        self, scope_ids: Collection[ScopeId] | None, before: dt.datetime | None, *, pruned: bool | None = None
    ) -> dict[MemoryId, ScopeId]:
        """List soft-deleted memories of some scopes (None: of all), deleted before an instant (None: ever).

        Args:
            pruned: Only those that were hidden as pruned, or only the others; None is both.
        """

    async def find_quoting(self, memory_ids: Collection[MemoryId] | None) -> dict[MemoryId, ScopeId]:
        """List memories, live or hidden, that name one of some memories (None: any at all) as quoted (`id_keys.SOURCES`)."""

    async def list_deleted(
        self, scope_ids: Collection[ScopeId] | None, limit: int, before: Deletion | None = None
    ) -> list[Deletion]:
        """List the soft-deleted memories of some scopes (None: of all), latest first; at most *limit*, those after *before*."""

    async def get_revisions(self, memory_id: MemoryId, before: int | None = None) -> RevisionPage:
        """List the latest of a memory's earlier versions (*before* a revision, None: of all), without vectors."""

    # reading everything

    def rows(self) -> AsyncGenerator[IndexBatch, None]:
        """Go through what a sidecar keeps of every live memory, many at a time, scope by scope and by id; reads no texts."""

    def stream(self, scope_ids: Collection[ScopeId] | None = None) -> AsyncIterator[MemoryRecord]:
        """Yield every live memory of some scopes (None: of all, archived too), with vectors, in no order."""

    def versions(self) -> AsyncIterator[Version]:
        """Yield the version of every live memory, archived scopes too, from an index alone where possible."""

    async def count_live(self) -> dict[ScopeId, int]:
        """Count live memories by scope, exactly."""

    async def count_deleted(self, scope_ids: Collection[ScopeId] | None = None) -> int:
        """Count soft-deleted memories of some scopes (None: of all)."""

    # small values that are not memories

    async def get_meta(self, key: str) -> Mapping[str, Any] | None:
        """Read a value kept under *key* in ``meta``."""

    async def set_meta(self, key: str, value: Mapping[str, Any]) -> None:
        """Keep a value under *key* in ``meta``."""

    async def ensure_meta(self, key: str, value: Mapping[str, Any]) -> Mapping[str, Any]:
        """Keep a value under *key* in ``meta`` unless there is one; return the one that is there then."""

    async def list_meta(self, prefix: str) -> list[Mapping[str, Any]]:
        """Return the values of all keys in ``meta`` that begin with *prefix*, by key."""

    # what others write

    async def change_token(self) -> bytes:
        """Return a token from which `changes` tells everything that happens from now on."""

    def has_reached(self, token: bytes, mark: bytes) -> bool:
        """True if a feed that gave *token* with a change has told everything that happened before *mark* was given."""

    def changes(self, after: bytes) -> AsyncGenerator[Change | None, None]:
        """Follow what happens to the store after a token, by change stream, or by polling on a standalone server.

        Yields None whenever it has caught up and again about once a second while nothing happens.

        Raises:
            FeedLostError: the token is too old or foreign; compare `versions` instead and start from a new token.
        """
