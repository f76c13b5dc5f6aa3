"""Storage interface for finding unreadable documents, and repairing or removing them."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

from infinite_memory.store.set_aside import SetAsideDocument


class RepairOutcome(enum.Enum):
    """The outcome for a document, actual or with a dry run expected."""

    MENDED = "mended"
    REMOVED = "removed"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Repaired:
    """A document and its outcome. ``memories`` counts those removed along with a scope."""

    document: SetAsideDocument
    outcome: RepairOutcome
    memories: int = 0


class Repairs(Protocol):
    """Checks documents, and changes only those it is asked to."""

    async def look(self, *, full: bool = False) -> None:
        """Check all small collections, and recheck what is set aside; `Store.set_aside` then lists what cannot be read.

        Args:
            full: Check every document, however many there are.
        """

    async def extended_json(self, document: SetAsideDocument) -> str | None:
        """Return a document as one line of MongoDB Extended JSON; None if it no longer exists."""

    async def repair(self, document: SetAsideDocument, *, mend: bool, remove: bool, dry_run: bool) -> Repaired:
        """Repair a document if possible and *mend* allows it, else remove it if *remove* does, else leave it."""
