"""What is known of a contract before anything of it is loaded: the base of every ``contracts/<name>/spec.py``.

A spec says how clients ask for the contract, which front ends it speaks, and which flags, variables and settings belong to it. The
command line, the daemon and the settings read all of that through the `registry` and know no contract by name.

Standard library only, and little of it (a `NamedTuple` alone costs half a millisecond): `serve` imports this.
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
    """How a client may speak a contract."""

    MCP = "mcp"
    HTTP = "http"
    LINES = "lines"


class Option:
    """A flag of ``serve`` that goes with one contract. It sets *setting*, or without one is handed to the contract as it is."""

    def __init__(self, name: str, metavar: str, about: str, *, setting: str | None = None) -> None:
        self.name, self.metavar, self.about, self.setting = name, metavar, about, setting


class Setting:
    """A setting of one contract: a text of its client's, under ``[<section of the spec>]``."""

    def __init__(self, name: str, about: str, default: str | None = None) -> None:
        self.name, self.about, self.default = name, about, default


class CopiedVariable:
    """A variable of another program that a setting of ours stands behind. *translate* gives None for what it does not understand."""

    def __init__(self, name: str, ours: str, translate: Callable[[str], str | None]) -> None:
        self.name, self.ours, self.translate = name, ours, translate


class IgnoredVariable:
    """A variable of another program that is not followed, and why. *harmless* is the value for which nothing is to be said."""

    def __init__(self, name: str, why: str, harmless: str | None = None) -> None:
        self.name, self.why, self.harmless = name, why, harmless


LOG_LEVELS = {
    "error": "ERROR",
    "warn": "WARNING",
    "warning": "WARNING",
    "info": "INFO",
    "debug": "DEBUG",
    "trace": "DEBUG",
}
"""Names that other programs have for how much is logged."""


class ContractSpec:
    """One contract. The defaults are a contract of tools alone, in the table of the folder's ``table.py``, that needs nothing of its own.

    Attributes:
        name: How a client asks for it: ``serve --contract NAME``, ``/mcp/NAME``.
        server_name: What MCP clients are told: its name for programs,
        title: its name for people,
        instructions: and when to use it.
        front_ends: How clients may speak it.
        options: Flags of ``serve``.
        section: The settings' section of the contract.
        settings: The settings in it.
        carried: Variables of the client's environment that the contract reads; they travel to the daemon.
        copied: Variables that are brought to ours before anything reads those.
        ignored: Variables that are not followed.
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
        """Return the commands; imports what carries them out."""
        package = type(self).__module__.rpartition(".")[0]
        table: Table[Any] = importlib.import_module(f"{package}.table").TABLE
        return table

    def open_mcp(self, context: ContractContext) -> McpServer:
        """Begin one client's conversation by MCP; waits for nothing.

        Raises:
            ConfigError: a variable or an option of the client's is wrong.
        """
        from infinite_memory.contracts.server import TableServer

        return TableServer(self, self.load_table(), context)

    def open_lines(self, context: ContractContext) -> ActionLoop[Any]:
        """Begin one client's conversation in the action loop; only for a contract that speaks it."""
        from infinite_memory.contracts.action_loop import TableLoop

        return TableLoop(self.load_table(), context)

    @property
    def speaks_lines(self) -> bool:
        """True if the action loop is one of the front ends."""
        return FrontEnd.LINES in self.front_ends

    def adopt(self, environ: MutableMapping[str, str]) -> list[str]:
        """Bring the contract's variables to ours in *environ*; returns a warning for each that is set and not followed."""
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
                warnings.append(f"{ignored.name} is ignored: {ignored.why}")
        return warnings

    def check_environ(self, environ: Mapping[str, str]) -> list[str]:
        """Return warnings about the variables that the contract reads itself."""
        return []
