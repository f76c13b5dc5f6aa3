"""The native contract: ``{"action": ...}`` in, one flat reply out. Its table is also what the MCP tools are made from.

`NativeContract.handle` is the whole of it: find the command, check its fields, run it, map what failed. Nothing that a client
sends ends the process, and nothing but a fault of ours answers INTERNAL_ERROR.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from infinite_memory.contracts.base import Command, Reply
from infinite_memory.contracts.fields import Checking, Json, parse_fields
from infinite_memory.contracts.kinds import AnyField, TextField
from infinite_memory.contracts.native import (  # enter their commands
    forgetting,
    keeping,
    lifecycle,
    reading,
    scoping,
    writing,
)
from infinite_memory.contracts.native.failures import failure
from infinite_memory.contracts.native.table import TABLE, Call, Session, untold
from infinite_memory.engine import Engine
from infinite_memory.engine.clock import Clock, system_clock
from infinite_memory.engine.parts import Progress
from infinite_memory.errors import InfiniteMemoryError, InvalidRequestError, shown

log = logging.getLogger(__name__)

__all__ = ["TABLE", "NativeContract", "Session", "forgetting", "keeping", "lifecycle", "reading", "scoping", "writing"]

_ENVELOPE = (
    TextField(name="action", about="Name of the command", required=True),
    AnyField(name="request_id", about="Any value; it is echoed in the reply"),
)


class NativeContract:
    """One client's conversation with the engine. Requests are handled one after another.

    *engine* is asked for the engine when a command first needs it, so that bad input, `ping` and `help` wait for nothing.
    """

    def __init__(self, engine: Callable[[], Awaitable[Engine]], session: Session, clock: Clock = system_clock) -> None:
        self._engine = engine
        self.session = session
        self._clock = clock

    async def handle(self, request: Json, progress: Progress | None = None) -> Reply:
        """Answer one request, and tell *progress*, else the session's, of long work; never raises but for cancellation."""
        envelope = {"request_id": request["request_id"]} if request.get("request_id") is not None else {}
        checking = Checking(self.session.limits, self.session.zone)
        try:
            reply = await self.run(request, checking, progress or self.session.progress)
        except InfiniteMemoryError as problem:
            reply = self.refuse(problem)
        except Exception:
            log.exception("a command failed", extra={"event": "command_failed", "action": shown(request.get("action"))})
            reply = {
                "status": "ERROR",
                "error": "internal error; the log has the details",
                "error_code": "INTERNAL_ERROR",
            }
        if checking.warnings:
            reply["warnings"] = checking.warnings
        return reply | envelope

    def refuse(self, problem: InfiniteMemoryError) -> Reply:
        """Write the reply to what failed; also for lines that are no request at all."""
        return {"status": "ERROR"} | failure(problem)

    async def run(self, request: Json, checking: Checking, progress: Progress = untold) -> Reply:
        """Answer one request; its warnings are left in *checking*.

        Raises:
            InfiniteMemoryError: it failed.
        """
        command = _find(request.get("action"))
        session = self.session
        if (zone := request.get("timezone")) is not None:
            for field in command.fields:
                if field.name == "timezone":
                    checking.zone = field.parse(zone, "timezone", checking)
                    session = dataclasses.replace(session, zone=checking.zone)
        fields = parse_fields((*_ENVELOPE, *command.fields), request, "", checking)
        engine = None if command.offline else await self._engine()
        call = Call(engine, session, fields, checking, self._clock, progress)
        reply = {"status": "OK"} | await command.run(call)
        if session is not self.session:
            self.session.active_scope = session.active_scope
        return reply


def _find(action: Any) -> Command[Call]:
    if not isinstance(action, str):
        expected = "action: is required" if action is None else f"action: {shown(action)} is not the name of a command"
        raise InvalidRequestError("", f'{expected}; {{"action": "help"}} lists the commands')
    command = TABLE.find(action)
    if command is None:
        near = TABLE.nearest(action)
        hint = f"did you mean {' or '.join(near)}?" if near else '{"action": "help"} lists the commands'
        raise InvalidRequestError("action", f"{shown(action)} is not a command; {hint}")
    return command
