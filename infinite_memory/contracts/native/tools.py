"""The commands of the native contract as MCP tools: their descriptions for a model, and the conversion of calls and results.

The same commands, fields and replies as in the action loop, from the same table. This module adds what models need: hints when not
to use a tool, a question to the user before anything is permanently removed or replaced (`consent`), progress of long work, and a limit
on the size of a reply.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Awaitable, Callable, Collection
from functools import partial
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
from infinite_memory.contracts.native.truncation import as_shorter, capped, count_shown
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
"""The tools of `mcp.tools = "core"`: remembering, finding, forgetting and scopes; no maintenance."""

NO_TOOLS = frozenset({"repair_documents"})
"""For the operator of this machine, not for a model."""

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
"""Fields of replies that contain stored text: texts, names and descriptions."""
MAX_PROPOSED = 100  # questions that wait for an assistant's confirmation
PROGRESS_S = 1.0
CREEP = 0.001  # added to a client's progress each second without an update


OpenContract = Callable[[ClientSession, Agreement | None], NativeContract]


def offered(tool_set: str) -> list[Command[CommandContext]]:
    """Return the commands that are tools: ``core`` or ``all``."""
    return [
        command for command in TABLE if command.name not in NO_TOOLS and (tool_set == "all" or command.name in CORE)
    ]


def describe_tool(command: Command[CommandContext]) -> Json:
    """Return a command's tool definition."""
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
    """One client's tools. Calls may run concurrently."""

    def __init__(self, open_contract: OpenContract, session: ClientSession, tool_set: str) -> None:
        self._open, self._session, self._tool_set = open_contract, session, tool_set
        self._moving: asyncio.Future[Json] | None = None  # a running change of the active scope
        self._finishing: set[asyncio.Future[Json]] = set()
        self._proposed: dict[str, str] = {}  # marks of questions that the assistant should ask its user, by request

    def list_all(self) -> list[Json]:
        """Return the definition of every enabled tool."""
        return [describe_tool(command) for command in offered(self._tool_set)]

    def _hint(self, name: str, commands: Collection[str]) -> str:
        """Return a hint about an unknown tool: where it is available, or a similar name."""
        if TABLE.find(name) is not None and name not in NO_TOOLS:
            return f"; it is none of the {self._tool_set} tools (setting mcp.tools)"
        near = [candidate for candidate in TABLE.nearest(name) if candidate in commands]
        return f"; did you mean {' or '.join(near)}?" if near else ""

    async def call(self, name: str, arguments: Json, call: ToolCall) -> Json:
        """Run a tool and return its result."""
        commands = {command.name: command for command in offered(self._tool_set)}
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
        if command.read_only:
            reply = await self._fit_page(command, arguments, call, reply)
        if warnings:
            reply["warnings"] = [*warnings, *reply.get("warnings", ())]
        for warning in reply.get("warnings", ()):
            await call.log("warning", warning)
        return await check_fields(reply, lambda: wrap_result(reply))

    async def _fit_page(self, command: Command[CommandContext], arguments: Json, call: ToolCall, page: Json) -> Json:
        """Return a page of a listing, shorter if it is too large for a reply: read again, for its cursor must skip nothing."""

        def count(page: Json) -> int | None:
            return count_shown(_with_notice(page))

        while (shown := await check_fields(page, partial(count, page))) is not None:
            shorter = await self._run(command, {**arguments, "limit": shown}, call, None)
            if "next_cursor" not in shorter:  # the listing failed this time
                break
            page = as_shorter(shorter)
        return page

    def _is_confirmed(self, arguments: Json, warnings: list[str]) -> bool:
        checking = ValidationContext(self._session.limits, self._session.zone, warnings, strict=True)
        confirmation = {name: value for name, value in arguments.items() if name == CONFIRM.name}
        return parse_fields((CONFIRM,), confirmation, "", checking).flag(CONFIRM.name)

    async def ask(self, action: str, **fields: Any) -> Json:
        """Send a request of the native contract for this client, and return the reply."""
        return await self._open(dataclasses.replace(self._session), None).handle({**fields, "action": action})

    async def _run(
        self, command: Command[CommandContext], arguments: Json, call: ToolCall, agreement: Agreement | None
    ) -> Json:
        if self._moving is not None:
            await asyncio.wait([self._moving])
        session = dataclasses.replace(self._session)  # a copy: calls run concurrently
        active = session.active_scope
        progress = Told(command.title)
        contract = self._open(session, agreement)
        work = asyncio.ensure_future(contract.handle({**arguments, "action": command.name}, progress.take))
        if command.name == "set_active_scope":
            self._moving = work
        try:
            reply = await (
                _with_progress(work, progress, call) if command.name in LONG else self._finish(work, command)
            )
        finally:
            if self._moving is work:
                self._moving = None
        if command.name == "set_active_scope" or self._session.active_scope == active:
            self._session.active_scope = session.active_scope
        return reply

    async def _finish(self, future: asyncio.Future[Json], command: Command[CommandContext]) -> Json:
        """Wait for a call. Cancelling it stops the call, unless it writes: half a write helps nobody."""
        if command.read_only:
            return await future
        self._finishing.add(future)
        future.add_done_callback(self._finishing.discard)
        return await asyncio.shield(future)

    async def _ask_first(
        self, command: Command[CommandContext], arguments: Json, call: ToolCall, *, confirmed: bool
    ) -> Agreement | Refused | None:
        """Ask the user before memories are removed or exported; return what the command is limited to, or the reply that rejects it."""
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
        """Store what an assistant was told to ask, so that its confirmation applies to that and nothing else."""
        self._proposed.pop(request, None)
        self._proposed[request] = mark
        if len(self._proposed) > MAX_PROPOSED:
            del self._proposed[next(iter(self._proposed))]


