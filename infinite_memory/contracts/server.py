"""A contract over MCP: the base class of every contract's server, with defaults for everything but its commands' context."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Generic

from infinite_memory.contracts.base import CallT, Command, Effect, Reply, Table
from infinite_memory.contracts.errors import Column, failure, get_number
from infinite_memory.contracts.fields import Fields, Json, ValidationContext
from infinite_memory.contracts.large_requests import check_fields
from infinite_memory.contracts.mcp import Listener, Profile, RpcError, ToolCall, describe_tool, named_tool, with_notice
from infinite_memory.contracts.session import ContractContext, RequestContext
from infinite_memory.contracts.spec import ContractSpec
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, NotFoundError, truncated_repr


class ContractServer(Generic[CallT]):
    """One client's view of a contract: the tools of its table; no resources, no prompts, and no change notifications.

    A contract that offers more, or answers in another form, overrides the methods for it.
    """

    profile = Profile()

    def __init__(self, spec: ContractSpec, table: Table[CallT], context: ContractContext) -> None:
        self.name, self.title, self.instructions = spec.server_name, spec.title, spec.instructions
        self._table = table
        self._engine, self._session, self._events = context.engine, context.session, context.events

    def tools(self) -> list[Json]:
        return [describe_tool(command) for command in self._table]

    async def call_tool(self, name: str, arguments: Json, call: ToolCall) -> Json:
        command = named_tool(self._table, name)
        checking = self.validation()
        try:
            fields = await check_fields(arguments, lambda: command.check(arguments, checking))
            reply = with_notice(await self.execute(command, fields, checking, call))
            is_error = False
        except InfiniteMemoryError as exc:
            reply, is_error = {**failure(exc)}, True
        if checking.warnings:
            reply["warnings"] = checking.warnings
        text = json.dumps(reply, ensure_ascii=False)
        return {"content": [{"type": "text", "text": text}], "structuredContent": reply, "isError": is_error}

    def validation(self) -> ValidationContext:
        """Return the validation context of one call's arguments."""
        return ValidationContext(self._session.limits, self._session.zone)

    async def execute(
        self, command: Command[CallT], fields: Fields, checking: ValidationContext, call: ToolCall
    ) -> Reply:
        """Run a command with validated fields; the contract builds the command's context."""
        raise NotImplementedError

    def effect(self, tool: str) -> Effect:
        return self._table.effect(tool)

    async def resources(self) -> list[Json]:
        return []

    def templates(self) -> list[Json]:
        return []

    async def read(self, uri: str) -> list[Json]:
        raise NotFoundError(truncated_repr(uri))

    def prompts(self) -> list[Json]:
        return []

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Json:
        raise InvalidRequestError("name", f"{truncated_repr(name)} is not a prompt; there are none")

    async def complete(self, ref: Json, argument: str, value: str) -> list[str]:
        return []

    def get_topic(self, uri: str) -> str | None:
        return None

    def watch(self, listener: Listener) -> Callable[[], None]:
        return lambda: None

    def welcome(self) -> list[str]:
        return []

    def failure(self, exc: InfiniteMemoryError) -> RpcError:
        return RpcError(get_number(exc, Column.RPC), str(exc))


class TableServer(ContractServer[RequestContext]):
    """The server of a contract whose commands take a `RequestContext`."""

    async def execute(
        self, command: Command[RequestContext], fields: Fields, checking: ValidationContext, call: ToolCall
    ) -> Reply:
        return await command.run(RequestContext(await self._engine(), self._session, fields, checking))
