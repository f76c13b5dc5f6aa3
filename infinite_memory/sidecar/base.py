"""What the engine needs of derived data: rows it knows by our ids, found by filter, time or vector.

A sidecar may be lost and is then rebuilt from the store. It never holds a memory's text, only what filtering and
ranking need.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from infinite_memory.models import Filter, MemoryId, Row, Rows, ScopeId
from infinite_memory.sidecar.weighing import Weigh

if TYPE_CHECKING:
    from infinite_memory.models import Vectors


@dataclass(frozen=True, slots=True)
class Hit:
    """One memory found by its vectors: ``score`` is the cosine of its best window, ``window`` that window's number.

    ``windows`` is how many it has in all: the best of many is a luckier draw than the best of one.
    """

    memory_id: MemoryId
    score: float
    window: int
    windows: int = 1


@dataclass(frozen=True, slots=True)
class Page:
    """A stretch of a listing: ids in order, the number of memories that pass the filter, the cursor of what follows."""

    memory_ids: tuple[MemoryId, ...]
    total: int
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The memories said just before and just after one, in its conversation; None at either end."""

    before: MemoryId | None
    after: MemoryId | None


class Sidecar(Protocol):
    """Derived data over all scopes of one store; every method may be called from several threads.

    Filters apply before ranking: whenever enough memories pass, a search fills ``k``.
    """

    def upsert(self, rows: Iterable[Row]) -> None:
        """Add rows, or replace those whose revision is older than the given one; an older row changes nothing."""

    def enter(self, rows: Rows) -> None:
        """Do as `upsert` with rows that are already in columns; others wait meanwhile, a few milliseconds for a thousand."""

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Take memories out; unknown ids are ignored."""

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Take all memories of a scope out."""

    def search(self, vector: Vectors, k: int, where: Filter) -> list[Hit]:
        """Find the memories nearest to *vector* among those that pass *where*.

        Args:
            vector: One float32 row of shape ``(dim,)``, unit length.
            k: At most this many memories; several windows of one memory are one hit.

        Returns:
            Hits by falling score, equal scores by newer first, then by id.
        """

    def list_page(self, where: Filter, limit: int, cursor: str | None, newest_first: bool) -> Page:
        """List memories that pass *where* by the time they happened, then by id.

        Raises:
            InvalidRequestError: *cursor* was not made by this method.
        """

    def heaviest(self, where: Filter, limit: int, weigh: Weigh) -> list[MemoryId]:
        """List at most *limit* memories that pass *where* by falling weight, equal weights by newer first, then by id.

        Args:
            weigh: Gives the weights; pure, may run in any thread.
        """

    def count(self, where: Filter) -> int:
        """Count the memories that pass *where*."""

    def count_by_scope(self) -> Mapping[ScopeId, int]:
        """Count live memories of each scope that has any."""

    def count_conversations(self, where: Filter) -> int:
        """Count the distinct conversation ids of memories that pass *where*."""

    def locate(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, ScopeId]:
        """Find the scope of memories; unknown ids are left out."""

    def is_current(self, memory_id: MemoryId, revision: int) -> bool:
        """Tell whether the memory is known at *revision* or a later one."""

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Leave these scopes out wherever a filter names no scopes; replaces what was set before."""

    def revisions(self) -> Mapping[MemoryId, int]:
        """Give the revision of every memory known, to compare with the store."""

    def pending(self, limit: int | None = None) -> Sequence[MemoryId]:
        """List the memories without a vector of the current space, oldest first; with *limit* at most so many."""

    def count_pending(self) -> int:
        """Count the memories without a vector of the current space."""

    def turns(self) -> Sequence[MemoryId]:
        """List every memory known by scope, conversation and time, so that what was said in a row stands in a row."""

    def neighbours(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, Neighbours]:
        """Tell what was said before and after memories in their conversations; those without a conversation are left out."""

    def tags(self) -> Sequence[str]:
        """List the tag keys that were ever seen since the last save, those of speakers and conversations too; only grows."""


class SidecarFiles(Protocol):
    """Makes, saves and loads a sidecar; the store it derives from is named by ``database``."""

    def create(self, space: str, dim: int) -> Sidecar:
        """Make an empty sidecar for vectors of one space."""

    def load(self, database: str, space: str, dim: int) -> tuple[Sidecar, bytes]:
        """Load the newest saved generation with the change token up to which it is current.

        Raises:
            SidecarDamagedError: there is none, or it fails its checks, or belongs to another store, space or version.
        """

    def save(self, sidecar: Sidecar, database: str, token: bytes) -> None:
        """Save a generation durably, then remove older ones. What was removed from the sidecar is not in the file.

        Raises:
            SidecarError: it could not be written (a full disk, say); the generation before is still there.
        """


@dataclass(frozen=True, slots=True, eq=False)
class TextRow:
    """What a text index reads of one live memory. ``before`` is what was said just before it, or empty; it is searched with it."""

    row: Row
    text: str
    title: str | None = None
    tags: tuple[str, ...] = ()
    before: str = ""


@dataclass(frozen=True, slots=True)
class Term:
    """One word to look for. ``word`` is its stem, ``idf`` how rare it is, ``weight`` under 1 for what only looks like the word."""

    word: str
    idf: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that must stand in a row, letter for letter; ``weight`` tells how much that they do says."""

    words: tuple[str, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class Wording:
    """A question as the text index reads it.

    ``ideal`` is the rarity of all its words together, those that the index lacks included; ``corrected`` says what
    its misspelt words were taken for, both folded.
    """

    terms: tuple[Term, ...]
    phrases: tuple[Phrase, ...]
    ideal: float
    corrected: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TextHit:
    """One memory found by its words.

    ``score`` is BM25 (0 for a phrase alone), ``coverage`` (0 to 1) the share of the question's words it has, rare
    ones counting more, ``verbatim`` the weight of the best phrase it has, 0 without.
    """

    memory_id: MemoryId
    score: float
    coverage: float
    verbatim: float


class Spelling(enum.Enum):
    """Which words of a question may stand for words that look like them."""

    EXACT = "exact"
    UNKNOWN = "unknown"
    ALL = "all"


class TextIndex(Protocol):
    """Words of all live memories of one store, with what filters ask of them. Methods may be called from several threads.

    What was written is found at once, before it is in the files. The order of writes to one memory is the caller's.
    """

    def upsert(self, rows: Iterable[TextRow]) -> None:
        """Add rows, or replace those of the same ids."""

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Take memories out; unknown ids are ignored. Their words leave the files with the next new generation."""

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Take all memories of a scope out."""

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Leave these scopes out wherever a filter names no scopes."""

    def read(self, question: str, spelling: Spelling) -> Wording:
        """Find the words of *question* in the index."""

    def share(self, wording: Wording, text: str) -> float:
        """Tell which share of the question's words *text* itself has, 0 to 1, rare ones counting more."""

    def search(self, wording: Wording, k: int, where: Filter) -> list[TextHit]:
        """Find the *k* best memories for *wording* among those that pass *where*, and up to as many that have one of its phrases."""

    def is_current(self, memory_id: MemoryId, revision: int) -> bool:
        """Tell whether the memory is known at *revision* or a later one."""

    def revisions(self) -> Mapping[MemoryId, int]:
        """Give the revision at which every memory is known."""

    def count(self, where: Filter | None = None) -> int:
        """Count the memories known; with *where* those that pass it."""

    @property
    def waiting(self) -> int:
        """Changes that are not yet in the files."""

    def flush(self, token: bytes = b"") -> None:
        """Write what waits to the files, with the change token up to which they are then level with the store, empty if unknown.

        Raises:
            SidecarError: it could not be written; it waits on.
        """


class TextFiles(Protocol):
    """Makes and loads text indexes, each a generation of files of its own."""

    def create(self, database: str) -> TextIndex:
        """Make an empty index in a new generation."""

    def load(self, database: str) -> tuple[TextIndex, bytes]:
        """Load the newest generation with the token it was last flushed with.

        Raises:
            SidecarDamagedError: there is none, or it fails its checks, or belongs to another store or version.
        """

    def settle(self, index: TextIndex) -> None:
        """Remove all generations but that of *index*."""

    @property
    def is_unclean(self) -> bool:
        """Tell whether the files may hold words of what was forgotten for good; outlives the process."""

    def mark_unclean(self) -> None:
        """Note that something was forgotten for good, whose words the files may hold."""

    def mark_clean(self) -> None:
        """Note that no file holds words of anything that was forgotten."""
