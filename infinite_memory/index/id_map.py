"""Memory ids as twelve bytes, and a compact map from them to slots for millions of entries.

Why not a dict of strings: at a million memories it takes about 150 MB and seconds to fill. A sorted array takes 16
bytes an entry and is looked up in under two microseconds; a small dict beside it holds the entries added since the last merge.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from infinite_memory.models import MemoryId

KEY_BYTES = 12  # of an ObjectId
KEY_DTYPE = np.dtype(f"S{KEY_BYTES}")
"""NumPy drops trailing zero bytes when it converts an entry to a Python value: read keys with `to_ids` or ``tobytes``."""

MERGE_AT_LEAST = 4096
"""The dict is merged above this size, and above a thirty-second of the array: a merge moves the whole array."""

ORDERED_AT_ONCE = 8192
"""Ids and numbers that `in_id_order` converts to Python values at a time, in two milliseconds."""

_PIECE = 65_536  # keys formatted at a time: nothing else runs meanwhile

Keys = NDArray[np.bytes_]
Slots = NDArray[np.int64]


def to_key(memory_id: str) -> bytes | None:
    """Return the twelve bytes of *memory_id*; None if it is not 24 lower-case hexadecimal digits: ids are matched exactly."""
    try:
        key = bytes.fromhex(memory_id)
    except ValueError:
        return None
    return key if len(key) == KEY_BYTES and key.hex() == memory_id else None


def keys_array(keys: Sequence[bytes]) -> Keys:
    """Return twelve-byte keys as an array."""
    return np.frombuffer(b"".join(keys), dtype=KEY_DTYPE)


def to_ids(keys: Keys) -> list[MemoryId]:
    """Return keys as ids, in order."""
    ids: list[MemoryId] = []
    for first in range(0, len(keys), _PIECE):
        digits = np.ascontiguousarray(keys[first : first + _PIECE]).tobytes().hex()
        ids += [MemoryId(digits[offset : offset + 2 * KEY_BYTES]) for offset in range(0, len(digits), 2 * KEY_BYTES)]
    return ids


class IdMap:
    """Maps a key to its latest slot. Keys are never dropped: the owner knows which slots are dead. Not locked."""

    def __init__(self) -> None:
        self._keys: Keys = np.empty(0, KEY_DTYPE)
        self._slots: NDArray[np.int32] = np.empty(0, np.int32)
        self._recent: dict[bytes, int] = {}
        self._last = b""  # highest key of the array: ids of one process ascend, so new ones need no lookup there

    @classmethod
    def of(cls, keys: Keys) -> IdMap:
        """Return a map of distinct *keys* to their positions."""
        id_map = cls()
        order = np.argsort(keys)
        id_map._keys, id_map._slots = keys[order], order.astype(np.int32)
        id_map._last = id_map._keys[-1:].tobytes()
        return id_map

    def find(self, key: bytes) -> int | None:
        """Return the slot of a key; None if it has none."""
        slot = self._recent.get(key)
        if slot is None and (position := self._position(key)) is not None:
            slot = int(self._slots[position])
        return slot

    def find_all(self, keys: Sequence[bytes]) -> Slots:
        """Return the slots of many keys, -1 for a missing one."""
        slots = np.fromiter(map(self._recent.get, keys, repeat(-1)), np.int64, len(keys))
        if keys and min(keys) <= self._last:
            positions, is_there = self._positions(keys)
            slots[is_there] = self._slots[positions[is_there]]
        return slots

    def put_all(self, keys: Sequence[bytes], first: int) -> None:
        """Map distinct *keys* to consecutive slots from *first* on."""
        slots = range(first, first + len(keys))
        if keys and min(keys) <= self._last:
            positions, is_there = self._positions(keys)
            self._slots[positions[is_there]] = np.arange(first, first + len(keys))[is_there]
            self._recent.update((key, slot) for key, slot, old in zip(keys, slots, is_there, strict=True) if not old)
        else:
            self._recent.update(zip(keys, slots, strict=True))
        if len(self._recent) > max(MERGE_AT_LEAST, len(self._keys) // 32):
            self._merge()

    def _positions(self, keys: Sequence[bytes]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the position of each of *keys* in the array, and whether it is there; the array must not be empty."""
        sought = keys_array(keys)
        positions = np.searchsorted(self._keys, sought)
        positions[positions == len(self._keys)] = 0
        return positions, self._keys[positions] == sought

    def _position(self, key: bytes) -> int | None:
        if key > self._last:
            return None
        sought = np.frombuffer(key, dtype=KEY_DTYPE)
        position = int(self._keys.searchsorted(sought)[0])
        return position if position < len(self._keys) and self._keys[position : position + 1] == sought else None

    def _merge(self) -> None:
        keys = keys_array(list(self._recent))
        slots = np.fromiter(self._recent.values(), np.int32, len(keys))
        order = np.argsort(keys)
        places = np.searchsorted(self._keys, keys[order])
        self._keys = np.insert(self._keys, places, keys[order])
        self._slots = np.insert(self._slots, places, slots[order])
        self._last = self._keys[-1:].tobytes()
        self._recent = {}


def in_id_order(keys: Keys, numbers: NDArray[np.int64]) -> Iterator[dict[MemoryId, int]]:
    """Yield numbers by id, by ascending id, in batches."""
    order = np.argsort(keys)
    for first in range(0, len(order), ORDERED_AT_ONCE):
        some = order[first : first + ORDERED_AT_ONCE]
        yield dict(zip(to_ids(keys[some]), numbers[some].tolist(), strict=True))
