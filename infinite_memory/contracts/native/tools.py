"""The commands of the native contract as MCP tools: how a model sees them, and how a call becomes a request and a result.

The same commands, fields and replies as in the action loop, from the same table. What is added here is for models: hints when not
to use a tool, a question to the user before anything is removed for good or replaced (`consent`), progress of long work, and a cap
on the size of an answer.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable, Collection
from typing import Any

from infinite_memory.contracts.base import Command
from infinite_memory.contracts.errors import failure
from infinite_memory.contracts.fields import Json, ValidationContext, parse_fields
from infinite_memory.contracts.large_requests import check_fields
from infinite_memory.contracts.mcp import Answer, ToolCall, describe_hints, with_notice
from infinite_memory.contracts.native.consent import CONFIRM, QUESTIONS, Proposal, Refused, propose
from infinite_memory.contracts.native.contract import NativeContract
from infinite_memory.contracts.native.output_schemas import result_schema
from infinite_memory.contracts.native.table import LONG, TABLE, CommandContext
from infinite_memory.contracts.native.truncation import capped
from infinite_memory.contracts.session import ClientSession
from infinite_memory.engine.agreement import Agreement
from infinite_memory.errors import InvalidRequestError, truncated_repr

CORE = (
    "store_memory",
    "retrieve_memory",
    "search_by_tag",
    "search_by_scope",
    "recall_memory_by_time",
    "get_memory",
    "update_memory",
    "delete_memory",
    "restore_memory",
    "create_memory_scope",
    "list_memory_scopes",
    "set_active_scope",
    "get_memory_stats",
)
"""What `mcp.tools = "core"` offers: remembering, finding, forgetting and scopes; no upkeep."""

NO_TOOLS = frozenset({"repair_documents"})
"""For whoever runs the machine, not for a model."""

NOT_FOR = {
    "store_memory": "Not for passwords or small talk; not for a fact that is stored already and has changed: update_memory.",
    "retrieve_memory": "Not for a stretch of time alone: recall_memory_by_time. Not for a tag alone: search_by_tag.",
    "search_by_tag": "Not for questions: retrieve_memory.",
    "search_by_scope": "Not for questions over everything: retrieve_memory.",
    "recall_memory_by_time": "Not where no time is meant: retrieve_memory.",
    "delete_memory": "Not to correct something: update_memory.",
    "create_memory_scope": "Not for labels: tags do that.",
    "restore_backup": "Not to undo forgetting: restore_memory.",
    "reindex": "Not for searches that find little: rephrase instead.",
}

QUOTING = frozenset({"results", "memory", "memories", "scopes", "stats", "details", "skipped_entries"})
"""Members of replies that hold what was stored: texts, names and descriptions."""
MAX_PROPOSED = 100  # questions that wait for an assistant's word
PROGRESS_S = 1.0
CREEP = 0.001  # what a second without news adds to a client's progress


OpenContract = Callable[[ClientSession, Agreement | None], NativeContract]


def offered(which: str) -> list[Command[CommandContext]]:
    """List the commands that are tools: ``core`` or ``all``."""
    return [command for command in TABLE if command.name not in NO_TOOLS and (which == "all" or command.name in CORE)]


def describe_tool(command: Command[CommandContext]) -> Json:
    """Describe a command as a tool."""
    schema = command.schema()
    if command.name in QUESTIONS:
        schema["properties"] = {**schema["properties"], CONFIRM.name: CONFIRM.described()}
    about = command.about if command.name not in NOT_FOR else f"{command.about} {NOT_FOR[command.name]}"
    return {
        "name": command.name,
        "title": command.title,
        "description": about,
        "inputSchema": schema,
        "outputSchema": result_schema(command.name),
        "annotations": describe_hints(command),
    }


class Tools:
    """One client's tools. Calls may run side by side."""

    def __init__(self, open_contract: OpenContract, session: ClientSession, which: str) -> None:
        self._open, self._session, self._which = open_contract, session, which
        self._moving: asyncio.Future[Json] | None = None  # a change of the active scope that is under way
        self._finishing: set[asyncio.Future[Json]] = set()
        self._proposed: dict[str, str] = {}  # marks of questions that the assistant is to put to its user, by request

    def list_all(self) -> list[Json]:
        """Describe every tool that is offered."""
        return [describe_tool(command) for command in offered(self._which)]

    def _hint(self, name: str, commands: Collection[str]) -> str:
        """Return what to say of a tool that there is none of: where it is one, or which may be meant."""
        if TABLE.find(name) is not None and name not in NO_TOOLS:
            return f"; it is none of the {self._which} tools (setting mcp.tools)"
        near = [other for other in TABLE.nearest(name) if other in commands]
        return f"; did you mean {' or '.join(near)}?" if near else ""

    async def call(self, name: str, arguments: Json, call: ToolCall) -> Json:
        """Run a tool and give its result."""
        commands = {command.name: command for command in offered(self._which)}
        command = commands.get(name)
        if command is None:
            error = f"Unknown tool: {truncated_repr(name)}{self._hint(name, commands)}"
            return wrap_result({"status": "ERROR", "error": error, "error_code": "NOT_FOUND"})
        warnings: list[str] = []
        agreed: Agreement | None = None
        if command.name in QUESTIONS:
            try:
                confirmed = self._is_confirmed(arguments, warnings)
            except InvalidRequestError as exc:
                return wrap_result({"status": "ERROR"} | failure(exc))
            arguments = {key: value for key, value in arguments.items() if key != CONFIRM.name}
            answer = await self._ask_first(command, arguments, call, confirmed=confirmed)
            if isinstance(answer, Refused):
                return wrap_result(answer.reply)
            agreed = answer
        reply = await self._run(command, arguments, call, agreed)
        if warnings:
            reply["warnings"] = [*warnings, *reply.get("warnings", ())]
        for warning in reply.get("warnings", ()):
            await call.log("warning", warning)
        return await check_fields(reply, lambda: wrap_result(reply))

    def _is_confirmed(self, arguments: Json, warnings: list[str]) -> bool:
        checking = ValidationContext(self._session.limits, self._session.zone, warnings, strict=True)
        given = {name: value for name, value in arguments.items() if name == CONFIRM.name}
        return parse_fields((CONFIRM,), given, "", checking).flag(CONFIRM.name)

    async def ask(self, action: str, **fields: Any) -> Json:
        """Send one request of the native contract on this client's behalf, and give the reply."""
        return await self._open(dataclasses.replace(self._session), None).handle({**fields, "action": action})

    async def _run(
        self, command: Command[CommandContext], arguments: Json, call: ToolCall, agreed: Agreement | None
    ) -> Json:
        if self._moving is not None:
            await asyncio.wait([self._moving])
        session = dataclasses.replace(self._session)  # of its own: calls run side by side
        active = session.active_scope
        told = Told(command.title)
        contract = self._open(session, agreed)
        work = asyncio.ensure_future(contract.handle({**arguments, "action": command.name}, told.take))
        if command.name == "set_active_scope":
            self._moving = work
        try:
            reply = await (_with_progress(work, told, call) if command.name in LONG else self._finish(work, command))
        finally:
            if self._moving is work:
                self._moving = None
        if command.name == "set_active_scope" or self._session.active_scope == active:
            self._session.active_scope = session.active_scope
        return reply

    async def _finish(self, work: asyncio.Future[Json], command: Command[CommandContext]) -> Json:
        """Wait for a call. A cancelled one stops, unless it writes: half a write would help nobody."""
        if command.read_only:
            return await work
        self._finishing.add(work)
        work.add_done_callback(self._finishing.discard)
        return await asyncio.shield(work)

    async def _ask_first(
        self, command: Command[CommandContext], arguments: Json, call: ToolCall, *, confirmed: bool
    ) -> Agreement | Refused | None:
        """Ask the user before something is removed or handed on; returns what the command is held to, or the reply that refuses."""
        proposal = await propose(command, arguments, self._open(dataclasses.replace(self._session), None))
        if not isinstance(proposal, Proposal):
            return proposal
        if proposal.question is None:
            return proposal.agreement
        mark = await proposal.agreement.mark(proposal.question)
        answer = await call.confirm(proposal.question, mark)
        request = json.dumps([command.name, arguments], sort_keys=True)
        if answer is Answer.ACCEPTED or (
            answer is Answer.NOT_ASKED and confirmed and self._proposed.pop(request, mark) == mark
        ):
            return proposal.agreement
        message = "the user did not agree; nothing was changed"
        if answer is Answer.NOT_ASKED:
            self._remember(request, mark)
            since = "It is not what was asked about before. " if confirmed else ""
            message = (
                f"{proposal.question} {since}Nothing was changed yet. Ask the user, then call again with confirm: true"
            )
        return Refused({"status": "ERROR", "error": message, "error_code": "INVALID_REQUEST"})

    def _remember(self, request: str, mark: str) -> None:
        """Keep what an assistant was told to ask, so that its word counts for that and nothing else."""
        self._proposed.pop(request, None)
        self._proposed[request] = mark
        if len(self._proposed) > MAX_PROPOSED:
            del self._proposed[next(iter(self._proposed))]


