"""The table of routes: path, handler, fields and required permissions. The OpenAPI document is generated from it.

The fields are those of the contracts' commands; only ``user_id``, ``from``, ``to`` and those of agents are this API's own.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from infinite_memory.contracts.agentmem.server import AgentMemServer
from infinite_memory.contracts.agentmem.table import ID_CHARS
from infinite_memory.contracts.agentmem.table import TABLE as AGENTMEM
from infinite_memory.contracts.base import Command
from infinite_memory.contracts.field_types import InstantField, NameField, ObjectField
from infinite_memory.contracts.fields import Field, Json
from infinite_memory.contracts.native.contract import NativeContract
from infinite_memory.contracts.native.store import BEFORE_FIELD
from infinite_memory.contracts.native.table import FILTER_FIELDS
from infinite_memory.contracts.native.table import TABLE as NATIVE
from infinite_memory.transports.http.api import admin_routes, memories, search
from infinite_memory.transports.http.api.backend import AGENT_FIELD, ApiRequest

_ENTERED = (AgentMemServer, NativeContract)  # importing them fills the tables
API = "/api/v1"

USER = NameField(
    name="user_id", about="Whose memories; a token that is bound to one user needs none", max_chars=ID_CHARS
)
MEMORY_ID = NameField(name="memory_id", about="Id of the memory", required=True, max_chars=1000)
_ENDS = (
    InstantField(name="from", about="Only memories from this instant or day on"),
    InstantField(name="to", about="Only memories up to this instant, or the end of this day"),
)


class Audience(enum.Enum):
    """Which tokens may access a route; those bound to neither users nor scopes may access all."""

    ANY = "any"
    USERS = "users"  # not those bound to scopes
    FULL = "full"  # only those bound to neither


@dataclass(frozen=True, slots=True)
class Route:
    """A method and path. ``body`` None means no body; ``gives`` maps each successful status to its schema."""

    method: str
    path: str
    name: str
    about: str
    run: Callable[[ApiRequest], Awaitable[tuple[int, Json]]]
    gives: dict[int, str]
    audience: Audience = Audience.ANY
    writes: bool = False
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] | None = None

    @property
    def in_path(self) -> tuple[Field, ...]:
        """The path parameters."""
        return (MEMORY_ID,) if "{memory_id}" in self.path else ()

    @property
    def fields(self) -> tuple[Field, ...]:
        """All fields, of path, query and body."""
        return (*self.in_path, *self.query, *(self.body or ()))


def _native(name: str, *, without: tuple[str, ...] = ()) -> tuple[Field, ...]:
    return _fields(NATIVE.find(name), without)


def _agentmem(name: str) -> tuple[Field, ...]:
    return _fields(AGENTMEM.find(name), ("user_id",))


def _fields(command: Command[Any] | None, without: tuple[str, ...]) -> tuple[Field, ...]:
    assert command is not None
    return tuple(field for field in command.fields if field.name not in without)


def _united(*fields: tuple[Field, ...]) -> tuple[Field, ...]:
    """Merge fields; the first of several with one name wins."""
    united: dict[str, Field] = {}
    for item in (field for some in fields for field in some):
        united.setdefault(item.name, item)
    return tuple(united.values())


def _of_either(scopes: tuple[Field, ...], users: tuple[Field, ...]) -> tuple[Field, ...]:
    """Merge the fields of a scope's memory and of a user's; those of one kind only say so in their description."""

    def marked(fields: tuple[Field, ...], others: tuple[Field, ...], when: str) -> tuple[Field, ...]:
        names = {field.name for field in others}
        return tuple(
            field if field.name in names else replace(field, about=f"{field.about} ({when} user_id)")
            for field in fields
        )

    united = _united(marked(scopes, users, "without"), marked(users, scopes, "with"))
    return tuple(replace(field, about=_METADATA) if field.name == "metadata" else field for field in united)


_METADATA = (
    "What is known about it; other keys are kept. With user_id all are, and timestamp and importance (0 to 1) count"
)
_FORGET_SCOPE = "Where tag and query look; alone only with user_id or a token bound to scopes, for what those see of it"


def _target() -> tuple[Field, ...]:
    [target] = [command_field for command_field in _native("delete_memory") if command_field.name == "target"]
    assert isinstance(target, ObjectField)
    return tuple(
        replace(field, about=_FORGET_SCOPE) if field.name == "scope" else field
        for field in target.fields
        if field.name != "memory_id"
    )


_LIMIT = "Most results; default: 5 for a question, 100 for a stretch of time; 10, and 100 at most, in AgentMem's search"
_OPTIONAL_QUERY = tuple(
    field for field in _native("retrieve_memory") if field.name not in ("query", "top_k", *search.EXPLAINING)
)
_SEARCH = tuple(
    replace(field, about=_LIMIT, default=None) if field.name == "limit" else field
    for field in _united(_native("recall_memory_by_time"), _OPTIONAL_QUERY, _agentmem("agentmem_search_memories"))
)
_LISTED = tuple(field for field in FILTER_FIELDS if field.name != "time_range")

ROUTES: tuple[Route, ...] = (
    Route(
        "POST", f"{API}/memories", "store_memory", "Store a memory. With user_id it is that user's, else it belongs to a scope.",
        memories.store, {201: "StoredMemory", 200: "StoredMemory"}, writes=True,
        body=(USER, *_of_either(_native("store_memory"), _agentmem("agentmem_add_memory"))),
    ),
    Route(
        "GET", f"{API}/memories", "list_memories", "List memories, newest first, page by page, with any filter.",
        memories.list_, {200: "MemoryList"},
        query=(USER, AGENT_FIELD, *_united(_LISTED, _ENDS, _native("list_memories", without=("filter",)))),
    ),
    Route(
        "DELETE", f"{API}/memories", "forget_memories",
        "Forget every memory that all selectors name; user_id alone names all memories of that user.",
        memories.forget, {200: "Forgotten"}, writes=True,
        query=(USER, AGENT_FIELD, *_united(_target(), _native("delete_memory", without=("target",)))),
    ),
    Route(
        "GET", f"{API}/memories/{{memory_id}}", "read_memory", "Read one memory, whole.",
        memories.read, {200: "Memory"}, query=(USER,),
    ),
    Route(
        "PATCH", f"{API}/memories/{{memory_id}}", "change_memory",
        "Change the text, tags or other parts of a memory; what it said before stays in its history.",
        memories.change, {200: "StoredMemory"}, writes=True,
        body=(USER, *_native("update_memory", without=("memory_id",))),
    ),
    Route(
        "DELETE", f"{API}/memories/{{memory_id}}", "forget_memory", "Forget one memory.",
        memories.forget_one, {200: "Forgotten"}, writes=True,
        query=(USER, *(field for field in _native("delete_memory") if field.name == "forget_mode")),
    ),
    Route(
        "GET", f"{API}/memories/{{memory_id}}/history", "read_history",
        "Read what a memory says, and what it said before it was changed, oldest first.",
        memories.history, {200: "History"}, query=(USER, BEFORE_FIELD),
    ),
    Route(
        "POST", f"{API}/memories/{{memory_id}}/restore", "restore_memory",
        "Bring back a memory that was soft-deleted.",
        memories.restore, {200: "StoredMemory"}, writes=True, body=(USER,),
    ),
    Route(
        "POST", f"{API}/memories/{{memory_id}}/move", "move_memory",
        "Put a memory into another scope; it keeps its id, its history and its links.",
        memories.move, {200: "MovedMemory"}, writes=True, body=(USER, memories.SCOPE_FIELD),
    ),
    Route(
        "POST", f"{API}/search", "search",
        "Find the memories that answer a question, best first; or list a stretch of time, where there is no query.",
        search.search, {200: "SearchResults"}, body=(USER, *_SEARCH),
    ),
    Route(
        "POST", f"{API}/chat", "chat", "Answer a message with what is remembered of a user in mind.",
        search.chat, {200: "ChatAnswer"}, Audience.USERS, writes=True, body=(USER, *_agentmem("agentmem_chat")),
    ),
    Route(
        "POST", f"{API}/prompt", "system_prompt", "Make a system prompt of what is known of a user.",
        search.prompt, {200: "SystemPrompt"}, Audience.USERS, body=(USER, *_agentmem("agentmem_get_system_prompt")),
    ),
    Route(
        "GET", f"{API}/agents", "list_agents", "List agents with the number of their current memories.",
        admin_routes.list_agents, {200: "AgentList"}, Audience.USERS, query=(USER,),
    ),
    Route(
        "POST", f"{API}/agents", "create_agent", "Make an agent before its first memory, or say more of one that has some.",
        admin_routes.create_agent, {201: "Agent"}, Audience.USERS, writes=True, body=(USER, *admin_routes.AGENT_FIELDS),
    ),
    Route("GET", f"{API}/scopes", "list_scopes", "List scopes.", admin_routes.list_scopes, {200: "ScopeList"}, query=(USER,)),
    Route(
        "POST", f"{API}/scopes", "create_scope", "Make a scope.", admin_routes.create_scope, {201: "CreatedScope"},
        Audience.FULL, writes=True, body=_native("create_memory_scope"),
    ),
    Route("GET", f"{API}/stats", "stats", "Figures.", admin_routes.stats, {200: "Stats"}, query=(USER,)),
    Route(
        "GET", f"{API}/backups", "list_backups", "List the backups, oldest first.", admin_routes.list_backups,
        {200: "BackupList"}, Audience.FULL,
    ),
    Route(
        "POST", f"{API}/backups", "create_backup", "Write everything into one backup file, and read it back.",
        admin_routes.create_backup, {201: "Backup"}, Audience.FULL, writes=True, body=(),
    ),
)  # fmt: skip


def methods_at(path: str) -> set[str]:
    """Return the methods of the table's routes at a path; none if it has no route."""
    parts = path.split("/")
    return {route.method for route in ROUTES if _fits(route.path.split("/"), parts)}


def _fits(pattern: list[str], parts: list[str]) -> bool:
    return len(pattern) == len(parts) and all(
        expected.startswith("{") or expected == segment for expected, segment in zip(pattern, parts, strict=True)
    )
