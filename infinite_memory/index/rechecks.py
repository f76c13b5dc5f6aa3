"""Schedules rechecks of changes in an index that several daemons write: a slower one may overwrite them with an older state."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence

from infinite_memory.models import MemoryId, ScopeId
from infinite_memory.store.base import Change, ChangeKind

RECHECK_S = 20.0  # after a change on a server: longer than any write there takes


class Rechecks:
    """Changes to recheck, the newest of each memory."""

    def __init__(self) -> None:
        self._changes: OrderedDict[MemoryId, tuple[float, Change]] = OrderedDict()

    def add(self, changes: Sequence[Change]) -> None:
        """Add changes."""
        now = time.monotonic()
        for change in changes:
            if change.memory_id is not None:
                self._changes[change.memory_id] = now, change
                self._changes.move_to_end(change.memory_id)

    def due(self) -> dict[MemoryId, Change]:
        """Remove and return the changes that are old enough."""
        due: dict[MemoryId, Change] = {}
        oldest = time.monotonic() - RECHECK_S
        while self._changes and next(iter(self._changes.values()))[0] < oldest:
            memory_id, (_, change) = self._changes.popitem(last=False)
            due[memory_id] = change
        return due


def is_late(change: Change, revision: int | None, scope_id: ScopeId | None) -> bool:
    """True if the index still has a removed memory, or lacks the revision of the change; *revision* and *scope_id* are the indexed ones."""
    if change.kind is ChangeKind.REMOVED:
        return revision is not None and scope_id == change.scope_id
    return revision is None or revision < change.revision
