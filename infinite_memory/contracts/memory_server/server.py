"""The Memory Server contract as an MCP server, for one client.

Invalid arguments and failures are JSON-RPC errors of code -32000, an unknown tool is -32601, as the contract's document says.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from infinite_memory.contracts.fields import Json, ValidationContext
from infinite_memory.contracts.large_requests import check_fields
from infinite_memory.contracts.mcp import (
    METHOD_NOT_FOUND,
    Listener,
    Profile,
    RpcError,
    ToolCall,
    describe_hints,
    noted_contents,
    with_notice,
)
from infinite_memory.contracts.memory_server.addresses import (
    DEFAULT_LIMIT,
    JSON,
    RECENT,
    TEMPLATES,
    MemoryChange,
    get_topic,
    parse_address,
    split_tags,
)
from infinite_memory.contracts.memory_server.limits import MemoryServerLimits
from infinite_memory.contracts.memory_server.prompts import PROMPTS, get_prompt
from infinite_memory.contracts.memory_server.serializers import serialize_record
from infinite_memory.contracts.memory_server.spec import SPEC
from infinite_memory.contracts.memory_server.table import TABLE, TAG, TAG_PATTERN, CommandContext, find_limit, where
from infinite_memory.contracts.server import ContractServer
from infinite_memory.contracts.session import ContractContext
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, LimitExceededError, truncated_repr
from infinite_memory.models import MemoryId, MemoryRecord

GENERAL_FAILURE = -32000


class MemoryServer(ContractServer[CommandContext]):
    """One client of the contract."""

    def __init__(self, context: ContractContext, limits: MemoryServerLimits) -> None:
        super().__init__(SPEC, TABLE, context)
        self._limits = limits
        self.profile = Profile(fallback_version=limits.protocol_version)

    # tools

    def tools(self) -> list[Json]:
        return [
            {
                "name": command.name,
                "title": command.title,
                "description": command.about,
                "inputSchema": self._with_limits(command.schema()),
                "annotations": describe_hints(command),
            }
            for command in TABLE
        ]

    def _with_limits(self, schema: Json) -> Json:
        """Add this session's limits to a tool's schema."""
        if tags := schema["properties"].get("tags"):
            tags["maxItems"] = self._limits.tags
        if limit := schema["properties"].get("limit"):
            limit["description"] += f" ({self._limits.max_limit})"
        return schema

    async def call_tool(self, name: str, arguments: Json, call: ToolCall) -> Json:
        command = TABLE.find(name)
        if command is None:
            raise RpcError(METHOD_NOT_FOUND, f"unknown tool: {truncated_repr(name)[1:-1]}; tools/list names them")
        checking = ValidationContext(self._limits.settings(self._session.limits), self._session.zone)
        try:
            fields = await check_fields(arguments, lambda: command.check(arguments, checking))
            return await command.run(
                CommandContext(await self._engine(), self._session, fields, checking, self._limits)
            )
        except InfiniteMemoryError as exc:
            raise self.failure(exc) from exc

    # resources

    async def resources(self) -> list[Json]:
        return [RECENT]

    def templates(self) -> list[Json]:
        return TEMPLATES

    async def read(self, uri: str) -> list[Json]:
        address = parse_address(uri)
        engine = await self._engine()
        if address.kind == "item":
            content: object = serialize_record(await engine.memories.get(MemoryId(address.name)))
        else:
            tags = split_tags(address.name) if address.kind == "by-tags" else ()
            if len(tags) > self._limits.tags:
                raise LimitExceededError("uri", len(tags), self._limits.tags, "tags")
            for tag in tags:
                if not TAG.fullmatch(tag):
                    raise InvalidRequestError.invalid_value("uri", tag, f"a tag that matches {TAG_PATTERN}")
            kind = address.name if address.kind == "by-type" else None
            limit = find_limit(address.limit, self._limits, DEFAULT_LIMIT)
            listing = await engine.memories.list_page(where(self._session, kind, tags), limit)
            content = [serialize_record(memory) for memory in listing.memories]
        if isinstance(content, dict):
            content = with_notice(content)
        return noted_contents(
            [{"uri": uri, "mimeType": JSON, "text": json.dumps(content, ensure_ascii=False)}], address.warnings
        )

    # prompts

    def prompts(self) -> list[Json]:
        return PROMPTS

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Json:
        return get_prompt(name, arguments)

    async def complete(self, ref: Json, argument: str, value: str) -> list[str]:
        if argument not in ("type", "tags"):
            return []
        engine = await self._engine()
        listing = await engine.memories.list_page(where(self._session, None, ()), 1000)
        words = dict.fromkeys(word for memory in listing.memories for word in _words(memory, argument))
        return [word for word in words if word.startswith(value)]

    # the client

    def get_topic(self, uri: str) -> str | None:
        return get_topic(uri)

    def watch(self, listener: Listener) -> Callable[[], None]:
        return self._events.subscribe(lambda event: listener(MemoryChange(event)))

    def welcome(self) -> list[str]:
        return list(self._session.ignored)

    def failure(self, exc: InfiniteMemoryError) -> RpcError:
        return RpcError(GENERAL_FAILURE, str(exc))


def _words(memory: MemoryRecord, argument: str) -> tuple[str, ...]:
    return memory.tags if argument == "tags" else (memory.type,) if memory.type else ()
