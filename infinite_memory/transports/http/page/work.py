"""Long work that a view began: it goes on whatever becomes of the browser, and a view shows how far it is."""

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
    """One piece of work. ``says`` tells what it did once it is done, ``failure`` why it is not; ``back`` is the view to return to."""

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
        """Where the view of it is."""
        return f"/page/progress/{self.key}"

    def progress(self, done: int, total: int) -> None:
        """Note how far it is."""
        self.done, self.total = done, total

    @property
    def is_over(self) -> bool:
        """True if nothing goes on any more."""
        return self.says is not None or self.failure is not None


def begin(
    session: Session, finishing: Finishing, title: str, back: str, run: Callable[[Progress], Awaitable[str]]
) -> str:
    """Begin work; returns the address of the view that shows it. *run* returns what it says when it is done."""
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
