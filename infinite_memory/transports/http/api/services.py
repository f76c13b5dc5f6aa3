"""The daemon's services for the API and the page; imports neither, as whether they are opened is decided later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infinite_memory.config import Config
    from infinite_memory.contracts.session import ClientSession
    from infinite_memory.engine.engine import Engine
    from infinite_memory.engine.events import Event
    from infinite_memory.jobs.administration import Administration
    from infinite_memory.llm.base import ChatModel


@dataclass(frozen=True, slots=True)
class RestParts:
    """The dependencies of the API; *built* returns the engine if it exists already."""

    engine: Callable[[], Awaitable[Engine]]
    built: Callable[[], Engine | None]
    new_session: Callable[[], ClientSession]
    model: Callable[[], ChatModel | None]
    model_timeout_s: float
    administration: Callable[[], Awaitable[Administration]] | None = None


@dataclass(frozen=True, slots=True)
class PageServices:
    """The daemon's own state for the page.

    ``status`` is that of `daemon status`; ``subscribe`` reports changes until the function it returns is called.
    """

    status: Callable[[], Awaitable[dict[str, Any]]]
    subscribe: Callable[[Callable[[Event], None]], Callable[[], None]]
    config: Config
    home: Path
