"""The ``mem://`` URIs, parsing and topics.

mem://item/{id}               one memory, complete
mem://recent?limit=           the newest
mem://by-tags/{tags}?limit=   the newest that have one of some tags (comma-separated)
mem://by-type/{type}?limit=   the newest of a type
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.mcp import ANYTHING, parse_query
from infinite_memory.engine.events import Event
from infinite_memory.errors import InvalidRequestError, NotFoundError, truncated_repr

JSON = "application/json"
DEFAULT_LIMIT = 20

RECENT: Json = {"uri": "mem://recent", "name": "Recent memories",
                "description": f"The {DEFAULT_LIMIT} newest memories", "mimeType": JSON}  # fmt: skip

TEMPLATES: list[Json] = [
    {"uriTemplate": "mem://item/{id}", "name": "Memory by id", "description": "One memory, whole", "mimeType": JSON},
    {"uriTemplate": "mem://recent{?limit}", "name": "Recent memories", "description": "The newest memories",
     "mimeType": JSON},
    {"uriTemplate": "mem://by-tags/{tags}{?limit}", "name": "Memories by tags",
     "description": "The newest memories that bear one of the tags, with commas between them", "mimeType": JSON},
    {"uriTemplate": "mem://by-type/{type}{?limit}", "name": "Memories by type",
     "description": "The newest memories of a type", "mimeType": JSON},
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed and decoded URI; ``name`` is empty for ``recent``, ``limit`` as it was written.

    ``warnings`` name unknown query parameters.
    """

    kind: str
    name: str
    limit: str | None
    warnings: tuple[str, ...] = ()


def parse_address(uri: str) -> Address:
    """Parse a URI; percent-encoded and plain characters are equivalent.

    Raises:
        NotFoundError: it is not one of ours.
    """
    try:
        parts = urlsplit(uri)
        limit, warnings = parse_query(parts.query, has_limit=parts.netloc != "item")
    except ValueError:
        raise NotFoundError(truncated_repr(uri)) from None
    name = unquote(parts.path.removeprefix("/"))
    has_name = parts.netloc in ("item", "by-tags", "by-type")
    if parts.scheme != "mem" or has_name is not bool(name.strip()) or not (has_name or parts.netloc == "recent"):
        raise NotFoundError(truncated_repr(uri))
    return Address(parts.netloc, name, limit, warnings)


def split_tags(name: str) -> tuple[str, ...]:
    """Parse the tags of a URI.

    Raises:
        InvalidRequestError: there are none.
    """
    tags = tuple(dict.fromkeys(tag.strip() for tag in name.split(",") if tag.strip()))
    if not tags:
        raise InvalidRequestError("uri", "tags were expected, with commas between them")
    return tags


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A change for subscribers."""

    event: Event

    @property
    def is_list(self) -> bool:
        return False

    @property
    def topics(self) -> list[str]:
        return [ANYTHING, *([f"item {self.event.memory_id}"] if self.event.memory_id is not None else [])]


def get_topic(uri: str) -> str | None:
    """Return the topic of a URI, as in `MemoryChange.topics`; None if it is not one of ours."""
    try:
        address = parse_address(uri)
    except NotFoundError:
        return None
    return f"item {address.name}" if address.kind == "item" else ANYTHING
