"""The ``mem://`` addresses: taken apart, and what stands behind them.

mem://item/{id}               one memory, whole
mem://recent?limit=           the newest
mem://by-tags/{tags}?limit=   the newest that bear one of some tags (commas between)
mem://by-type/{type}?limit=   the newest of a type
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qs, unquote, urlsplit

from infinite_memory.contracts.fields import Json
from infinite_memory.engine.watch import Event
from infinite_memory.errors import InvalidRequestError, NotFoundError, shown

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
    """An address, taken apart and decoded; ``name`` is empty for ``recent``, ``limit`` as it was written."""

    kind: str
    name: str
    limit: str | None


def parse_address(uri: str) -> Address:
    """Take an address apart; encoded and plain characters mean the same.

    Raises:
        NotFoundError: it is none of ours.
    """
    try:
        parts = urlsplit(uri)
        asked = parse_qs(parts.query, keep_blank_values=True).get("limit")
    except ValueError:
        raise NotFoundError(shown(uri)) from None
    name = unquote(parts.path.removeprefix("/")).strip()
    named = parts.netloc in ("item", "by-tags", "by-type")
    if parts.scheme != "mem" or named is not bool(name) or not (named or parts.netloc == "recent"):
        raise NotFoundError(shown(uri))
    return Address(parts.netloc, name, asked[-1] if asked else None)


def split_tags(name: str) -> tuple[str, ...]:
    """Take the tags of an address apart.

    Raises:
        InvalidRequestError: there are none.
    """
    tags = tuple(dict.fromkeys(one.strip() for one in name.split(",") if one.strip()))
    if not tags:
        raise InvalidRequestError("uri", "tags were expected, with commas between them")
    return tags


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A change as subscribers see it."""

    event: Event

    @property
    def is_list(self) -> bool:
        return False

    def touches(self, uri: str) -> bool:
        try:
            address = parse_address(uri)
        except NotFoundError:
            return False
        return address.kind != "item" or address.name == self.event.memory_id
