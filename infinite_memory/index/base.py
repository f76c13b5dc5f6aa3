"""What the engine needs of derived data: rows it knows by our ids, found by filter, time or vector.

A sidecar may be lost and is then rebuilt from the store. It never holds a memory's text, only what filtering and
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
    """One memory found by its vectors: ``score`` is the cosine of its best window, ``window`` that window's number.

    ``windows`` is how many it has in all: the best of many is a luckier draw than the best of one. A tuple, as `TextHit` is: a recall
    makes a hundred of each, and a frozen dataclass takes four times as long to make.
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
    """The memories said just before and just after one, in its conversation, scope and source; None at either end.

    ``conversation`` tells the conversations of one index apart, and is nothing else.
    """

    before: MemoryId | None
    after: MemoryId | None
    conversation: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ImportanceDecay:
    """How memories are weighed by importance and age: a value and not a function, so that any engine can compute by it.

    A weight is ``given * (lasting_share + (1 - lasting_share) * 0.5 ** (age_days / half_life_days))``. ``given`` is the importance
    divided by ``full``, at most 1, or ``unset`` where a memory has none; an age in the future is 0.
    """

    now: dt.datetime
    full: float
    unset: float
    half_life_days: float
    lasting_share: float

    def weight(self, importance: float | None, created_at: dt.datetime) -> float:
        """Return the weight of one memory."""
        age_days = max(0.0, (self.now - created_at) / dt.timedelta(days=1))
        given = self.unset if importance is None else min(1.0, importance / self.full)
        return given * (self.lasting_share + (1 - self.lasting_share) * math.exp2(-age_days / self.half_life_days))


