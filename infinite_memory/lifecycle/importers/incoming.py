"""What a reader gives: memories to be, and what could not be read."""

from __future__ import annotations

import datetime as dt
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MILLISECONDS_FROM = 100_000_000_000  # seconds of that size are in the year 5138; milliseconds are in 1973


_LONGEST_FIRST = 32 << 20  # of a line that may tell what a file is
_OUR_ID = re.compile(r"[0-9a-f]{24}")


@dataclass(frozen=True, slots=True)
class Incoming:
    """A memory to be. ``key`` names it within its origin, the same each time it is read; ``memory_id`` is one of ours."""

    key: str
    text: str
    scope: str | None = None
    memory_id: str | None = None
    occurred_at: dt.datetime | None = None
    created_at: dt.datetime | None = None
    updated_at: dt.datetime | None = None
    deleted_at: dt.datetime | None = None
    source: str = "import"
    tags: tuple[str, ...] = ()
    type: str | None = None
    title: str | None = None
    importance: float | None = None
    confidence: float | None = None
    status: str | None = None
    speaker: str | None = None
    conversation_id: str | None = None
    owners: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    structured: Any = None
    occurrences: tuple[dt.datetime, ...] = ()
    revision: int | None = None
    is_pruned: bool = False


@dataclass(frozen=True, slots=True)
class IncomingScope:
    """A scope to be."""

    name: str
    description: str = ""
    created_at: dt.datetime | None = None
    archived_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class IncomingVersion:
    """An earlier version of a memory that bears one of our ids: what it was then, and that version's number."""

    memory: Incoming
    revision: int


@dataclass(frozen=True, slots=True)
class IncomingFact:
    """A fact to be, under an id of ours."""

    fact_id: str
    scope: str
    subject: str
    predicate: str
    object: str
    valid_from: dt.datetime
    valid_to: dt.datetime | None
    confidence: float
    provenance: str | None


@dataclass(frozen=True, slots=True)
class IncomingLink:
    """A link to be, between memories that bear ids of ours."""

    scope: str
    from_id: str
    to_id: str
    relation: str
    created_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Refused:
    """An entry that is not taken: where it stands, and why."""

    where: str
    why: str


def instant_of(value: Any) -> dt.datetime | None:
    """Read an instant: RFC 3339, or seconds or milliseconds since 1970; without an offset it is UTC. None when it is none."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, int | float):
            return dt.datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS_FROM else value, dt.UTC)
        found = dt.datetime.fromisoformat(str(value).strip())
        return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)
    except (ValueError, OverflowError, OSError):
        return None


def is_our_id(text: str) -> bool:
    """Tell whether a text is an id such as ours: 24 hexadecimal digits."""
    return _OUR_ID.fullmatch(text) is not None


def tags_of(value: Any) -> tuple[str, ...]:
    """Read tags: a list, or one text with commas between them."""
    listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(dict.fromkeys(str(tag).strip() for tag in listed if str(tag).strip()))


def text_of(value: Any) -> str | None:
    """Give a text that says something, else None."""
    return value if isinstance(value, str) and value.strip() else None


def object_of(value: Any) -> dict[str, Any]:
    """Give an object, also one that is written as JSON in a text; else an empty one."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    return value if isinstance(value, dict) else {}


def load_json(path: Path) -> Any:
    """Read a JSON file; None when it is none. The last one is kept until `forget_files`, for several look at it."""
    try:
        known = path.stat()
        return _parsed(path, known.st_mtime_ns, known.st_size)[0]
    except OSError:
        return None


def fault_of_json(path: Path) -> str | None:
    """Tell why a file is no JSON; None when it is."""
    known = path.stat()
    return _parsed(path, known.st_mtime_ns, known.st_size)[1]


def forget_files() -> None:
    """Let go of what `load_json` kept."""
    _parsed.cache_clear()


@functools.lru_cache(maxsize=1)
def _parsed(path: Path, _changed: int, _size: int) -> tuple[Any, str | None]:
    try:
        return json.loads(path.read_text("utf-8-sig")), None
    except json.JSONDecodeError as problem:
        return None, f"is no JSON: line {problem.lineno}, column {problem.colno}: {problem.msg}"
    except (ValueError, RecursionError) as problem:
        return None, "is nested too deep" if isinstance(problem, RecursionError) else "is no text in UTF-8"


def first_object(path: Path) -> dict[str, Any]:
    """Read the first line of a JSON Lines file; an empty object when it is none."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            return object_of(lines.readline(_LONGEST_FIRST))
    except (OSError, UnicodeDecodeError):
        return {}


Entry = Incoming | IncomingScope | IncomingVersion | IncomingFact | IncomingLink | Refused
