"""The index interfaces: memories, identified by our ids, are found by filter, time, vector or words.

An index may be lost and is then rebuilt from the store. A vector index never holds a memory's text, only what filtering and
ranking need.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import enum
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from infinite_memory.models import Filter, IndexBatch, IndexRow, MemoryId, ScopeId
from infinite_memory.text.stemmer import stem_words
from infinite_memory.text.tokenizer import tokenize

if TYPE_CHECKING:
    from infinite_memory.models import Vectors

T = TypeVar("T")


class Hit(NamedTuple):
    """A memory found by vector: ``score`` is the cosine similarity of its best window, ``window`` the number of that window.

    ``windows`` is its number of windows: the best of many scores higher by chance than the only one. A tuple, as `TextHit` is: a recall
    creates a hundred of each, and a frozen dataclass takes four times as long to create.
    """

    memory_id: MemoryId
    score: float
    window: int
    windows: int = 1


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a listing: ids in order, the number of memories that match the filter, the cursor of the next page."""

    memory_ids: tuple[MemoryId, ...]
    total: int
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The memories just before and just after one, in its conversation, scope and source; None at either end.

    ``conversation`` is an opaque key that identifies a conversation within one index.
    """

    before: MemoryId | None
    after: MemoryId | None
    conversation: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ImportanceDecay:
    """How memories are weighed by importance and age: a value and not a function, so that any engine can evaluate it.

    A weight is ``given * (lasting_share + (1 - lasting_share) * 0.5 ** (age_days / half_life_days))``. ``given`` is the importance
    divided by ``full``, at most 1, or ``unset`` if a memory has none; a negative age counts as 0.
    """

    now: dt.datetime
    full: float
    unset: float
    half_life_days: float
    lasting_share: float

    def weight(self, importance: float | None, created_at: dt.datetime) -> float:
        """Return the weight of one memory."""
        age_days = max(0.0, (self.now - created_at) / dt.timedelta(days=1))
        relative = self.unset if importance is None else min(1.0, importance / self.full)
        return relative * (self.lasting_share + (1 - self.lasting_share) * math.exp2(-age_days / self.half_life_days))


class VectorIndex(Protocol):
    """An index over all scopes of one store. Methods may be called from several threads.

    Filters apply before ranking: if enough memories match, a search returns ``k`` hits. A write is visible to the next call. No method
    returns more than was requested, or takes a function, so that an implementation may be a remote server.
    `tests/integration/index/conformance` specifies what every implementation must do.
    """

    @property
    def is_remote(self) -> bool:
        """Whether calls go to a server and so must not be made on an event loop (see `call`)."""

    # writing

    def upsert(self, rows: Iterable[IndexRow]) -> None:
        """Add rows, or replace those with an older revision; a row older than the stored one is ignored.

        A row of the same revision replaces a pending one if it brings vectors of the current space. Vectors of another space, of the wrong
        length or with invalid values are dropped, and the memory is pending.

        Raises:
            ValueError: an id is not 24 hexadecimal digits.
        """

    def upsert_batch(self, rows: IndexBatch) -> None:
        """Like `upsert`, with rows already in columns; blocks other calls while it runs, a few milliseconds for a thousand rows."""

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Remove memories; unknown ids are ignored."""

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Remove all memories of a scope."""

    def move_scope(self, source: ScopeId, target: ScopeId) -> None:
        """Move all memories of a scope to another at once, if that is cheap: their new revisions do the same later."""

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Exclude these scopes if a filter names no scopes; replaces the previous set. Not saved."""

    # finding

    def search(self, vector: Vectors, k: int, where: Filter) -> list[Hit]:
        """Return the memories nearest to *vector* among those that match *where*.

        Args:
            vector: One float32 row of shape ``(dim,)``, unit length.
            k: At most this many memories; several windows of one memory are one hit.

        Returns:
            Hits by descending score; equal scores newest first, then by id.

        Raises:
            ValueError: *vector* has another shape.
        """

    def list_page(self, where: Filter, limit: int, cursor: str | None, newest_first: bool) -> Page:
        """List memories that match *where* by time of occurrence, then by id; *newest_first* reverses both.

        Raises:
            InvalidRequestError: *cursor* was not returned by this method, or belongs to the other direction.
        """

    def top_by_weight(self, where: Filter, limit: int, decay: ImportanceDecay) -> list[MemoryId]:
        """List at most *limit* memories that match *where* by descending weight; equal weights newest first, then by descending id."""

    def count(self, where: Filter) -> int:
        """Count the memories that match *where*."""

    def count_by_time(self, where: Filter, edges: Sequence[dt.datetime]) -> list[int]:
        """Count the memories that match *where* in each half-open interval between consecutive *edges*, which are ascending."""

    def count_by_scope(self) -> Mapping[ScopeId, int]:
        """Count the memories of each non-empty scope, archived ones included."""

    def count_conversations(self, where: Filter) -> int:
        """Count the distinct conversation ids, ignoring case, of memories that match *where*."""

    # memories by id

    def locate(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, ScopeId]:
        """Return the scopes of memories; unknown ids are omitted."""

    def get_revisions(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, int]:
        """Return the indexed revisions of memories; unknown ids are omitted."""

    def neighbours(self, memory_ids: Iterable[MemoryId], max_turns: int | None = None) -> Mapping[MemoryId, Neighbours]:
        """Return the memories before and after each one in its conversation, in the same scope and of the same source.

        Memories without a conversation, or in one of more than *max_turns* memories, are omitted.
        """

    def pending(self, limit: int) -> Sequence[MemoryId]:
        """List at most *limit* memories without a vector of the current space, oldest first."""

    def count_pending(self) -> int:
        """Count the memories without a vector of the current space."""

    def iter_revisions(self) -> Iterator[Mapping[MemoryId, int]]:
        """Yield the revision of every memory indexed when iteration starts, in batches of some thousand, by ascending id."""

    def tags(self, start: int, limit: int) -> Sequence[str]:
        """List tag keys, those of speakers and conversations included, in order of first use.

        Tags that no memory has any more may be among them; the list only grows while the index is open.

        Args:
            start: Number of keys to skip.
        """

    # upkeep

    @property
    def dead_count(self) -> int:
        """Rows of removed or rewritten memories, whose space only a compaction reclaims."""

    def compact(self, *, all_rows: bool = False) -> int:
        """Return how many dead rows were reclaimed: none while they are few, unless *all_rows* is set."""

    def close(self) -> None:
        """Release files and connections; what was not saved is lost. May be called twice, and while others search.

        What is called afterwards raises `SidecarNotReadyError`.
        """


