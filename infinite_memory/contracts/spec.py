"""The specification of a contract, available without loading it: the base of every ``contracts/<name>/spec.py``.

A spec says how clients request the contract, which front ends it supports, and which flags, variables and settings belong to it. The
command line, the daemon and the settings read this through the `registry` and know no contract by name.

Standard library only, and little of it (a `NamedTuple` alone takes half a millisecond): `serve` imports this.
"""

from __future__ import annotations

import enum
import importlib
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infinite_memory.contracts.action_loop import ActionLoop
    from infinite_memory.contracts.base import Table
    from infinite_memory.contracts.mcp import McpServer
    from infinite_memory.contracts.session import ContractContext


class FrontEnd(enum.Enum):
    """How a client may use a contract."""

    MCP = "mcp"
    HTTP = "http"
    LINES = "lines"


class Option:
    """A ``serve`` flag of one contract. It sets *setting*, or without one is passed to the contract unmodified."""

    def __init__(self, name: str, metavar: str, about: str, *, setting: str | None = None) -> None:
        self.name, self.metavar, self.about, self.setting = name, metavar, about, setting


class Setting:
    """A setting of one contract: a per-client string, under ``[<section of the spec>]``."""

    def __init__(self, name: str, about: str, default: str | None = None) -> None:
        self.name, self.about, self.default = name, about, default


class CopiedVariable:
    """Another program's variable that maps to a setting of ours. *translate* returns None for values that it does not understand."""

    def __init__(self, name: str, ours: str, translate: Callable[[str], str | None]) -> None:
        self.name, self.ours, self.translate = name, ours, translate


class IgnoredVariable:
    """Another program's variable that has no effect, and why. *harmless* is the value that needs no warning."""

    def __init__(self, name: str, reason: str, harmless: str | None = None) -> None:
        self.name, self.reason, self.harmless = name, reason, harmless


LOG_LEVELS = {
    "error": "ERROR",
    "warn": "WARNING",
    "warning": "WARNING",
    "info": "INFO",
    "debug": "DEBUG",
    "trace": "DEBUG",
}
"""Other programs' names of log levels."""


class ContractSpec:
    """One contract. By default it has only tools, in the table of its package's ``table.py``, and no flags, variables or settings.

    Attributes:
        name: The name for clients: ``serve --contract NAME``, ``/mcp/NAME``.
        server_name: The server's name in MCP,
        title: its name for people,
        instructions: and when to use it.
        front_ends: The supported front ends.
        options: The contract's ``serve`` flags.
        section: The contract's settings section.
        settings: The settings in it.
        carried: Variables of the client's environment that the contract reads; they are sent to the daemon.
        copied: Variables that are copied to ours before any of those is read.
        ignored: Variables that have no effect.
    """

    name: str
    server_name = "infinite-memory"
    title = "InfiniteMemory"
    instructions = ""
    front_ends: frozenset[FrontEnd] = frozenset({FrontEnd.MCP, FrontEnd.HTTP})
    options: tuple[Option, ...] = ()
    section = ""
    settings: tuple[Setting, ...] = ()
    carried: tuple[str, ...] = ()
    copied: tuple[CopiedVariable, ...] = ()
    ignored: tuple[IgnoredVariable, ...] = ()

    def load_table(self) -> Table[Any]:
        """Return the commands; imports their implementation."""
        package = type(self).__module__.rpartition(".")[0]
        table: Table[Any] = importlib.import_module(f"{package}.table").TABLE
        return table

    def open_mcp(self, context: ContractContext) -> McpServer:
        """Open an MCP session for one client; must not wait.

        Raises:
            ConfigError: a variable or an option of the client is invalid.
        """
        from infinite_memory.contracts.server import TableServer

        return TableServer(self, self.load_table(), context)

    def open_lines(self, context: ContractContext) -> ActionLoop[Any]:
        """Open an action loop session for one client; only for a contract that supports it."""
        from infinite_memory.contracts.action_loop import TableLoop

        return TableLoop(self.load_table(), context)

    @property
    def speaks_lines(self) -> bool:
        """True if the action loop is one of the front ends."""
        return FrontEnd.LINES in self.front_ends

    def adopt(self, environ: MutableMapping[str, str]) -> list[str]:
        """Copy the contract's variables to ours in *environ*; return a warning for each that is set and has no effect."""
        warnings = []
        for copied in self.copied:
            if not (value := environ.get(copied.name, "").strip()):
                continue
            if (translated := copied.translate(value)) is None:
                warnings.append(f"{copied.name} = {value!r} is not understood and was ignored")
            else:
                environ.setdefault(copied.ours, translated)
        warnings += self.check_environ(environ)
        for ignored in self.ignored:
            value = environ.get(ignored.name, "").strip()
            if value and value.lower() != ignored.harmless:
                warnings.append(f"{ignored.name} is ignored: {ignored.reason}")
        return warnings

    def check_environ(self, environ: Mapping[str, str]) -> list[str]:
        """Return warnings about the variables that the contract reads itself."""
        return []
