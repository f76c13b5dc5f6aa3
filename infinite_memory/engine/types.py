"""Values that callers pass to the engine and get back."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from infinite_memory.models import Filter, Match, MemoryDetails, MemoryId, MemoryRecord, Scope

if TYPE_CHECKING:
    from infinite_memory.engine.explanation import Explanation

MAX_REPORTED_IDS = 1000  # a scope with a million memories is not reported with a million ids, nor read to be counted

Progress = Callable[[int, int], None]
"""Called with the number done and the total; 0 if the total is unknown."""


@dataclass(frozen=True, slots=True)
class NewMemory(MemoryDetails):
    """A memory to store. ``scope`` is a name; ``occurred_at`` None means now.

    ``memory_id`` None means a new id; contracts whose clients choose ids derive it from theirs.
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
    """Changes to a stored memory; None leaves a part unchanged, ``metadata`` keys set to None are removed.

    ``whole_metadata`` replaces all metadata, nulls included. ``no_longer`` names parts (type, confidence) to clear if they equal the
    metadata entry of the same name.
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
    """A stored memory. ``pending`` is the reason why it is not embedded yet, None if it is.

    ``is_changed`` is False if an update had no effect and nothing was written.
    """

    memory: MemoryRecord
    scope: Scope
    pending: str | None = None
    is_changed: bool = True


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """A restored memory; ``is_restored`` is False if it was live already."""

    memory: MemoryRecord
    is_restored: bool


@dataclass(frozen=True, slots=True)
class RecallResult:
    """Ranked hits, best first, and the scopes that were searched. ``note`` says what could not be used, and why.

    ``explanations`` are those of the hits, if requested.
    """

    matches: tuple[Match, ...]
    scopes: tuple[Scope, ...]
    note: str | None = None
    explanations: Mapping[MemoryId, Explanation] = field(default_factory=dict)


class Mode(enum.Enum):
    """Search mode of a recall. All modes tolerate typos except ``text``, which matches words as written."""

    HYBRID = "hybrid"
    SEMANTIC = "semantic"
    TEXT = "text"
    FUZZY = "fuzzy"


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """A page of memories in the requested order. ``note`` says what may be missing if the index is behind."""

    memories: tuple[MemoryRecord, ...]
    total: int
    next_cursor: str | None
    scopes: tuple[Scope, ...]
    note: str = ""


class ForgetMode(enum.Enum):
    """Soft: hidden until restored; hard: permanently removed."""

    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True, slots=True)
class ForgetTarget:
    """What to forget; the given parts, at least one, are combined with AND.

    A target with only ``scope`` means the scope itself. ``max_texts`` limits the number of texts in a dry run.
    """

    memory_id: MemoryId | None = None
    scope: str | None = None
    tag: str | None = None
    query: str | None = None
    min_confidence: float = 0.75
    limit: int = 10
    max_texts: int = MAX_REPORTED_IDS


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """What was forgotten, or would be. ``removed_scope`` is set if the scope itself was removed or archived.

    ``hidden_at`` is when memories were hidden. ``doubles`` are hidden memories outside the target that were merged into one of it.
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

    With ``lenient`` a missing scope is ignored instead of being an error. With ``is_apart`` a search uses word statistics and names of
    the matching memories only, so that it reveals nothing about others.
    """

    scopes: tuple[str, ...] | None = None
    rest: Filter = field(default_factory=Filter)
    lenient: bool = False
    is_apart: bool = False
