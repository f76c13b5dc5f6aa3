"""Which slots have a tag, belong to a conversation or fall in a time range, without a pass over all of them."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from infinite_memory.index.id_map import Slots

MERGE_AT_LEAST = 4096
"""Slots since the last merge are scanned one by one; a merge moves the whole order, 10 ms at a million."""


class Postings:
    """Slots by a small code, ascending; slots are only added, dead ones stay. Not locked."""

    def __init__(self) -> None:
        self._slots: defaultdict[int, array[int]] = defaultdict(lambda: array("i"))

    def add(self, borne: Iterable[tuple[int, int]]) -> None:
        """Add pairs of a code and a slot that has it; slots ascend, and are higher than all previous ones."""
        slots = self._slots
        for code, slot in borne:
            slots[code].append(slot)

    def fill(self, codes: NDArray[np.int32], slots: Slots) -> None:
        """Add very many at once: ``slots[i]`` has ``codes[i]``; slots ascend."""
        order = np.argsort(codes, kind="stable")
        ordered = slots[order].astype(np.int32)
        used, starts = np.unique(codes[order], return_index=True)
        for code, stretch in zip(used.tolist(), np.split(ordered, starts[1:]), strict=False):
            self._slots[code].frombytes(stretch.tobytes())

    def find(self, code: int | None) -> Slots:
        """Return the slots of a code; none for None."""
        slots = None if code is None else self._slots.get(code)
        # A copy, because an array cannot grow while a view of it exists.
        return np.empty(0, np.int64) if slots is None else np.frombuffer(slots, np.int32).astype(np.int64)


class TimeOrder:
    """Slots ordered by time. Not locked."""

    def __init__(self) -> None:
        self._times: NDArray[np.int64] = np.empty(0, np.int64)
        self._slots: NDArray[np.int32] = np.empty(0, np.int32)

    def between(self, times: NDArray[np.int64], start: float | None, end: float | None) -> Slots | None:
        """Return the slots with ``start <= time < end``, ascending; None if there are so many that a pass over all is as fast.

        Args:
            times: The times of all slots, which only grow by appending.
        """
        merged = len(self._slots)
        if len(times) - merged > max(MERGE_AT_LEAST, merged // 32):
            self._merge(times)
            merged = len(times)
        first = 0 if start is None else int(np.searchsorted(self._times, start))
        last = merged if end is None else int(np.searchsorted(self._times, end))
        if (last - first) * 8 > merged + MERGE_AT_LEAST:
            return None
        late = times[merged:]
        fresh = np.ones(len(late), np.bool_)
        if start is not None:
            fresh &= late >= start
        if end is not None:
            fresh &= late < end
        return np.concatenate((np.sort(self._slots[first:last]), np.flatnonzero(fresh) + merged)).astype(np.int64)

    def _merge(self, times: NDArray[np.int64]) -> None:
        merged = len(self._slots)
        order = np.argsort(times[merged:], kind="stable")
        late, slots = times[merged:][order], (order + merged).astype(np.int32)
        places = np.searchsorted(self._times, late, side="right")
        self._times, self._slots = np.insert(self._times, places, late), np.insert(self._slots, places, slots)
