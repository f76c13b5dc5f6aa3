"""What the daemon hands to the page beside the API's parts; imports nothing of it, for most daemons never show one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infinite_memory.config import Config
    from infinite_memory.engine.events import Event


@dataclass(frozen=True, slots=True)
class PageServices:
    """What the page shows of the daemon itself.

    ``status`` is that of `daemon status`; ``subscribe`` tells of changes until what it returns is called.
    """

    status: Callable[[], Awaitable[dict[str, Any]]]
    subscribe: Callable[[Callable[[Event], None]], Callable[[], None]]
    config: Config
    home: Path