class VectorIndex(Protocol):
    """Derived data over all scopes of one store; every method may be called from several threads.

    Filters apply before ranking: whenever enough memories pass, a search fills ``k``. What was written is found by the next call.
    No method returns more than was asked for, or takes a function, so that it may stand for a server elsewhere.
    `tests/integration/index/conformance` holds what every implementation must do.
    """

    @property
    def is_remote(self) -> bool:
        """Whether calls go to a server, and so are not made on an event loop (`call`)."""

    # writing

    def upsert(self, rows: Iterable[IndexRow]) -> None:
        """Add rows, or replace those whose revision is older than the given one; an older row changes nothing.

        A row of the same revision replaces one that is pending, if it brings vectors of the current space. Vectors of another
        space, of a wrong length or with impossible values are left out: the memory is pending.

        Raises:
            ValueError: an id is not 24 hexadecimal digits.
        """

    def upsert_batch(self, rows: IndexBatch) -> None:
        """Do as `upsert` with rows that are already in columns; others wait meanwhile, a few milliseconds for a thousand."""

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Take memories out; unknown ids are ignored."""

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Take all memories of a scope out."""

    def move_scope(self, source: ScopeId, target: ScopeId) -> None:
        """Let all memories of a scope be of another at once, where that is cheap: their new revisions bring it as well, later."""

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Leave these scopes out wherever a filter names no scopes; replaces what was set before. It is not saved."""

    # finding

    def search(self, vector: Vectors, k: int, where: Filter) -> list[Hit]:
        """Find the memories nearest to *vector* among those that pass *where*.

        Args:
            vector: One float32 row of shape ``(dim,)``, unit length.
            k: At most this many memories; several windows of one memory are one hit.

        Returns:
            Hits by falling score, equal scores by newer first, then by id.

        Raises:
            ValueError: *vector* has another shape.
        """

    def list_page(self, where: Filter, limit: int, cursor: str | None, newest_first: bool) -> Page:
        """List memories that pass *where* by the time they happened, then by id; *newest_first* turns both around.

        Raises:
            InvalidRequestError: *cursor* was not made by this method, or for the other direction.
        """

    def top_by_weight(self, where: Filter, limit: int, decay: ImportanceDecay) -> list[MemoryId]:
        """List at most *limit* memories that pass *where* by falling weight, equal weights by newer first, then by falling id."""

    def count(self, where: Filter) -> int:
        """Count the memories that pass *where*."""

    def count_by_time(self, where: Filter, edges: Sequence[dt.datetime]) -> list[int]:
        """Count the memories that pass *where* between each of *edges*, which rise, and the next (half open)."""

    def count_by_scope(self) -> Mapping[ScopeId, int]:
        """Count the memories of each scope that has any, archived ones too."""

    def count_conversations(self, where: Filter) -> int:
        """Count the distinct conversation ids, ignoring case, of memories that pass *where*."""

    # memories by id

    def locate(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, ScopeId]:
        """Return the scope of memories; unknown ids are left out."""

    def get_revisions(self, memory_ids: Iterable[MemoryId]) -> Mapping[MemoryId, int]:
        """Return the revision at which memories are known; unknown ids are left out."""

    def neighbours(self, memory_ids: Iterable[MemoryId], max_turns: int | None = None) -> Mapping[MemoryId, Neighbours]:
        """Return what was said before and after memories in their conversations, in the same scope and of the same source.

        Left out are those without a conversation, and those of one that has more than *max_turns* memories.
        """

    def pending(self, limit: int) -> Sequence[MemoryId]:
        """List at most *limit* memories without a vector of the current space, oldest first."""

    def count_pending(self) -> int:
        """Count the memories without a vector of the current space."""

    def iter_revisions(self) -> Iterator[Mapping[MemoryId, int]]:
        """Yield the revision of every memory that was known when the first was asked for: some thousand at a time, by rising id."""

    def tags(self, start: int, limit: int) -> Sequence[str]:
        """List tag keys, those of speakers and conversations too, in the order in which they were first seen.

        Those that no memory bears any more may be among them; the list only grows as long as the index is open.

        Args:
            start: The number of keys before the first that is wanted.
        """

    # upkeep

    @property
    def dead_count(self) -> int:
        """Rows of memories that went or were written again, whose room only a compaction gives back."""

    def compact(self, *, all_rows: bool = False) -> int:
        """Return how many dead rows gave their room back: none while they are few, unless *all_rows* asks for each."""

    def close(self) -> None:
        """Release files and connections; what was not saved is lost. May be called twice, and while others search.

        What is called afterwards raises `SidecarNotReadyError`.
        """


class VectorIndexFiles(Protocol):
    """Creates, saves and loads a `VectorIndex`; the store it derives from is named by ``database``.

    Files are one way: a server keeps what is written by itself, and `save` then notes the change token.
    """

    @property
    def is_shared(self) -> bool:
        """Whether other daemons use the same index, so that one of them builds it."""

    def create(self, space: str, dim: int) -> VectorIndex:
        """Return an empty index for vectors of one space; what was saved stays until the next `save`."""

    def load(self, database: str, space: str, dim: int) -> tuple[VectorIndex, bytes]:
        """Load the newest saved generation with the change token up to which it is current.

        Raises:
            SidecarDamagedError: there is none, or it fails its checks, or belongs to another store, space or version.
        """

    def save(self, sidecar: VectorIndex, database: str, token: bytes) -> None:
        """Save a generation durably, then remove older ones. What was removed from the sidecar is not in the file.

        Raises:
            SidecarError: it could not be written (a full disk, say); the generation before is still there.
        """


@dataclass(frozen=True, slots=True, eq=False)
class TextRow:
    """What a text index reads of one live memory. ``before`` is what was said just before it, or empty; it is searched with it."""

    row: IndexRow
    text: str
    title: str | None = None
    tags: tuple[str, ...] = ()
    before: str = ""


@dataclass(frozen=True, slots=True)
class QueryTerm:
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
class ParsedTextQuery:
    """A question as the text index reads it.

    ``max_score`` is the rarity of all its words together, those that the index lacks included; ``corrected`` says what
    its misspelt words were taken for, both folded.
    """

    terms: tuple[QueryTerm, ...]
    phrases: tuple[Phrase, ...]
    max_score: float
    corrected: Mapping[str, str]

    def share(self, text: str) -> float:
        """Return which share of the question's words *text* itself has, 0 to 1, rare ones counting more."""
        own = set(stem_words(tokenize(text)))
        had = sum(term.idf * term.weight for term in self.terms if term.word in own)
        return min(1.0, had / self.max_score) if self.max_score else 0.0


