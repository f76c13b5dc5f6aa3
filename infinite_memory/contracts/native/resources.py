"""Memories as MCP resources: what stands behind which address.

memory://item/{memory_id}       one memory, whole, with what it said before
memory://scope/{scope}?limit=   the newest of a scope
memory://tag/{tag}?limit=       the newest that bear a tag
memory://recent?limit=          the newest of all
memory://stats                  figures
"""

from __future__ import annotations

import json
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, unquote, urlsplit

from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.mcp import INTERNAL_ERROR, RpcError
from infinite_memory.contracts.native.tools import NOTICE
from infinite_memory.engine.watch import Event
from infinite_memory.errors import InvalidRequestError, NotFoundError, shown
from infinite_memory.models import fold

Ask = Callable[..., Awaitable[Json]]

DEFAULT_LIMIT = 20
MOST = 100
_JSON = "application/json"

TEMPLATES: list[Json] = [
    {"uriTemplate": "memory://item/{memory_id}", "name": "memory", "title": "A memory",
     "description": "One memory, whole, with its earlier versions", "mimeType": _JSON},
    {"uriTemplate": "memory://scope/{scope}{?limit}", "name": "scope", "title": "A scope",
     "description": "The newest memories of a scope", "mimeType": _JSON},
    {"uriTemplate": "memory://tag/{tag}{?limit}", "name": "tag", "title": "A tag",
     "description": "The newest memories that bear a tag, in every scope", "mimeType": _JSON},
    {"uriTemplate": "memory://recent{?limit}", "name": "recent-memories", "title": "Recent memories",
     "description": "The newest memories of every scope", "mimeType": _JSON},
]  # fmt: skip

_FIXED: list[Json] = [
    {"uri": "memory://recent", "name": "recent", "title": "Recent memories",
     "description": f"The {DEFAULT_LIMIT} newest memories of every scope", "mimeType": _JSON},
    {"uri": "memory://stats", "name": "stats", "title": "Statistics",
     "description": "How much is remembered, and the state of the parts", "mimeType": _JSON},
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Address:
    """A resource's address, taken apart. ``name`` is empty where the kind has none."""

    kind: str
    name: str
    limit: int


def parse_address(uri: str) -> Address:
    """Take an address apart; encoded and plain characters mean the same.

    Raises:
        NotFoundError: it is none of ours.
        InvalidRequestError: its limit is no number of at least 1; a larger one than allowed is lowered.
    """
    try:
        parts = urlsplit(uri)
        asked = parse_qs(parts.query, keep_blank_values=True).get("limit", [str(DEFAULT_LIMIT)])[-1]
    except ValueError:
        raise NotFoundError(shown(uri)) from None
    name = unquote(parts.path.removeprefix("/"))
    named = parts.netloc in ("item", "scope", "tag")
    if parts.scheme != "memory" or named is not bool(name) or not (named or parts.netloc in ("recent", "stats")):
        raise NotFoundError(shown(uri))
    return Address(parts.netloc, name, _limit(asked))


def _limit(text: str) -> int:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (number >= 1 and math.isfinite(number)):
        raise InvalidRequestError.wrong("limit", text, f"a whole number from 1 to {MOST}")
    return min(int(number), MOST)


def scope_uri(name: str) -> str:
    """Write the address of a scope."""
    return f"memory://scope/{quote(name, safe='')}"


async def list_resources(ask: Ask) -> list[Json]:
    """List what has a fixed address: recent memories, statistics and every scope."""
    reply = checked(await ask("list_memory_scopes"))
    scopes = [
        {"uri": scope_uri(one["scope_name"]), "name": one["scope_name"], "title": f"Scope {one['scope_name']}",
         "description": one["description"] or f"The newest memories of {one['scope_name']}", "mimeType": _JSON}
        for one in reply["scopes"]
    ]  # fmt: skip
    return [*_FIXED, *scopes]


async def read_resource(ask: Ask, uri: str) -> list[Json]:
    """Read what stands behind an address.

    Raises:
        NotFoundError: there is nothing.
        InvalidRequestError: the address is wrong in itself.
    """
    address = parse_address(uri)
    match address.kind:
        case "item":
            reply = await ask("get_memory", memory_id=address.name)
        case "scope":
            reply = await ask("search_by_scope", scope=address.name, limit=address.limit)
        case "tag":
            reply = await ask("search_by_tag", tag=address.name, limit=address.limit)
        case "stats":
            reply = await ask("get_memory_stats")
        case _:
            reply = await ask("list_memories", filter={"scope": "ALL"}, limit=address.limit)
    text = json.dumps({"notice": NOTICE} | checked(reply), ensure_ascii=False)
    return [{"uri": uri, "mimeType": _JSON, "text": text}]


def checked(reply: Json) -> Json:
    """Give a reply that is none of a failure.

    Raises:
        NotFoundError, InvalidRequestError, RpcError: it is one.
    """
    if reply["status"] == "OK":
        return {name: value for name, value in reply.items() if name != "status"}
    said, code = str(reply.get("error")), reply.get("error_code")
    if code == "NOT_FOUND":
        raise NotFoundError(said)
    if code == "INVALID_REQUEST":
        raise InvalidRequestError("", said)
    raise RpcError(INTERNAL_ERROR, said)


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A change as subscribers see it."""

    event: Event

    @property
    def is_list(self) -> bool:
        return self.event.scopes_changed

    def touches(self, uri: str) -> bool:
        try:
            address = parse_address(uri)
        except (NotFoundError, InvalidRequestError):
            return False
        if address.kind == "item":
            return address.name == self.event.memory_id
        if address.kind == "scope":
            return self.event.scope is not None and fold(address.name) == fold(self.event.scope)
        return True
