"""What a reader yields: incoming memories, and entries that could not be read."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infinite_memory.models import MemoryDetails
from infinite_memory.transfer.formats.json_stream import Json, check_shape, parse

_UNITS = ((1e11, 1.0), (1e14, 1e3), (1e17, 1e6), (1e20, 1e9))
"""Up to which size a number is seconds, milliseconds, micro- or nanoseconds since 1970: 1e11 seconds are in the year 5138, so many
milliseconds in 1973."""
_DIGITS = re.compile(r"[+-]?\d{9,20}(?:\.\d{1,9})?")
TIME_EXPECTED = "a time such as 2024-03-01T09:30:00Z"
_OUR_ID = re.compile(r"[0-9a-f]{24}")


@dataclass(frozen=True, slots=True)
class Incoming(MemoryDetails):
    """A memory to import.

    ``key`` identifies it within its origin, stable between reads; ``memory_id`` is one of our ids. ``where`` is its position for
    people. ``is_undated`` means that its origin gives no time for it, so that ``occurred_at`` (a file's time, say) is no part of its id.
    """

    key: str
    text: str
    where: str = ""
    is_undated: bool = False
    scope: str | None = None
    memory_id: str | None = None
    occurred_at: dt.datetime | None = None
    created_at: dt.datetime | None = None
    updated_at: dt.datetime | None = None
    deleted_at: dt.datetime | None = None
    source: str = "import"
    tags: tuple[str, ...] = ()
    owners: Mapping[str, str] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    structured: Any = None
    occurrences: tuple[dt.datetime, ...] = ()
    revision: int | None = None
    is_pruned: bool = False


@dataclass(frozen=True, slots=True)
class IncomingScope:
    """A scope to import."""

    name: str
    description: str = ""
    created_at: dt.datetime | None = None
    archived_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class IncomingVersion:
    """An earlier version of a memory with one of our ids, and that version's number."""

    memory: Incoming
    revision: int


@dataclass(frozen=True, slots=True)
class IncomingFact:
    """A fact to import, with one of our ids."""

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
    """A link to import, between memories with our ids."""

    scope: str
    from_id: str
    to_id: str
    relation: str
    created_at: dt.datetime


@dataclass(frozen=True, slots=True)
class Refused:
    """A skipped entry: its position and the reason, neither of which quotes it; ``value`` may, and is shown to its owner only."""

    where: str
    reason: str
    count: int = 1
    value: str | None = None


def to_instant(value: Any) -> dt.datetime | None:
    """Read an instant: RFC 3339, or seconds (or smaller units) since 1970; without an offset it is UTC. None when it is none."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
            value = float(value)
        if isinstance(value, int | float):
            divisor = next((divisor for limit, divisor in _UNITS if abs(value) < limit), None)
            return None if divisor is None else dt.datetime.fromtimestamp(value / divisor, dt.UTC)
        instant = dt.datetime.fromisoformat(str(value).strip())
        return instant.replace(tzinfo=dt.UTC) if instant.tzinfo is None else instant.astimezone(dt.UTC)
    except (ValueError, OverflowError, OSError):
        return None


class BadValueError(Exception):
    """A field of an entry cannot be read; the entry is refused, because any other value would be invented."""

    def __init__(self, name: str, value: object, expected: str) -> None:
        super().__init__(f"its {name} is not {expected}")
        self.value = repr(value)[:80]


def get_time(record: Mapping[str, Any], *names: str) -> dt.datetime | None:
    """Return the first of the fields *names* that is not empty; None if all are.

    Raises:
        BadValueError: it is not a time.
    """
    for name in names:
        value = record.get(name)
        if value is None or (isinstance(value, str) and not value.strip()):
            continue
        instant = to_instant(value)
        if instant is None:
            raise BadValueError(name, value, TIME_EXPECTED)
        return instant
    return None


def is_our_id(text: str) -> bool:
    """True if a text has the form of our ids: 24 hexadecimal digits."""
    return _OUR_ID.fullmatch(text) is not None


def to_tags(value: Any) -> tuple[str, ...]:
    """Read tags: a list, also one that is written as JSON in a text, or one text with commas between them."""
    if isinstance(value, str):
        parsed = _parsed(value) if value.lstrip().startswith("[") else None
        value = parsed if isinstance(parsed, list) else value.split(",")
    listed = value if isinstance(value, list) else [value] if isinstance(value, int | float) else []
    return tuple(dict.fromkeys(text for tag in listed if tag is not None and (text := str(tag).strip())))


def to_text(value: Any) -> str | None:
    """Return a text that is not blank, else None."""
    return value if isinstance(value, str) and value.strip() else None


def to_object(value: Any) -> Json:
    """Return an object, also one that is written as JSON in a text; else an empty one."""
    if isinstance(value, str):
        value = _parsed(value)
    return value if isinstance(value, dict) else {}


def to_metadata(value: Any) -> Json:
    """Read metadata: an object, also as JSON in a text; anything else that says something is kept under the name ``metadata``."""
    parsed = _parsed(value) if isinstance(value, str) else value
    if isinstance(parsed, dict):
        return parsed
    return {} if value is None or value in ("", []) else {"metadata": value}


def _parsed(text: str) -> Any:
    """Parse JSON in a text; None when it is none, or too large or deep to be read."""
    try:
        return parse(text) if check_shape(text.encode("utf-8", "surrogatepass")) is None else None
    except ValueError:
        return None


def to_list(value: Any) -> list[Any]:
    """Return a list, an empty one for anything else."""
    return value if isinstance(value, list) else []


Entry = Incoming | IncomingScope | IncomingVersion | IncomingFact | IncomingLink | Refused
