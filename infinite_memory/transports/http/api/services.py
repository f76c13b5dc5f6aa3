"""What the daemon hands to the API; imports nothing of it, for whether it is opened is decided later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from infinite_memory.contracts.session import ClientSession
    from infinite_memory.engine.engine import Engine
    from infinite_memory.jobs.administration import Administration
    from infinite_memory.llm.base import ChatModel


@dataclass(frozen=True, slots=True)
class RestParts:
    """What the API is made of; *built* gives the engine if it is there already."""

    engine: Callable[[], Awaitable[Engine]]
    built: Callable[[], Engine | None]
    new_session: Callable[[], ClientSession]
    model: Callable[[], ChatModel | None]
    model_timeout_s: float
    administration: Callable[[], Awaitable[Administration]] | None = None
