"""The order of listings, and their pagination cursors.

A cursor names the memory after which a listing continues, not an offset: memories added or removed between two pages neither repeat
nor hide others.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infinite_memory.errors import InvalidRequestError
from infinite_memory.index.base import ImportanceDecay
from infinite_memory.index.id_map import KEY_BYTES, KEY_DTYPE, Keys, Slots
from infinite_memory.index.metadata_table import milliseconds

DAY_MS = 86_400_000.0

_FORMAT = struct.Struct(f"<?q{KEY_BYTES}sI")
_CHECKED = _FORMAT.size - 4
MAX_CURSOR_CHARS = 100  # a third of them are needed


@dataclass(frozen=True, slots=True)
class Cursor:
    """The last memory of a page: its time of occurrence (milliseconds since 1970) and its key."""

    newest_first: bool
    occurred_ms: int
    key: bytes

    def format(self) -> str:
        """Return the cursor in letters, digits, ``-`` and ``_``."""
        body = _FORMAT.pack(self.newest_first, self.occurred_ms, self.key, 0)[:_CHECKED]
        return base64.urlsafe_b64encode(body + struct.pack("<I", zlib.crc32(body))).rstrip(b"=").decode("ascii")

    @classmethod
    def parse(cls, text: str, newest_first: bool) -> Cursor:
        """Parse the result of `format`.

        Raises:
            InvalidRequestError: it was not issued here, or belongs to the other direction.
        """
        if len(text) > MAX_CURSOR_CHARS:
            raise InvalidRequestError.invalid_value("cursor", text, "a cursor that an earlier page gave")
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            was_newest_first, occurred_ms, key, check = _FORMAT.unpack(raw)
        except (binascii.Error, struct.error, ValueError) as exc:
            raise InvalidRequestError.invalid_value("cursor", text, "a cursor that an earlier page gave") from exc
        if zlib.crc32(raw[:_CHECKED]) != check:
            raise InvalidRequestError.invalid_value("cursor", text, "a cursor that an earlier page gave")
        if was_newest_first != newest_first:
            raise InvalidRequestError("cursor", "it continues a listing of the other direction")
        return cls(newest_first, occurred_ms, key)


def first_in_order(
    slots: Slots, occurred_ms: NDArray[Any], keys: Keys, limit: int, *, after: Cursor | None, newest_first: bool
) -> tuple[Slots, bool]:
    """Return the first *limit* of *slots* by time, then key, both descending if *newest_first*.

    Args:
        slots: Slots to pick from.
        occurred_ms: Times of all slots.
        keys: Keys of all slots.
        after: Only slots after this position.

    Returns:
        The slots in order, and whether more follow.
    """
    times = occurred_ms[slots]
    if after is not None:
        mark = np.frombuffer(after.key, KEY_DTYPE)
        beyond = times < after.occurred_ms if newest_first else times > after.occurred_ms
        same_time = np.flatnonzero(times == after.occurred_ms)
        beyond[same_time] = keys[slots[same_time]] < mark if newest_first else keys[slots[same_time]] > mark
        slots, times = slots[beyond], times[beyond]
    has_more = len(slots) > limit
    if has_more and limit > 0:
        # Partition first: sorting a hundred thousand keys to return fifty would dominate the call.
        bound = np.partition(times, -limit if newest_first else limit - 1)[-limit if newest_first else limit - 1]
        near = times >= bound if newest_first else times <= bound
        slots, times = slots[near], times[near]
    order = np.lexsort((keys[slots], times))
    return slots[order[::-1] if newest_first else order][: max(limit, 0)], has_more


def weigh(
    decay: ImportanceDecay, importance: NDArray[np.float64], created_ms: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Vectorised `ImportanceDecay.weight`; NaN means no importance."""
    age_days = np.maximum(0.0, milliseconds(decay.now) - created_ms) / DAY_MS
    relative = np.where(np.isnan(importance), decay.unset, np.minimum(1.0, importance / decay.full))
    lasting = decay.lasting_share
    weights: NDArray[np.float64] = relative * (lasting + (1 - lasting) * np.exp2(-age_days / decay.half_life_days))
    return weights