class VectorIndexFiles(Protocol):
    """Creates, saves and loads a `VectorIndex`; ``database`` identifies the store it derives from.

    Files are one way to do so: a server persists writes itself, and `save` then records the change token.
    """

    @property
    def is_shared(self) -> bool:
        """Whether other daemons use the same index, in which case one of them builds it."""

    def create(self, space: str, dim: int) -> VectorIndex:
        """Return an empty index for vectors of one space; the saved one is kept until the next `save`."""

    def load(self, database: str, space: str, dim: int) -> tuple[VectorIndex, bytes]:
        """Return the newest saved generation and the change token up to which it is current.

        Raises:
            SidecarDamagedError: there is none, it fails its checks, or it belongs to another store, space or version.
        """

    def save(self, sidecar: VectorIndex, database: str, token: bytes) -> None:
        """Save a generation durably, then remove older ones. Removed memories are not in the file.

        Raises:
            SidecarError: it could not be written (disk full, for example); the previous generation is kept.
        """


@dataclass(frozen=True, slots=True, eq=False)
class TextRow:
    """What a text index reads of one live memory. ``before`` is the previous turn, or empty; it is searched along with the text."""

    row: IndexRow
    text: str
    title: str | None = None
    tags: tuple[str, ...] = ()
    before: str = ""


@dataclass(frozen=True, slots=True)
class QueryTerm:
    """One search term: ``word`` is its stem, ``idf`` its rarity, ``weight`` is below 1 for a fuzzy match."""

    word: str
    idf: float
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that must follow each other exactly; ``weight`` is the relevance of a match."""

    words: tuple[str, ...]
    weight: float


@dataclass(frozen=True, slots=True)
class ParsedTextQuery:
    """A question as the text index reads it.

    ``max_score`` is the summed rarity of all its words, those missing from the index included; ``corrected`` maps misspelt words to
    their corrections, both folded.
    """

    terms: tuple[QueryTerm, ...]
    phrases: tuple[Phrase, ...]
    max_score: float
    corrected: Mapping[str, str]

    def share(self, text: str) -> float:
        """Return the share of the question's words that *text* itself contains, 0 to 1, weighted by rarity."""
        own = set(stem_words(tokenize(text)))
        had = sum(term.idf * term.weight for term in self.terms if term.word in own)
        return min(1.0, had / self.max_score) if self.max_score else 0.0