class TextHit(NamedTuple):
    """One memory found by its words.

    ``score`` is BM25 (0 for a phrase alone), ``coverage`` (0 to 1) the share of the question's words it has, rare
    ones counting more, ``exact_phrase`` the weight of the best phrase it has, 0 without.
    """

    memory_id: MemoryId
    score: float
    coverage: float
    exact_phrase: float


class Spelling(enum.Enum):
    """Which words of a question may stand for words that look like them."""

    EXACT = "exact"
    UNKNOWN = "unknown"
    ALL = "all"


class TextIndex(Protocol):
    """Words of all live memories of one store, with what filters ask of them. Methods may be called from several threads.

    What was written is found at once, before it is in the files. The order of writes to one memory is the caller's. For what holds
    of every implementation see `VectorIndex`.
    """

    def upsert(self, rows: Iterable[TextRow]) -> None:
        """Add rows, or replace those of the same ids."""

    def remove(self, memory_ids: Iterable[MemoryId]) -> None:
        """Take memories out; unknown ids are ignored. Their words leave the files with the next new generation."""

    def remove_scope(self, scope_id: ScopeId) -> None:
        """Take all memories of a scope out."""

    def set_archived(self, scope_ids: Iterable[ScopeId]) -> None:
        """Leave these scopes out wherever a filter names no scopes."""

    def read(self, question: str, spelling: Spelling, seen: Filter | None = None) -> ParsedTextQuery:
        """Return the words of *question* as the index knows them.

        Args:
            seen: The memories that tell how rare a word is and what a misspelt one was meant for; None for all of them, which is
                quicker. With it the result is the same whatever other memories there are.
        """

    def search(self, wording: ParsedTextQuery, k: int, where: Filter) -> list[TextHit]:
        """Find the *k* best memories for *wording* among those that pass *where*, by falling score, equal scores by id.

        After them come those that have one of its phrases and are not among them: at most *k* for each phrase.
        """

    def is_current(self, memory_id: MemoryId, revision: int) -> bool:
        """True if the memory is known at *revision* or a later one."""

    def iter_revisions(self) -> Iterator[Mapping[MemoryId, int]]:
        """Yield the revision at which every memory is known; in the order and the batches of `VectorIndex.iter_revisions`."""

    def count(self, where: Filter | None = None) -> int:
        """Count the memories known; with *where* those that pass it."""

    @property
    def buffered(self) -> int:
        """Changes that are not yet in the files."""

    def flush(self, token: bytes = b"") -> None:
        """Write what waits to the files, with the change token up to which they are then level with the store, empty if unknown.

        Raises:
            SidecarError: it could not be written; it waits on.
        """

    def close(self) -> None:
        """Release files and connections; what was not flushed is lost. May be called twice, and while others search.

        What is called afterwards raises `SidecarNotReadyError`.
        """


class TextFiles(Protocol):
    """Creates and loads a `TextIndex`, each a generation of its own."""

    def create(self, database: str) -> TextIndex:
        """Return an empty index in a new generation."""

    def load(self, database: str) -> tuple[TextIndex, bytes]:
        """Load the newest generation with the token it was last flushed with.

        Raises:
            SidecarDamagedError: there is none, or it fails its checks, or belongs to another store or version.
        """

    def settle(self, index: TextIndex) -> None:
        """Remove all generations but that of *index*."""

    @property
    def is_unclean(self) -> bool:
        """True if the files may hold words of what was forgotten for good; outlives the process."""

    def mark_unclean(self) -> None:
        """Note that something was forgotten for good, whose words the files may hold."""

    def mark_clean(self) -> None:
        """Note that no file holds words of anything that was forgotten."""


async def call(index: VectorIndex, work: Callable[[], T]) -> T:
    """Return what *work* does with *index*: in a thread where that is on a server, at once otherwise: a thread's round trip takes longer.

    Raises:
        IndexUnavailableError: the server does not answer.
    """
    return await asyncio.to_thread(work) if index.is_remote else work()
