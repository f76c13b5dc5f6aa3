"""The contracts beside the native one, by the name with which a client asks for them (``serve --contract NAME``)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infinite_memory.config import ModelSettings
from infinite_memory.contracts.mcp import McpServer
from infinite_memory.contracts.native.table import Session
from infinite_memory.engine import Engine
from infinite_memory.engine.watch import Watch
from infinite_memory.errors import ConfigError, InvalidRequestError

NATIVE = "native"
ROUTES = "routes"
"""What the Python SDK asks for: the routes of the HTTP API, over the daemon's socket."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a contract is made of, for one client.

    ``environ`` holds the client's variables, ``options`` its flags by name (``palace``), ``home`` the folder of all data,
    ``model`` the language model of the settings.
    """

    engine: Callable[[], Awaitable[Engine]]
    session: Session
    watch: Watch
    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    model: ModelSettings = field(default_factory=ModelSettings)


def _memory_server(given: Surroundings) -> McpServer:
    from infinite_memory.contracts.memory_server.limits import MemoryServerLimits
    from infinite_memory.contracts.memory_server.server import MemoryServer

    return MemoryServer(given.engine, given.session, MemoryServerLimits.from_environ(given.environ), given.watch)


def _palace(given: Surroundings) -> McpServer:
    from infinite_memory.contracts.palace.server import PalaceServer
    from infinite_memory.engine.scopes import check_name

    default = given.options.get("palace", "").strip() or None
    if default is not None:
        try:
            check_name(default, "--palace")
        except InvalidRequestError as problem:
            raise ConfigError(str(problem)) from None
    return PalaceServer(given.engine, given.session, default, given.home)


def _laravel(given: Surroundings) -> McpServer:
    from infinite_memory.contracts.laravel.server import LaravelServer

    return LaravelServer(given.engine, given.session, given.watch)


def _agentmem(given: Surroundings) -> McpServer:
    from infinite_memory.contracts.agentmem.server import AgentMemServer
    from infinite_memory.model_port.choose import configured_model

    return AgentMemServer(given.engine, given.session, configured_model(given.model), given.model.timeout_s)


SIBLINGS: Mapping[str, Callable[[Surroundings], McpServer]] = {
    "memory-server": _memory_server,
    "palace": _palace,
    "laravel": _laravel,
    "agentmem": _agentmem,
}


def open_sibling(name: str, given: Surroundings) -> McpServer:
    """Begin one client's conversation in the contract of that name; waits for nothing.

    Raises:
        ConfigError: there is none of that name, or a variable or an option of the client's is wrong.
    """
    if name not in SIBLINGS:
        raise ConfigError(f"--contract {name}: known are native, {', '.join(SIBLINGS)}")
    return SIBLINGS[name](given)
