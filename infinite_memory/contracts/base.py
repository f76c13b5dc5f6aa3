"""The building blocks of a contract's table: commands that own their fields.

The table is the only description of a command: it validates requests, and help, JSON Schemas, the reference and the
MCP tools are generated from it. Rules shared by all contracts are in `fields`; those of one contract in its own package.
"""

from __future__ import annotations

import difflib
import enum
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from infinite_memory.contracts.fields import Field, Fields, Json, ValidationContext, object_schema, parse_fields
from infinite_memory.loop_watchdog import running

Reply = dict[str, Any]
CallT = TypeVar("CallT")


class Effect(enum.Enum):
    """What happens to a request whose client cancels it or disconnects.

    ``READS`` is cancelled. ``WRITES`` is completed, as half a write helps nobody. ``LONG`` is completed when its client disconnects, and
    stopped at a safe point when the client cancels it or the process has to exit.
    """

    READS = enum.auto()
    WRITES = enum.auto()
    LONG = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Generic[CallT]):
    """One row of a contract's table. ``run`` gets the call and returns the reply's fields.

    The hints mean the same as MCP's annotations: ``read_only`` changes nothing, ``destructive`` may remove existing data,
    ``idempotent`` has no further effect if repeated with the same fields. An ``offline`` command needs no engine.
    ``replaces`` says, for a command that is not destructive in general, whether a request with these fields replaces existing data.
    """

    name: str
    title: str
    about: str
    fields: tuple[Field, ...]
    run: Callable[[CallT], Awaitable[Reply]]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    offline: bool = False
    replaces: Callable[[Mapping[str, Any]], bool] | None = None

    def is_strict(self, request: Mapping[str, Any]) -> bool:
        """True if unknown fields of *request* are rejected instead of ignored with a warning."""
        return self.destructive or (self.replaces is not None and self.replaces(request))

    def check(self, request: Mapping[str, Any], checking: ValidationContext) -> Fields:
        """Return the validated fields of a request.

        Raises:
            InvalidRequestError: a field is missing or invalid, or unknown to a command that destroys or replaces.
        """
        return parse_fields(self.fields, request, "", checking.with_strict(self.is_strict(request)))

    def schema(self) -> Json:
        """Return the JSON Schema of the command's fields."""
        return object_schema(self.fields)


class Table(Generic[CallT]):
    """The commands of one contract, by name."""

    def __init__(self) -> None:
        self._commands: dict[str, Command[CallT]] = {}

    def __iter__(self) -> Iterator[Command[CallT]]:
        return iter(self._commands.values())

    def names(self) -> list[str]:
        """Return the names of the commands, in order."""
        return list(self._commands)

    def find(self, name: str) -> Command[CallT] | None:
        """Return the command of exactly that name, or None."""
        return self._commands.get(name)

    def effect(self, name: object) -> Effect:
        """Return the effect of the command of that name; an unknown one has none."""
        command = self._commands.get(name) if isinstance(name, str) else None
        return Effect.READS if command is None or command.read_only else Effect.WRITES

    def nearest(self, name: str) -> list[str]:
        """Return the names similar to *name*."""
        return difflib.get_close_matches(name[:100], list(self._commands), n=2)

    def command(
        self,
        name: str,
        *fields: Field,
        title: str,
        replaces: Callable[[Mapping[str, Any]], bool] | None = None,
        **hints: bool,
    ) -> Callable[[Callable[[CallT], Awaitable[Reply]]], Callable[[CallT], Awaitable[Reply]]]:
        """Register a handler in the table; its docstring becomes its description in help and tools."""

        def enter(run: Callable[[CallT], Awaitable[Reply]]) -> Callable[[CallT], Awaitable[Reply]]:
            about = " ".join((run.__doc__ or "").split())

            async def watched(call: CallT) -> Reply:
                with running(name):
                    return await run(call)

            self._commands[name] = Command(
                name=name, title=title, about=about, fields=fields, run=watched, replaces=replaces, **hints
            )
            return run

        return enter
