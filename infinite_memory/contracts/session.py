"""What contracts are given: the session of a client, what a conversation is made of, and one request on its way."""

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
"""Asked for the engine when a request first needs it, so that a handshake and bad input wait for nothing."""


OpenAdministration = Callable[[], Awaitable[Administration]]
"""Waits for what works on the memory as a whole."""


def no_progress(done: int, total: int) -> None:
    """Take progress that nobody asked for."""


@dataclass(slots=True)
class ClientSession:
    """What belongs to one client: its active scope and the settings that travel with its connection.

    ``contracts`` holds the settings of contracts by section, ``ignored`` names settings of the client that the daemon does not follow;
    ``is_lock_ignored`` says that the key of backups is among those. ``tell`` hands the session's state to the client's pipe, which
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
    progress: Progress = no_progress  # where requests bring none of their own
    reads_any_path: bool = False  # set for the command line's own `import` alone, by its greeting; no request can
    is_local: bool = False  # comes over the daemon's own socket, from the user of this machine: errors name whole paths
    uploads: Path | None = None  # set by the page: its user sent the file to import, which lies there; no request can
    counts_use: bool = True
    """False where what is found is no use of it: shown while a question is typed on the page, or to who may only read."""
    most_texts: int = MAX_REPORTED_IDS  # of what would be forgotten; the page shows fewer
    expected_revision: int | None = (
        None  # a change is refused where the memory has another; set by fronts, no request can
    )

    async def activate(self, scope: str) -> None:
        """Make *scope* the active one, for a later daemon too."""
        self.active_scope = scope
        if self.tell is not None:
            await self.tell({"active_scope": scope})


@dataclass(frozen=True, slots=True)
class ContractContext:
    """What a conversation in a contract is made of, for one client.

    ``environ`` holds the client's variables, ``options`` its flags by name (``palace``), ``home`` the folder of all data,
    ``model`` the language model of the settings. Without ``administration`` commands about the memory as a whole are refused.
    """

    engine: OpenEngine
    session: ClientSession
    watch: Events
    home: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    model: ModelSettings = field(default_factory=ModelSettings)
    clock: Clock = system_clock
    administration: OpenAdministration | None = None


@dataclass(slots=True)
class RequestContext:
    """One request on its way, with checked fields; warnings are gathered in ``checking``."""

    engine: Engine
    session: ClientSession
    fields: Fields
    checking: ValidationContext