class TextHit(NamedTuple):
    """A memory found by its words.

    ``score`` is BM25 (0 for a phrase alone), ``coverage`` (0 to 1) the share of the question's words it contains, weighted by rarity,
    ``exact_phrase`` the weight of the best phrase it contains, 0 if none.
    """

    memory_id: MemoryId
    score: float
    coverage: float
    exact_phrase: float


class Spelling(enum.Enum):
    """Which words of a question may also match words of similar spelling."""

    EXACT = "exact"
    UNKNOWN = "unknown"
    ALL = "all"


class TextIndex(Protocol):
    """The words of all live memories of one store, and the fields that filters need. Methods may be called from several threads.

    A write is visible at once, before it is in the files. The caller orders the writes to one memory. For what every implementation
    must do see `VectorIndex`.
    """

    def upsert(self, rows: Iterable[TextRow]) -> None:
        """Add rows, or replace those with the same ids."""

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Remove memories; unknown ids are ignored. Their words leave the files with the next new generation."""

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Remove all memories of a scope."""

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Exclude these scopes if a filter names no scopes."""

    def read(self, question: str, spelling: Spelling, visible: Filter | None = None) -> ParsedTextQuery:
        """Parse *question* into the terms of the index.

        Args:
            visible: The memories that determine word rarity and spelling corrections; None for all of them, which is faster. With it the
                result does not depend on other memories.
        """

    def search(self, wording: ParsedTextQuery, k: int, where: Filter) -> list[TextHit]:
        """Return the *k* best memories for *wording* among those that match *where*, by descending score, equal scores by id.

        Further memories that contain one of its phrases follow: at most *k* for each phrase.
        """

    def is_current(self, memory_id: MemoryId, revision: int) -> bool:
        """True if the memory is indexed at *revision* or a later one."""

    def iter_revisions(self) -> Iterator[Mapping[MemoryId, int]]:
        """Yield the indexed revision of every memory, in the order and batches of `VectorIndex.iter_revisions`."""

    def count(self, where: Filter | None = None) -> int:
        """Count the indexed memories, or those that match *where*."""

    @property
    def buffered(self) -> int:
        """Changes that are not yet in the files."""

    def flush(self, token: bytes = b"") -> None:
        """Write buffered changes to the files, with the change token up to which they are then current, empty if unknown.

        Raises:
            SidecarError: they could not be written; they stay buffered.
        """

    def close(self) -> None:
        """Release files and connections; what was not flushed is lost. May be called twice, and while others search.

        What is called afterwards raises `SidecarNotReadyError`.
        """


class TextFiles(Protocol):
    """Creates and loads a `TextIndex`; each has its own generation."""

    def create(self, database: str) -> TextIndex:
        """Return an empty index in a new generation."""

    def load(self, database: str) -> tuple[TextIndex, bytes]:
        """Return the newest generation and the token it was last flushed with.

        Raises:
            SidecarDamagedError: there is none, it fails its checks, or it belongs to another store or version.
        """

    def settle(self, index: TextIndex) -> None:
        """Remove all generations except that of *index*."""

    @property
    def is_unclean(self) -> bool:
        """True if the files may still contain words of hard-forgotten memories; survives a restart."""

    def mark_unclean(self) -> None:
        """Record that a memory was hard-forgotten whose words the files may still contain."""

    def mark_clean(self) -> None:
        """Record that no file contains words of forgotten memories."""


async def call(index: VectorIndex, func: Callable[[], T]) -> T:
    """Run *func* on *index* and return its result: in a thread if the index is remote, else directly, which is faster than a thread.

    Raises:
        IndexUnavailableError: the server does not answer.
    """
    return await asyncio.to_thread(func) if index.is_remote else func()
