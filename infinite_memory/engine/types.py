"""The values that callers hand to the engine and get back from it."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infinite_memory.models import Filter, Match, MemoryDetails, MemoryId, MemoryRecord, Scope

if TYPE_CHECKING:
    from infinite_memory.engine.explanation import Explanation

MAX_REPORTED_IDS = 1000  # a scope of a million is not answered with a million ids, nor read to be counted

Progress = Callable[[int, int], None]
"""Takes how much of long work is done, of how much; 0 where nobody knows how much there is."""


@dataclass(frozen=True, slots=True)
class NewMemory(MemoryDetails):
    """A memory that is to be stored. ``scope`` is a name; ``occurred_at`` None means now.

    ``memory_id`` None means a new one; a contract whose clients choose ids gives one that is computed from theirs.
    """

    text: str
    scope: str
    source: str = "conversation"
    tags: tuple[str, ...] = ()
    occurred_at: dt.datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    structured: Any = None
    owners: Mapping[str, str] = field(default_factory=dict)
    memory_id: MemoryId | None = None


@dataclass(frozen=True, slots=True)
class MemoryUpdate(MemoryDetails):
    """What is to change of a stored memory; None leaves a part as it is, ``metadata`` keys set to None go.

    ``whole_metadata`` takes the place of all metadata, nulls in it included. ``no_longer`` names parts (type, confidence) that are
    taken away where they are what the memory's metadata says under the same name.
    """

    text: str | None = None
    tags: tuple[str, ...] | None = None
    source: str | None = None
    occurred_at: dt.datetime | None = None
    metadata: Mapping[str, Any] | None = None
    whole_metadata: Mapping[str, Any] | None = None
    owners: Mapping[str, str] | None = None
    no_longer: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StoreResult:
    """A memory as it was stored. ``pending`` tells that its embedding is still to be made, and why.

    ``is_changed`` is False where an update said what the memory says already, and nothing was written.
    """

    memory: MemoryRecord
    scope: Scope
    pending: str | None = None
    is_changed: bool = True


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """A memory that is live again, or was all along: then ``is_restored`` is False."""

    memory: MemoryRecord
    is_restored: bool


@dataclass(frozen=True, slots=True)
class RecallResult:
    """Ranked hits, best first, and the scopes that were searched. ``note`` tells what could not be used, and why.

    ``explanations`` are those of the hits, where they were asked for.
    """

    matches: tuple[Match, ...]
    scopes: tuple[Scope, ...]
    note: str | None = None
    explanations: Mapping[MemoryId, Explanation] = field(default_factory=dict)


class Mode(enum.Enum):
    """What a recall goes by. All of them know typing slips but ``text``, which takes words as they are."""

    HYBRID = "hybrid"
    SEMANTIC = "semantic"
    TEXT = "text"
    FUZZY = "fuzzy"


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """A page of memories in the order that was asked for. ``note`` says what it may lack, where the index is behind."""

    memories: tuple[MemoryRecord, ...]
    total: int
    next_cursor: str | None
    scopes: tuple[Scope, ...]
    note: str = ""


class ForgetMode(enum.Enum):
    """How far forgetting goes: hidden until it is restored, or removed for good."""

    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True, slots=True)
class ForgetTarget:
    """What is to be forgotten; the parts that are given narrow (AND), at least one is.

    A target of ``scope`` alone is the scope itself. ``most_texts`` is of how many a dry run tells the text.
    """

    memory_id: MemoryId | None = None
    scope: str | None = None
    tag: str | None = None
    query: str | None = None
    min_confidence: float = 0.75
    limit: int = 10
    most_texts: int = MAX_REPORTED_IDS


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """What was forgotten, or would be. ``removed_scope`` is set when the scope itself went (or was archived).

    ``hidden_at`` is when memories were hidden. ``doubles`` are those that were not named, but hidden as merged into one that was.
    """

    memory_ids: tuple[MemoryId, ...]
    texts: Mapping[MemoryId, str] = field(default_factory=dict)
    removed_scope: Scope | None = None
    note: str | None = None
    doubles: Set[MemoryId] = frozenset()
    hidden_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class ScopedFilter:
    """A filter as callers know it: scopes by name. ``scopes`` None means every scope that is not archived.

    With ``lenient`` a scope that does not exist (any more) is left out instead of being an error. With ``is_apart`` a search knows the
    words and names of what passes and nothing else, so that it tells nothing about other memories.
    """

    scopes: tuple[str, ...] | None = None
    rest: Filter = field(default_factory=Filter)
    lenient: bool = False
    is_apart: bool = False
