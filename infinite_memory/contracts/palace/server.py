"""The palace contract as an MCP server that has only tools, for one client.

A result is JSON in a text. Every error of a tool is a JSON-RPC error of code -32603 whose message starts with the tool's name, as
the contract's document says.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from infinite_memory.contracts.base import Command
from infinite_memory.contracts.fields import Json, ValidationContext
from infinite_memory.contracts.large_requests import check_fields
from infinite_memory.contracts.mcp import INTERNAL_ERROR, Profile, RpcError, ToolCall, with_notice
from infinite_memory.contracts.native.truncation import capped
from infinite_memory.contracts.palace import drawers, graph, palaces
from infinite_memory.contracts.palace.spec import SPEC
from infinite_memory.contracts.palace.table import TABLE, CommandContext
from infinite_memory.contracts.server import ContractServer
from infinite_memory.contracts.session import ContractContext
from infinite_memory.engine.engine import Engine
from infinite_memory.errors import (
    InfiniteMemoryError,
    InvalidRequestError,
    ScopeArchivedError,
    ScopeExistsError,
    ScopeNotFoundError,
    truncated_repr,
)

# The modules of the commands are imported to register these in `TABLE`.
__all__ = ["PalaceServer", "drawers", "graph", "palaces"]

METHODS = frozenset({"ping", "tools/list", "tools/call"})
VERSION = "2024-11-05"  # of the protocol, according to the contract's document
ORDER = (
    "memory_remember", "memory_recall", "memory_recall_deep", "palace_create", "palace_list", "kg_assert", "kg_query",
    "memory_list", "memory_forget", "palace_info",
)  # fmt: skip

QUOTING = frozenset({"results", "drawers", "triples", "triple", "palaces", "description"})
"""Fields of replies that contain stored text."""


class PalaceServer(ContractServer[CommandContext]):
    """One client of the contract. ``default`` is the palace of calls that name none; it is created on first use."""

    def __init__(self, context: ContractContext, default: str | None) -> None:
        super().__init__(SPEC, TABLE, context)
        self._default, self._data_dir = default, context.home
        self.profile = Profile(
            methods=METHODS,
            capabilities={"tools": {}},
            info={} if default is None else {"default_palace": default},
            fallback_version=VERSION,
            needs_initialize=False,
        )

    def tools(self) -> list[Json]:
        commands = {command.name: command for command in TABLE}
        return [self._tool(commands[name]) for name in ORDER]

    def _tool(self, command: Command[CommandContext]) -> Json:
        schema = command.schema()
        if self._default is not None and "required" in schema:
            schema["required"] = [name for name in schema["required"] if name != "palace"]
        return {"name": command.name, "description": command.about, "inputSchema": schema}

    async def call_tool(self, name: str, arguments: Json, call: ToolCall) -> Json:
        command = TABLE.find(name)
        if command is None:
            raise RpcError(INTERNAL_ERROR, f"unknown tool: {truncated_repr(name)[1:-1]}")
        checking = ValidationContext(self._session.limits, self._session.zone)
        try:
            completed = self._with_default(command, arguments)
            fields = await check_fields(completed, lambda: command.check(completed, checking))
            engine = await self._engine()
            if self._default is not None:
                await _create_default(engine, self._default)
            reply = await command.run(CommandContext(engine, self._session, fields, checking, self._data_dir))
        except InfiniteMemoryError as exc:
            raise RpcError(INTERNAL_ERROR, f"{name}: {_format_error(exc)}") from exc
        if checking.warnings:
            reply["warnings"] = checking.warnings
        may_be_long = QUOTING & reply.keys()
        text = await asyncio.to_thread(_get_text, reply) if may_be_long else _get_text(reply)
        return {"content": [{"type": "text", "text": text}]}

    def _with_default(self, command: Command[CommandContext], arguments: Json) -> Json:
        """Return the arguments, with the default palace if they need one and name none.

        Raises:
            InvalidRequestError: a required one is missing.
        """
        for field in command.fields:
            value = arguments.get(field.name)
            if not field.required or not (value is None or (field.name == "palace" and value == "")):
                continue
            if field.name != "palace":
                raise InvalidRequestError("", f"missing '{field.name}'")
            if self._default is None:
                raise InvalidRequestError("", "missing 'palace' (no --palace default configured)")
            arguments = arguments | {"palace": self._default}
        return arguments

    async def read(self, uri: str) -> list[Json]:
        raise InvalidRequestError("uri", "there are no resources")

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Json:
        raise InvalidRequestError("name", "there are no prompts")

    def failure(self, exc: InfiniteMemoryError) -> RpcError:
        return RpcError(INTERNAL_ERROR, _format_error(exc))


async def _create_default(engine: Engine, palace: str) -> None:
    """Create the default palace if it does not exist."""
    try:
        await engine.scopes.get(palace)
    except ScopeNotFoundError:
        try:
            await engine.scopes.create(palace, "")
        except ScopeExistsError:  # created concurrently
            await engine.scopes.get(palace)


def _format_error(exc: InfiniteMemoryError) -> str:
    """Return an error's message in the contract's terms."""
    text = str(exc)
    if isinstance(exc, ScopeNotFoundError | ScopeExistsError | ScopeArchivedError):
        return text.replace("scope", "palace", 1)
    if isinstance(exc, InvalidRequestError) and exc.field == "scope":
        return text.replace("scope", "palace", 1)
    return text


def _get_text(reply: Json) -> str:
    """Return a reply as JSON text, cut to what clients accept, with a notice if it contains stored text."""
    if QUOTING & reply.keys():
        reply = with_notice(reply)
    cut, text = capped(reply)
    if cut is reply:
        return text
    notes = ["the answer is cut, or a client would refuse it; lower top_k or limit"]
    notes += [
        f"the first {len(cut[name]):,} of {len(items):,} {name} are shown; ask more narrowly (room, tag, query) for the others"
        for name, items in reply.items()
        if isinstance(items, list) and len(cut[name]) < len(items)
    ]
    return json.dumps(cut | {"truncated_note": "; ".join(notes)}, ensure_ascii=False)