def wrap_result(reply: Json) -> Json:
    """Return a reply as a tool's result: structured, and the same JSON as text."""
    reply, text = capped(_with_notice(reply))
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": reply,
        "isError": reply.get("status") != "OK",
    }


def _with_notice(reply: Json) -> Json:
    return with_notice(reply) if QUOTING & reply.keys() and reply.get("status") == "OK" else reply


class Told:
    """The progress of long work, as sent to the client."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._done, self._total, self._shown = 0, 0, -CREEP
        self._is_wanted = True

    def take(self, done: int, total: int) -> None:
        """Report *done* of *total*; a total of 0 is unknown.

        Raises:
            CancelledError: the work is no longer wanted. Before Python 3.12 `asyncio.wait_for` loses a cancellation that arrives when
                the awaited future is done already, and the database driver sends through it.
        """
        if not self._is_wanted:
            raise asyncio.CancelledError
        self._done, self._total = done, total

    def stop(self) -> None:
        """Make the work stop when it next reports progress."""
        self._is_wanted = False

    def next(self, seconds: int) -> tuple[float, float | None, str]:
        """Return value, total and message of the next notification. By the protocol, the value must grow each time."""
        self._shown = round(max(self._done, self._shown + CREEP), 3)
        has_total = self._total >= self._shown > 0
        counted = f"{self._done:,}" + (f" of {self._total:,}" if has_total else "") + " done, " if self._done else ""
        return self._shown, self._total if has_total else None, f"{self._title}: {counted}{seconds} s"


async def _with_progress(awaitable: Awaitable[Json], progress: Told, call: ToolCall) -> Json:
    """Wait for long work, and report its progress once a second. If the call is cancelled, the work stops at a safe point."""
    task = asyncio.ensure_future(awaitable)
    seconds = 0
    try:
        while True:
            await call.progress(*progress.next(seconds))
            done, _ = await asyncio.wait([task], timeout=PROGRESS_S if call.wants_progress else None)
            if done:
                return task.result()
            seconds += 1
    except asyncio.CancelledError:
        progress.stop()
        task.cancel()
        raise
