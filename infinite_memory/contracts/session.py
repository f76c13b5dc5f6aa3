"""The context of contracts: the session of a client, the dependencies of a contract, and a running request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from zoneinfo import ZoneInfo

from infinite_memory.clock import Clock, system_clock
from infinite_memory.contracts.fields import Fields, ValidationContext
from infinite_memory.engine.engine import Engine
from infinite_memory.engine.events import Events
from infinite_memory.engine.types import MAX_REPORTED_IDS, Progress
from infinite_memory.jobs.administration import Administration
from infinite_memory.settings import LimitsSettings, ModelSettings

OpenEngine = Callable[[], Awaitable[Engine]]
"""Awaited when a request first needs the engine, so that a handshake and invalid input need not wait."""


OpenAdministration = Callable[[], Awaitable[Administration]]
"""Waits for the administration of the whole memory."""


def no_progress(done: int, total: int) -> None:
    """Ignore progress."""


@dataclass(slots=True)
class ClientSession:
    """The state of one client: its active scope and the settings sent with its connection.

    ``contracts`` holds the settings of contracts by section, ``ignored`` names settings of the client that the daemon overrides;
    ``is_lock_ignored`` says that the backup key is among those. ``tell`` sends the session's state to the client's proxy, which
    keeps it for a later daemon.
    """

    active_scope: str
    zone: ZoneInfo
    limits: LimitsSettings
    auto_create: bool = True
    mcp_tools: str = "all"
    contracts: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    is_lock_ignored: bool = False
    tell: Callable[[dict[str, str]], Awaitable[None]] | None = None
    progress: Progress = no_progress  # for requests without their own
    reads_any_path: bool = False  # set by the greeting of the command line's own `import` only; not by requests
    is_local: bool = False  # over the daemon's own socket, from the user of this machine: errors name whole paths
    uploads: Path | None = None  # folder of the file to import, set by the page for its user's upload; not by requests
    counts_use: bool = True
    """False if results do not count as used: shown while a question is typed on the page, or to read-only clients."""
    max_texts: int = MAX_REPORTED_IDS  # of memories to be forgotten; the page shows fewer
    expected_revision: int | None = None
    """A change is rejected if the memory has another revision; set by front ends, not by requests."""

    only_archived: bool = False
    """A scope is restored only if it is archived; set by the undo of archiving, not by requests."""

    async def activate(self, scope: str) -> None:
        """Make *scope* the active one, also for a later daemon."""
        self.active_scope = scope
        if self.tell is not None:
            await self.tell({"active_scope": scope})


@dataclass(frozen=True, slots=True)
class ContractContext:
    """The dependencies of a contract, for one client.

    ``environ`` holds the client's variables, ``options`` its flags by name (``palace``), ``home`` the data directory,
    ``model`` the configured language model. Without ``administration`` commands about the whole memory are rejected.
    """

    engine: OpenEngine
    session: ClientSession
    events: Events
    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    model: ModelSettings = field(default_factory=ModelSettings)
    clock: Clock = system_clock
    administration: OpenAdministration | None = None


@dataclass(slots=True)
class RequestContext:
    """A running request with validated fields; warnings are collected in ``checking``."""

    engine: Engine
    session: ClientSession
    fields: Fields
    checking: ValidationContext
