"""What a contract's table is made of: commands that own their fields.

The table is the only description of a command: requests are checked by it, and help, JSON Schemas, the README's table and the
MCP tools are read from it. Rules that all contracts share live in `fields`; what only one contract says lives in its own file.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from infinite_memory.contracts.fields import Field, Json, object_schema

Reply = dict[str, Any]
CallT = TypeVar("CallT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Command(Generic[CallT]):
    """One row of a contract's table. ``run`` gets the call and answers with the reply's fields.

    The hints mean what MCP's annotations mean: ``read_only`` changes nothing, ``destructive`` may remove what is there,
    ``idempotent`` has no further effect when repeated with the same fields. An ``offline`` command needs no engine.
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

    def schema(self) -> Json:
        """Describe the command's fields as JSON Schema."""
        return object_schema(self.fields)


class Table(Generic[CallT]):
    """The commands of one contract, by name."""

    def __init__(self) -> None:
        self._commands: dict[str, Command[CallT]] = {}

    def __iter__(self) -> Iterator[Command[CallT]]:
        return iter(self._commands.values())

    def find(self, name: str) -> Command[CallT] | None:
        """Give the command of that name, letter for letter, or None."""
        return self._commands.get(name)

    def nearest(self, name: str) -> list[str]:
        """List the names that *name* may have been meant for."""
        return difflib.get_close_matches(name[:100], list(self._commands), n=2)

    def command(
        self, name: str, *fields: Field, title: str, **hints: bool
    ) -> Callable[[Callable[[CallT], Awaitable[Reply]]], Callable[[CallT], Awaitable[Reply]]]:
        """Enter a handler into the table; its docstring is what help and tools say about it."""

        def enter(run: Callable[[CallT], Awaitable[Reply]]) -> Callable[[CallT], Awaitable[Reply]]:
            about = " ".join((run.__doc__ or "").split())
            self._commands[name] = Command(name=name, title=title, about=about, fields=fields, run=run, **hints)
            return run

        return enter
