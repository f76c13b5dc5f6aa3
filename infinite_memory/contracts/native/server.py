"""The native contract as an MCP server: tools, resources and prompts of one client."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from infinite_memory.contracts.base import Effect
from infinite_memory.contracts.fields import Json
from infinite_memory.contracts.mcp import Listener, Profile, ToolCall
from infinite_memory.contracts.native.contract import TABLE, NativeContract, get_effect
from infinite_memory.contracts.native.prompts import get_prompt, list_prompts
from infinite_memory.contracts.native.resources import (
    APP_TOOLS,
    APP_URI,
    TEMPLATES,
    MemoryChange,
    checked,
    get_topic,
    list_resources,
    read_app,
    read_resource,
)
from infinite_memory.contracts.native.spec import SPEC
from infinite_memory.contracts.native.table import CommandContext
from infinite_memory.contracts.native.tools import Tools
from infinite_memory.contracts.server import ContractServer
from infinite_memory.contracts.session import ContractContext
from infinite_memory.models import fold

TAGS_FROM = 1000  # newest memories whose tags are offered as completions


class NativeServer(ContractServer[CommandContext]):
    """One MCP client of the native contract."""

    profile = Profile(apps=dict.fromkeys(APP_TOOLS, APP_URI))

    def __init__(self, context: ContractContext) -> None:
        super().__init__(SPEC, TABLE, context)
        self._tools = Tools(
            lambda session, agreed: NativeContract(
                context.engine, session, context.clock, context.administration, agreed
            ),
            self._session,
            self._session.mcp_tools,
        )

    def tools(self) -> list[Json]:
        return self._tools.list_all()

    async def call_tool(self, name: str, arguments: Json, call: ToolCall) -> Json:
        return await self._tools.call(name, arguments, call)

    def effect(self, tool: str) -> Effect:
        return get_effect(tool)

    async def resources(self) -> list[Json]:
        return await list_resources(self._tools.ask)

    def templates(self) -> list[Json]:
        return TEMPLATES

    async def read(self, uri: str) -> list[Json]:
        return read_app() if uri == APP_URI else await read_resource(self._tools.ask, uri)

    def prompts(self) -> list[Json]:
        return list_prompts()

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Json:
        return get_prompt(name, arguments)

    async def complete(self, ref: Json, argument: str, value: str) -> list[str]:
        if argument == "scope":
            reply = checked(await self._tools.ask("list_memory_scopes"))
            candidates = [scope["scope_name"] for scope in reply["scopes"]]
        elif argument == "tag":
            reply = checked(await self._tools.ask("list_memories", filter={"scope": "ALL"}, limit=TAGS_FROM))
            candidates = list(dict.fromkeys(tag for result in reply["results"] for tag in result["tags"]))
        else:
            candidates = []
        beginning = fold(value)  # once: it may be megabytes long
        return [candidate for candidate in candidates if fold(candidate).startswith(beginning)]

    def get_topic(self, uri: str) -> str | None:
        return get_topic(uri)

    def watch(self, listener: Listener) -> Callable[[], None]:
        return self._events.subscribe(lambda event: listener(MemoryChange(event)))

    def welcome(self) -> list[str]:
        return list(self._session.ignored)
