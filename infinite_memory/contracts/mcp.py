"""What a contract offers to MCP clients, and what it is given of them. `protocols.mcp` speaks the protocol; no SDK is needed here."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from infinite_memory.contracts.base import CallT, Command, Table
from infinite_memory.errors import InfiniteMemoryError, shown

Json = dict[str, Any]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_INITIALIZED = -32002


class RpcError(Exception):
    """A request is answered with a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    def out(self) -> Json:
        """Write the ``error`` member."""
        return {"code": self.code, "message": self.message} | ({} if self.data is None else {"data": self.data})


def named_tool(table: Table[CallT], name: str) -> Command[CallT]:
    """Give the command of *table* that a tool's name means.

    Raises:
        RpcError: there is none of that name; says which it may have been meant for.
    """
    command = table.find(name)
    if command is None:
        near = table.nearest(name)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise RpcError(INVALID_PARAMS, f"Unknown tool: {shown(name)}{hint}")
    return command


def tool_of(command: Command[CallT]) -> Json:
    """Describe a command as a tool; its title stands among the hints too, where older clients look for it."""
    return {
        "name": command.name,
        "title": command.title,
        "description": command.about,
        "inputSchema": command.schema(),
        "annotations": {"title": command.title} | hints_of(command),
    }


def hints_of(command: Command[CallT]) -> Json:
    """Write a command's hints as MCP's annotations."""
    return {
        "readOnlyHint": command.read_only,
        "destructiveHint": command.destructive,
        "idempotentHint": command.idempotent,
        "openWorldHint": False,
    }


class Answer(enum.Enum):
    """What came of a question to the user."""

    ACCEPTED = "accept"
    DECLINED = "decline"
    CANCELLED = "cancel"
    NOT_ASKED = "not asked"  # the client cannot


class ToolCall(Protocol):
    """The client, as a tool sees it while it runs."""

    @property
    def wants_progress(self) -> bool:
        """Whether the client asked to be told how far the work is."""

    async def progress(self, done: float, total: float | None = None, message: str = "") -> None:
        """Tell how far the work is, *done* growing from call to call; nothing happens when the client did not ask."""

    async def log(self, level: str, data: Any) -> None:
        """Send a log message, when the client wants messages of that level."""

    async def confirm(self, question: str) -> Answer:
        """Put a yes-or-no question to the user. May end the call with an exception that the caller must let pass."""

    @property
    def can_sample(self) -> bool:
        """Whether the client lends its own language model."""

    async def sample(self, params: Json) -> Json:
        """Ask the client's model (``sampling/createMessage``) and give the result.

        Raises:
            ModelRefusedError: the client, or its user, does not want to.
        """


class Changed(Protocol):
    """Something that subscribers may want to know."""

    @property
    def is_list(self) -> bool:
        """Whether the list of resources changed."""

    def touches(self, uri: str) -> bool:
        """Tell whether what stands behind *uri* changed."""


Listener = Callable[[Changed], None]


@dataclass(frozen=True, slots=True)
class Profile:
    """How far a contract's own document departs from MCP as a whole; the default is not at all.

    Attributes:
        methods: The methods that exist beside `initialize`; None for all.
        capabilities: What `initialize` says is offered; None for what follows from all methods.
        info: Further members of ``serverInfo``.
        fallback_version: What is answered to a client that asks for a version that is not spoken; None for the newest.
        needs_initialize: Whether requests before `initialize` are refused.
    """

    methods: frozenset[str] | None = None
    capabilities: Json | None = None
    info: Json = dataclasses.field(default_factory=dict)
    fallback_version: str | None = None
    needs_initialize: bool = True


class McpServer(Protocol):
    """One client's view of a contract. Every list may be empty."""

    name: str
    title: str
    instructions: str
    profile: Profile

    def tools(self) -> list[Json]:
        """List the tools; must wait for nothing."""

    async def call_tool(self, name: str, arguments: Json, call: ToolCall) -> Json:
        """Run a tool and give its result; a failure of the tool is a result with ``isError``.

        Raises:
            RpcError: the contract wants this failure as an error of the protocol.
        """

    async def resources(self) -> list[Json]:
        """List the resources that have a fixed address."""

    def templates(self) -> list[Json]:
        """List the addresses with gaps."""

    async def read(self, uri: str) -> list[Json]:
        """Read a resource: its ``contents``.

        Raises:
            NotFoundError: there is none of that address.
            InvalidRequestError: the address is wrong in itself.
        """

    def prompts(self) -> list[Json]:
        """List the prompts."""

    async def prompt(self, name: str, arguments: Mapping[str, str]) -> Json:
        """Give a prompt's description and messages.

        Raises:
            InvalidRequestError: there is none of that name, or an argument lacks.
        """

    async def complete(self, ref: Json, argument: str, value: str) -> list[str]:
        """List what *value* may become, for an argument of the prompt or template that *ref* names."""

    def watch(self, listener: Listener) -> Callable[[], None]:
        """Tell *listener* of every change from now on; gives what ends that."""

    def welcome(self) -> list[str]:
        """List warnings that a client should see once."""

    def failure(self, problem: InfiniteMemoryError) -> RpcError:
        """Map one of our errors that left a method other than `call_tool`."""
