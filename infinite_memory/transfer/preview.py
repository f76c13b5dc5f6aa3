"""Preview of an import's dry run, beside its counts: the first memories, their target scopes, and their time range.

Only for callers who may see the file's contents: a person at the command line or on the page, never an assistant. Its size is bounded,
whatever the file contains.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from infinite_memory.models import fold
from infinite_memory.transfer.formats import Incoming

MAX_SAMPLES = 5
MAX_TEXT_CHARS = 300
MAX_LABEL_CHARS = 80  # of a tag, a speaker or a name of a scope
MAX_TAGS = 10
MAX_SCOPES = 20  # listed one by one; the memories of further ones are counted together


@dataclass(frozen=True, slots=True)
class Sample:
    """A memory that would be added, clipped to a line or two; ``occurred_at`` is None where the file gives no time."""

    text: str
    scope: str
    occurred_at: dt.datetime | None
    tags: tuple[str, ...] = ()
    speaker: str | None = None


@dataclass(slots=True)
class ScopeCount:
    """How many memories would go into a scope, and whether the import would create it."""

    name: str
    is_new: bool
    count: int = 0


@dataclass(slots=True)
class ImportPreview:
    """Collects what would be added, in the order of the file.

    ``forgotten`` counts those that are soft-forgotten in their origin and would stay so; ``undated`` those that get the time of the
    import.
    """

    samples: list[Sample] = field(default_factory=list)
    forgotten: int = 0
    undated: int = 0
    earliest: dt.datetime | None = None
    latest: dt.datetime | None = None
    in_other_scopes: int = 0
    _scopes: dict[str, ScopeCount] = field(default_factory=dict)

    @property
    def scopes(self) -> list[ScopeCount]:
        """The scopes, largest first."""
        return sorted(self._scopes.values(), key=lambda scope: -scope.count)

    def note(self, memory: Incoming, scope: str, *, is_new: bool) -> None:
        """Record a memory that would be added to *scope*."""
        occurred_at = memory.occurred_at or memory.created_at
        self._count(scope, is_new=is_new)
        self.forgotten += memory.deleted_at is not None
        if occurred_at is None:
            self.undated += 1
        else:
            self.earliest = min(occurred_at, self.earliest or occurred_at)
            self.latest = max(occurred_at, self.latest or occurred_at)
        if len(self.samples) < MAX_SAMPLES:
            tags = tuple(clip(tag, MAX_LABEL_CHARS) for tag in memory.tags[:MAX_TAGS])
            speaker = memory.speaker and clip(memory.speaker, MAX_LABEL_CHARS)
            text = clip(memory.text.strip(), MAX_TEXT_CHARS)
            self.samples.append(Sample(text, clip(scope, MAX_LABEL_CHARS), occurred_at, tags, speaker))

    def _count(self, scope: str, *, is_new: bool) -> None:
        counted = self._scopes.get(fold(scope))
        if counted is None and len(self._scopes) < MAX_SCOPES:
            counted = self._scopes[fold(scope)] = ScopeCount(clip(scope, MAX_LABEL_CHARS), is_new)
        if counted is None:
            self.in_other_scopes += 1
        else:
            counted.count += 1


def clip(text: str, max_chars: int) -> str:
    """Return the beginning of a text, with an ellipsis where something is left out."""
    return text if len(text) <= max_chars else text[: max_chars - 1].rstrip() + "…"
