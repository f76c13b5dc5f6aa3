"""What a reader gives: memories to be, and what could not be read."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_MILLISECONDS_FROM = 100_000_000_000  # seconds of that size are in the year 5138; milliseconds are in 1973


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
    archived_at: dt.datetime | None = None
    scope_description: str = ""


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
    except (ValueError, OverflowError, OSError):
        return None
    return found.replace(tzinfo=dt.UTC) if found.tzinfo is None else found.astimezone(dt.UTC)


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
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def load_json(path: Path) -> Any:
    """Read a JSON file; None when it is none."""
    try:
        return json.loads(path.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError):
        return None


def first_object(path: Path) -> dict[str, Any]:
    """Read the first line of a JSON Lines file; an empty object when it is none."""
    try:
        with path.open(encoding="utf-8-sig") as lines:
            return object_of(next(lines, ""))
    except (OSError, UnicodeDecodeError):
        return {}
