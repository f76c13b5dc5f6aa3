"""What a contract's table is made of: commands that own their fields.

The table is the only description of a command: requests are checked by it, and help, JSON Schemas, the reference and the
MCP tools are read from it. Rules that all contracts share live in `fields`; what only one contract says lives in its own file.
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
    """What becomes of a request whose client takes it back or is gone.

    ``READS`` is stopped. ``WRITES`` is finished, for half a write would help nobody. ``LONG`` is finished when its client is gone, and
    stopped where it can be left as it is when the client takes it back or the process has to end.
    """

    READS = enum.auto()
    WRITES = enum.auto()
    LONG = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Generic[CallT]):
    """One row of a contract's table. ``run`` gets the call and answers with the reply's fields.

    The hints mean what MCP's annotations mean: ``read_only`` changes nothing, ``destructive`` may remove what is there,
    ``idempotent`` has no further effect when repeated with the same fields. An ``offline`` command needs no engine.
    ``replaces`` tells for a command that is not destructive in general whether a request of these fields replaces what is there.
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

    def is_strict(self, given: Mapping[str, Any]) -> bool:
        """True if unknown fields of the request *given* are refused instead of ignored with a warning."""
        return self.destructive or (self.replaces is not None and self.replaces(given))

    def check(self, given: Mapping[str, Any], checking: ValidationContext) -> Fields:
        """Return the checked fields of a request.

        Raises:
            InvalidRequestError: a field is missing or wrong, or unknown to a command that destroys or replaces.
        """
        return parse_fields(self.fields, given, "", checking.with_strict(self.is_strict(given)))

    def schema(self) -> Json:
        """Describe the command's fields as JSON Schema."""
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
        """Return the command of that name, letter for letter, or None."""
        return self._commands.get(name)

    def effect(self, name: object) -> Effect:
        """Return what the command of that name does; an unknown one does nothing."""
        command = self._commands.get(name) if isinstance(name, str) else None
        return Effect.READS if command is None or command.read_only else Effect.WRITES

    def nearest(self, name: str) -> list[str]:
        """List the names that *name* may have been meant for."""
        return difflib.get_close_matches(name[:100], list(self._commands), n=2)

    def command(
        self,
        name: str,
        *fields: Field,
        title: str,
        replaces: Callable[[Mapping[str, Any]], bool] | None = None,
        **hints: bool,
    ) -> Callable[[Callable[[CallT], Awaitable[Reply]]], Callable[[CallT], Awaitable[Reply]]]:
        """Enter a handler into the table; its docstring is what help and tools say about it."""

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
