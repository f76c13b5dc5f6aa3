"""The action loop of a contract: ``{"action": NAME, ...}`` in, one flat reply out, driven by the contract's table.

`ActionLoop.handle` does everything: find the command, validate its fields, run it, map errors. Nothing that a client
sends ends the process, and only an internal error answers INTERNAL_ERROR.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Generic

from infinite_memory.contracts.base import CallT, Command, Effect, Reply, Table
from infinite_memory.contracts.errors import failure
from infinite_memory.contracts.field_types import AnyField, TextField
from infinite_memory.contracts.fields import Fields, Json, ValidationContext, parse_fields
from infinite_memory.contracts.large_requests import check_fields
from infinite_memory.contracts.session import ClientSession, ContractContext, OpenEngine, RequestContext
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.types import Progress
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, truncated_repr

log = logging.getLogger(__name__)

_ENVELOPE = (
    TextField(name="action", about="Name of the command", required=True),
    AnyField(name="request_id", about="Any value; it is echoed in the reply"),
)


class ActionLoop(Generic[CallT]):
    """One client's session with the engine. Requests are handled sequentially."""

    def __init__(self, table: Table[CallT], engine: OpenEngine, session: ClientSession) -> None:
        self._table, self._engine, self.session = table, engine, session

    async def engine(self) -> Engine:
        """Return the engine, waiting until it is ready."""
        return await self._engine()

    async def handle(self, request: Json, progress: Progress | None = None) -> Reply:
        """Answer one request, reporting long work to *progress* or else the session's; never raises except on cancellation."""
        envelope = {"request_id": request["request_id"]} if request.get("request_id") is not None else {}
        checking = ValidationContext(self.session.limits, self.session.zone)
        try:
            reply = await self.run(request, checking, progress or self.session.progress)
        except InfiniteMemoryError as exc:
            reply = self.refuse(exc)
        except Exception:
            log.exception(
                "a command failed", extra={"event": "command_failed", "action": truncated_repr(request.get("action"))}
            )
            reply = {
                "status": "ERROR",
                "error": "internal error; the log has the details",
                "error_code": "INTERNAL_ERROR",
            }
        if checking.warnings:
            reply["warnings"] = checking.warnings
        return reply | envelope

    def refuse(self, exc: InfiniteMemoryError) -> Reply:
        """Return the reply to an error; also for lines that are not requests."""
        return {"status": "ERROR"} | failure(exc, in_full=self.session.is_local)

    def effect(self, request: Json) -> Effect:
        """Return the effect of a request, for a session that is cut short."""
        return self._table.effect(request.get("action"))

    async def run(self, request: Json, checking: ValidationContext, progress: Progress) -> Reply:
        """Answer one request; its warnings are collected in *checking*.

        Raises:
            InfiniteMemoryError: it failed.
        """
        command = find_command(self._table, request.get("action"))
        fields = await check_fields(request, lambda: self.check(command, request, checking))
        return await self.execute(command, fields, checking, progress)

    def check(self, command: Command[CallT], request: Mapping[str, Any], checking: ValidationContext) -> Fields:
        """Return the validated fields of a request to *command*.

        Raises:
            InvalidRequestError: a field is missing or invalid, or unknown to a command that destroys or replaces.
        """
        strict = checking.with_strict(command.is_strict(request))
        return parse_fields((*_ENVELOPE, *command.fields), request, "", strict)

    async def execute(
        self, command: Command[CallT], fields: Fields, checking: ValidationContext, progress: Progress
    ) -> Reply:
        """Run a command with validated fields; the contract builds the command's context."""
        raise NotImplementedError


class TableLoop(ActionLoop[RequestContext]):
    """The action loop of a contract whose commands take a `RequestContext`."""

    def __init__(self, table: Table[RequestContext], context: ContractContext) -> None:
        super().__init__(table, context.engine, context.session)

    async def execute(
        self, command: Command[RequestContext], fields: Fields, checking: ValidationContext, progress: Progress
    ) -> Reply:
        call = RequestContext(await self.engine(), self.session, fields, checking)
        return {"status": "OK"} | await command.run(call)


def find_command(table: Table[CallT], action: Any) -> Command[CallT]:
    """Return the command that a request names.

    Raises:
        InvalidRequestError: there is no such command; suggests similar names.
    """
    listing = '{"action": "help"} lists the commands' if table.find("help") else f"known: {', '.join(table.names())}"
    if not isinstance(action, str):
        expected = (
            "action: is required"
            if action is None
            else f"action: {truncated_repr(action)} is not the name of a command"
        )
        raise InvalidRequestError("", f"{expected}; {listing}")
    command = table.find(action)
    if command is None:
        near = table.nearest(action)
        hint = f"did you mean {' or '.join(near)}?" if near else listing
        raise InvalidRequestError("action", f"{truncated_repr(action)} is not a command; {hint}")
    return command
