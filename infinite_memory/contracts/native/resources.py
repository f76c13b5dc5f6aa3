"""Memories as MCP resources: URIs and their contents.

memory://item/{memory_id}       one memory, complete, with its earlier versions
memory://scope/{scope}?limit=   the newest of a scope
memory://tag/{tag}?limit=       the newest with a tag
memory://recent?limit=          the newest of all
memory://stats                  statistics
ui://infinite-memory/...        search and timeline as an MCP App (SEP-1865): app.html, which loads nothing from other hosts
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from urllib.parse import quote, unquote, urlsplit

from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.mcp import (
    ANYTHING,
    APP_TYPE,
    INTERNAL_ERROR,
    QUOTED,
    RpcError,
    parse_limit,
    parse_query,
    with_notice,
)
from infinite_memory.engine.events import Event
from infinite_memory.errors import InvalidRequestError, NotFoundError, truncated_repr
from infinite_memory.models import fold

Ask = Callable[..., Awaitable[Json]]

DEFAULT_LIMIT = 20
MAX_COUNT = 100
_JSON = "application/json"

APP_URI = "ui://infinite-memory/memories.html"
APP_TOOLS = ("retrieve_memory", "recall_memory_by_time", "search_by_tag", "search_by_scope", "list_memories")
"""The tools whose results the app shows. It counts months by their totals: a tool that counts would be in every client's list."""

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
    """A parsed resource URI. ``name`` is empty if the kind has none.

    ``warnings`` name unknown query parameters.
    """

    kind: str
    name: str
    limit: int
    warnings: tuple[str, ...] = ()


def parse_address(uri: str) -> Address:
    """Parse a URI; percent-encoded and plain characters are equivalent.

    Raises:
        NotFoundError: it is not one of ours.
        InvalidRequestError: its limit is not an integer of at least 1; one above the maximum is lowered.
    """
    try:
        parts = urlsplit(uri)
        limit, warnings = parse_query(parts.query, has_limit=parts.netloc not in ("item", "stats"))
    except ValueError:
        raise NotFoundError(truncated_repr(uri)) from None
    name = unquote(parts.path.removeprefix("/"))
    named = parts.netloc in ("item", "scope", "tag")
    if parts.scheme != "memory" or named is not bool(name) or not (named or parts.netloc in ("recent", "stats")):
        raise NotFoundError(truncated_repr(uri))
    return Address(parts.netloc, name, parse_limit(limit, DEFAULT_LIMIT, MAX_COUNT), warnings)


def scope_uri(name: str) -> str:
    """Return the URI of a scope."""
    return f"memory://scope/{quote(name, safe='')}"


async def list_resources(ask: Ask) -> list[Json]:
    """Return the resources with a fixed URI: recent memories, statistics and every scope."""
    reply = checked(await ask("list_memory_scopes"))
    scopes = [
        {"uri": scope_uri(scope["scope_name"]), "name": scope["scope_name"], "title": f"Scope {scope['scope_name']}",
         "description": _described(scope), "mimeType": _JSON}
        for scope in reply["scopes"]
    ]  # fmt: skip
    return [*_FIXED, *scopes]


def _described(scope: Json) -> str:
    description = scope["description"] or f"The newest memories of {scope['scope_name']}"
    return f"{description} {QUOTED}"


async def read_resource(ask: Ask, uri: str) -> list[Json]:
    """Read the resource of a URI.

    Raises:
        NotFoundError: there is none.
        InvalidRequestError: the URI itself is invalid.
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
    answer = checked(reply)
    if address.warnings:
        answer["warnings"] = [*answer.get("warnings", ()), *address.warnings]
    text = json.dumps(with_notice(answer), ensure_ascii=False)
    return [{"uri": uri, "mimeType": _JSON, "text": text}]


def checked(reply: Json) -> Json:
    """Return a reply that is not an error.

    Raises:
        NotFoundError, InvalidRequestError, RpcError: it is one of these.
    """
    if reply["status"] == "OK":
        return {name: value for name, value in reply.items() if name != "status"}
    message, code = str(reply.get("error")), reply.get("error_code")
    if code == "NOT_FOUND":
        raise NotFoundError(message)
    if code == "INVALID_REQUEST":
        raise InvalidRequestError("", message)
    raise RpcError(INTERNAL_ERROR, message)


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A change for subscribers."""

    event: Event

    @property
    def is_list(self) -> bool:
        return self.event.scopes_changed

    @property
    def topics(self) -> list[str]:
        topics = [ANYTHING]
        if self.event.memory_id is not None:
            topics.append(f"item {self.event.memory_id}")
        if self.event.scope is not None:
            topics.append(f"scope {fold(self.event.scope)}")
        return topics


def get_topic(uri: str) -> str | None:
    """Return the topic of a URI, as in `MemoryChange.topics`; None if it is not one of ours."""
    try:
        address = parse_address(uri)
    except (NotFoundError, InvalidRequestError):
        return None
    if address.kind == "item":
        return f"item {address.name}"
    return f"scope {fold(address.name)}" if address.kind == "scope" else ANYTHING


def read_app() -> list[Json]:
    """Return the ``contents`` of the app; the empty policy declares that it connects to nothing and loads nothing."""
    meta = {"ui": {"csp": {"connectDomains": [], "resourceDomains": []}, "prefersBorder": True}}
    return [{"uri": APP_URI, "mimeType": APP_TYPE, "text": _load_app(), "_meta": meta}]


@cache
def _load_app() -> str:
    return resources.files("infinite_memory.contracts.native").joinpath("app.html").read_text("utf-8")
