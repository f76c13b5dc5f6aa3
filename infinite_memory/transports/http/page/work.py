"""Long work started by a view: it continues without the browser, and a view shows its progress."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from infinite_memory.engine.types import Progress
from infinite_memory.errors import InfiniteMemoryError
from infinite_memory.transports.finishing import Finishing
from infinite_memory.transports.http.page.sessions import Session

log = logging.getLogger(__name__)

MAX_KEPT = 20


@dataclass(slots=True)
class LongWork:
    """One piece of work. ``says`` is its result once it is done, ``failure`` why it failed; ``back`` is the view to return to."""

    title: str
    back: str
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    done: int = 0
    total: int = 0
    says: str | None = None
    failure: str | None = None
    task: asyncio.Task[Any] | None = None

    @property
    def address(self) -> str:
        """The URL of its view."""
        return f"/page/progress/{self.key}"

    def progress(self, done: int, total: int) -> None:
        """Report progress."""
        self.done, self.total = done, total

    @property
    def is_over(self) -> bool:
        """True if it has ended."""
        return self.says is not None or self.failure is not None


def begin(
    session: Session, finishing: Finishing, title: str, back: str, run: Callable[[Progress], Awaitable[str]]
) -> str:
    """Start work; return the URL of the view that shows it. *run* returns the message for when it is done."""
    work = LongWork(title, back)

    async def carry() -> None:
        try:
            work.says = await run(work.progress)
        except InfiniteMemoryError as exc:
            work.failure = str(exc)
        except Exception:
            log.exception("work of the page failed", extra={"event": "request_failed"})
            work.failure = "internal error; the log has the details"

    work.task = asyncio.create_task(finishing.run(carry()), name="page work")
    session.tasks[work.key] = work
    while len(session.tasks) > MAX_KEPT:
        session.tasks.pop(next(iter(session.tasks)))
    return work.address