def wrap_result(reply: Json) -> Json:
    """Wrap a reply as a tool's result: structured, and the same JSON as text."""
    if QUOTING & reply.keys() and reply.get("status") == "OK":
        reply = with_notice(reply)
    reply, text = capped(reply)
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": reply,
        "isError": reply.get("status") != "OK",
    }


class Told:
    """How far long work is, as the client is told."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._done, self._total, self._shown = 0, 0, -CREEP
        self._is_wanted = True

    def take(self, done: int, total: int) -> None:
        """Learn how much is done, of how much; 0 for unknown.

        Raises:
            CancelledError: nobody wants the work any more. Before Python 3.12 `asyncio.wait_for` loses a cancellation that comes when
                what it waits for is done already, and the database's driver sends by it.
        """
        if not self._is_wanted:
            raise asyncio.CancelledError
        self._done, self._total = done, total

    def stop(self) -> None:
        """Let the work end where it next tells how far it is."""
        self._is_wanted = False

    def next(self, seconds: int) -> tuple[float, float | None, str]:
        """Return value, total and words of the next notification. The value has to grow each time, by the protocol."""
        self._shown = round(max(self._done, self._shown + CREEP), 3)
        known = self._total >= self._shown > 0
        counted = f"{self._done:,}" + (f" of {self._total:,}" if known else "") + " done, " if self._done else ""
        return self._shown, self._total if known else None, f"{self._title}: {counted}{seconds} s"


async def _with_progress(work: Awaitable[Json], told: Told, call: ToolCall) -> Json:
    """Wait for long work, and tell once a second how far it is. It stops when the call is cancelled, wherever it can be left as it is."""
    task = asyncio.ensure_future(work)
    seconds = 0
    try:
        while True:
            await call.progress(*told.next(seconds))
            done, _ = await asyncio.wait([task], timeout=PROGRESS_S if call.wants_progress else None)
            if done:
                return task.result()
            seconds += 1
    except asyncio.CancelledError:
        told.stop()
        task.cancel()
        raise
