"""Looks again at what changed in an index that several daemons write: a slower one may have written an older state over it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Sequence

from infinite_memory.models import MemoryId, ScopeId
from infinite_memory.store.base import Change, ChangeKind

RECHECK_S = 20.0  # after a change of memories on a server: longer than a write there may take


class Rechecks:
    """Changes of memories that are to be looked at again, the newest of each."""

    def __init__(self) -> None:
        self._changes: OrderedDict[MemoryId, tuple[float, Change]] = OrderedDict()

    def add(self, changes: Sequence[Change]) -> None:
        """Take changes up."""
        now = time.monotonic()
        for change in changes:
            if change.memory_id is not None:
                self._changes[change.memory_id] = now, change
                self._changes.move_to_end(change.memory_id)

    def due(self) -> dict[MemoryId, Change]:
        """Return those that came long enough ago, and drop them."""
        due: dict[MemoryId, Change] = {}
        oldest = time.monotonic() - RECHECK_S
        while self._changes and next(iter(self._changes.values()))[0] < oldest:
            memory_id, (_, change) = self._changes.popitem(last=False)
            due[memory_id] = change
        return due


def is_late(change: Change, revision: int | None, scope_id: ScopeId | None) -> bool:
    """True if the index has a memory where it was removed, or lacks the revision that was told; these it has it at."""
    if change.kind is ChangeKind.REMOVED:
        return revision is not None and scope_id == change.scope_id
    return revision is None or revision < change.revision
