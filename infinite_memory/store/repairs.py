"""What the engine needs to look for documents that cannot be read, and to mend or remove them, beside `Store`."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Protocol

from infinite_memory.store.set_aside import SetAsideDocument


class RepairOutcome(enum.Enum):
    """What became of a document, or would with a dry run."""

    MENDED = "mended"
    REMOVED = "removed"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Repaired:
    """One document and what became of it. ``memories`` counts those that went with a scope that was removed."""

    document: SetAsideDocument
    outcome: RepairOutcome
    memories: int = 0


class Repairs(Protocol):
    """Looks at documents, and changes only those that it is told to."""

    async def look(self, *, everything: bool = False) -> None:
        """Look at all that is small, and again at what is set aside; `Store.set_aside` then says what cannot be read.

        Args:
            everything: Look at every single document, however many there are.
        """

    async def extended_json(self, document: SetAsideDocument) -> str | None:
        """Write a document as one line of MongoDB's Extended JSON; None when it is gone."""

    async def repair(self, document: SetAsideDocument, *, mend: bool, remove: bool, dry_run: bool) -> Repaired:
        """Mend a document where that can be and *mend* allows it, else remove it where *remove* does."""
