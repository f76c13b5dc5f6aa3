"""The Laravel contract as an MCP server: the tools, resources and prompts of one client."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from infinite_memory.contracts.fields import Json, ValidationContext
from infinite_memory.contracts.laravel import search, write  # register their commands
from infinite_memory.contracts.laravel.access import find_owners, make_view, to_memory_id
from infinite_memory.contracts.laravel.errors import failure, parse_all
from infinite_memory.contracts.laravel.resources import (
    INDEX,
    TEMPLATES,
    document,
    list_resources,
    read_resource,
    split_parameters,
)
from infinite_memory.contracts.laravel.spec import SPEC
from infinite_memory.contracts.laravel.static_content import PROMPTS, list_prompts
from infinite_memory.contracts.laravel.table import SCOPE, TABLE, Caller, LaravelCall
from infinite_memory.contracts.large_requests import check_fields
from infinite_memory.contracts.mcp import ANYTHING, NOTICE, Listener, Profile, RpcError, ToolCall, named_tool
from infinite_memory.contracts.server import ContractServer
from infinite_memory.contracts.session import ContractContext
from infinite_memory.engine.events import Event
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, truncated_repr
from infinite_memory.models import MemoryId, fold

__all__ = ["LaravelServer", "search", "write"]

TOLD_AT_ONCE = 100  # changes whose owners are read by one query


class LaravelServer(ContractServer[LaravelCall]):
    """One client of the Laravel contract."""

    profile = Profile(info={"version": "1.0.0"})  # of the contract, according to its manifest

    def __init__(self, context: ContractContext) -> None:
        super().__init__(SPEC, TABLE, context)

    async def call_tool(self, name: str, arguments: Json, call: ToolCall) -> Json:
        command = named_tool(TABLE, name)
        checking = ValidationContext(self._session.limits, self._session.zone)
        try:
            strict = checking.with_strict(command.is_strict(arguments))
            fields = await check_fields(arguments, lambda: parse_all(command.fields, arguments, "", strict))
            reply = await command.run(LaravelCall(await self._engine(), self._session, fields, checking))
        except InfiniteMemoryError as exc:
            raise failure(exc) from exc
        for warning in checking.warnings:
            await call.log("warning", warning)
        return _wrap_result(reply, checking.warnings)

    async def resources(self) -> list[Json]:
        return list_resources()

    def templates(self) -> list[Json]:
        return TEMPLATES

    async def read(self, uri: str) -> list[Json]:
        static_content = document(uri)
        return (
            static_content
            if static_content is not None
            else await read_resource(await self._engine(), self._session, uri)
        )

    def prompts(self) -> list[Json]:
        return list_prompts()

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Json:
        if name not in PROMPTS:
            raise InvalidRequestError("name", f"{truncated_repr(name)} is not a prompt; known: {', '.join(PROMPTS)}")
        about, text = PROMPTS[name]
        return {"description": about, "messages": [{"role": "user", "content": {"type": "text", "text": text}}]}

    def get_topic(self, uri: str) -> str | None:
        address, _ = split_parameters(uri)
        if address == INDEX:
            return ANYTHING
        try:
            return to_memory_id(address.removeprefix("memory://").removesuffix("/history"))
        except ValueError:
            return None

    def watch(self, listener: Listener) -> Callable[[], None]:
        waiting: deque[Event] = deque()
        running: set[asyncio.Task[None]] = set()

        async def tell() -> None:
            try:
                while waiting:
                    events = [waiting.popleft() for _ in range(min(len(waiting), TOLD_AT_ONCE))]
                    with contextlib.suppress(InfiniteMemoryError):  # the next change is reported again
                        visible = await self._visible_ids([event.memory_id for event in events if event.memory_id])
                        for event in events:
                            if event.memory_id in visible:
                                listener(LaravelChange(event))
            finally:
                running.clear()  # in the same loop iteration in which the queue was empty, so that the next event starts a task again

        def told(event: Event) -> None:
            if event.memory_id is not None and (event.scope is None or fold(event.scope) == fold(SCOPE)):
                waiting.append(event)
                if not running:
                    running.add(asyncio.ensure_future(tell()))

        unsubscribe = self._events.subscribe(told)

        def stop() -> None:
            unsubscribe()
            waiting.clear()

        return stop

    async def _visible_ids(self, memory_ids: Sequence[MemoryId]) -> set[MemoryId]:
        """Return the changed memories, or tombstones, that the caller may see."""
        engine, own = await self._engine(), Caller.of(self._session)
        view = make_view(own.organization, own.user, None)
        owners = await find_owners(engine, memory_ids)
        return {memory_id for memory_id, owner in owners.items() if view.allows_owners(owner)}

    def failure(self, exc: InfiniteMemoryError) -> RpcError:
        return failure(exc)


@dataclass(frozen=True, slots=True)
class LaravelChange:
    """A change for subscribers of resources."""

    event: Event

    @property
    def is_list(self) -> bool:
        return False

    @property
    def topics(self) -> list[str]:
        return [ANYTHING, *([self.event.memory_id] if self.event.memory_id is not None else [])]


def _wrap_result(reply: Json, warnings: list[str]) -> Json:
    """Return a reply as a tool's result: a string, a list, or an object, as text, the form of the contract.

    A list cannot hold warnings: they are in a second text. The notice is in ``_meta``, as the contract's document has one text.
    """
    texts: list[str] = []
    if "text" in reply:
        text = str(reply["text"]) + "".join(f"\nWarning: {warning}" for warning in warnings)
    elif "list" in reply:
        text = json.dumps(reply["list"], ensure_ascii=False)
        texts = [json.dumps({"warnings": warnings}, ensure_ascii=False)] if warnings else []
    else:
        text = json.dumps(reply | ({"warnings": warnings} if warnings else {}), ensure_ascii=False)
    content = [{"type": "text", "text": block} for block in (text, *texts)]
    return {"content": content} | ({} if "text" in reply else {"_meta": {"notice": NOTICE}})
