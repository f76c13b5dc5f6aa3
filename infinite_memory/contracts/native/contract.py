"""The native contract: ``{"action": ...}`` in, one flat reply out. Its MCP tools are generated from the same table.

In addition to every action loop (`action_loop`), it supports long work, and a time zone for a single request.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from infinite_memory.clock import Clock, system_clock
from infinite_memory.contracts.action_loop import ActionLoop, find_command
from infinite_memory.contracts.base import Command, Effect, Reply
from infinite_memory.contracts.fields import Fields, Json, ValidationContext
from infinite_memory.contracts.large_requests import check_fields

# They register their commands, in the order of the table.
from infinite_memory.contracts.native import forget, admin, lifecycle, recall, repair, scopes, store  # isort: skip
from infinite_memory.contracts.native.table import LONG, TABLE, CommandContext
from infinite_memory.contracts.session import ClientSession, OpenAdministration, no_progress
from infinite_memory.engine.agreement import Agreement
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.types import Progress

__all__ = [
    "TABLE",
    "NativeContract",
    "admin",
    "forget",
    "lifecycle",
    "recall",
    "repair",
    "scopes",
    "store",
]


class NativeContract(ActionLoop[CommandContext]):
    """One client's session with the engine. Requests are handled sequentially.

    *engine* is awaited when a command first needs it, so that invalid input, `ping` and `help` need not wait. Without
    *administration*, commands about the whole memory are rejected. With *agreement*, requests are limited to what
    the user agreed to.
    """

    def __init__(
        self,
        engine: Callable[[], Awaitable[Engine]],
        session: ClientSession,
        clock: Clock = system_clock,
        administration: OpenAdministration | None = None,
        agreement: Agreement | None = None,
    ) -> None:
        super().__init__(TABLE, engine, session)
        self._clock, self._administration, self._agreement = clock, administration, agreement

    @property
    def open_administration(self) -> OpenAdministration | None:
        """Opens the administration of the whole memory; None for callers with restricted visibility."""
        return self._administration

    def effect(self, request: Json) -> Effect:
        return get_effect(request.get("action"))

    async def run(self, request: Json, checking: ValidationContext, progress: Progress = no_progress) -> Reply:
        return await super().run(request, checking, progress)

    def check(
        self, command: Command[CommandContext], request: Mapping[str, Any], checking: ValidationContext
    ) -> Fields:
        """Return the validated fields of a request to *command*; they may name the time zone in which the others are read."""
        checking.zone = _get_zone(command, request, checking)
        return super().check(command, request, checking)

    async def execute(
        self, command: Command[CommandContext], fields: Fields, checking: ValidationContext, progress: Progress
    ) -> Reply:
        call = await self._make_call(command, fields, checking, progress)
        reply = {"status": "OK"} | await command.run(call)
        if call.session is not self.session:
            self.session.active_scope = call.session.active_scope
        return reply

    async def open_call(self, action: str, fields: Mapping[str, Any], checking: ValidationContext) -> CommandContext:
        """Validate *fields* for the command *action*, and return the call, for callers that write the reply in another form.

        Raises:
            InfiniteMemoryError: a field is invalid, or the engine is unavailable.
        """
        command, request = find_command(TABLE, action), {**fields, "action": action}
        checked = await check_fields(request, lambda: self.check(command, request, checking))
        return await self._make_call(command, checked, checking, no_progress)

    async def _make_call(
        self, command: Command[CommandContext], fields: Fields, checking: ValidationContext, progress: Progress
    ) -> CommandContext:
        session = self.session
        if "timezone" in fields:
            session = dataclasses.replace(session, zone=fields["timezone"])
        engine = None if command.offline else await self.engine()
        return CommandContext(
            engine, session, fields, checking, self._clock, progress, None, self._administration, self._agreement
        )


def _get_zone(command: Command[CommandContext], request: Mapping[str, Any], checking: ValidationContext) -> ZoneInfo:
    named = request.get("timezone")
    for field in command.fields:
        if field.name == "timezone" and named is not None and not field.is_empty(named, checking):
            zone: ZoneInfo = field.parse(named, "timezone", checking)
            return zone
    return checking.zone


def get_effect(action: Any) -> Effect:
    """Return the effect of the command of that name."""
    return Effect.LONG if isinstance(action, str) and action in LONG else TABLE.effect(action)
