"""Append-only growable arrays: the storage of the metadata and the vectors.

Appending never changes existing entries in place. A reader that holds an array may therefore keep reading its first entries without a
lock while others append; growth gives later readers a larger copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

FIRST_CAPACITY = 1024


class GrowableArray:
    """A growable array of plain values."""

    def __init__(self, dtype: DTypeLike, values: NDArray[Any] | None = None) -> None:
        self._room: NDArray[Any] = np.empty(0, dtype) if values is None else values.astype(dtype)
        self._count = len(self._room)

    def __len__(self) -> int:
        return self._count

    @property
    def values(self) -> NDArray[Any]:
        """The values so far, as a view."""
        return self._room[: self._count]

    def extend(self, values: Sequence[Any] | NDArray[Any]) -> None:
        """Append *values*; capacity grows by half, so each value is moved a bounded number of times."""
        end = self._count + len(values)
        if end > len(self._room):
            larger = np.empty(max(end, FIRST_CAPACITY, len(self._room) * 3 // 2), self._room.dtype)
            larger[: self._count] = self._room[: self._count]
            self._room = larger
        self._room[self._count : end] = values
        self._count = end


class Interner:
    """Strings interned as small codes, in order of first use; None has the code -1."""

    ABSENT = -1

    def __init__(self, strings: Iterable[str] = ()) -> None:
        self._strings = list(strings)
        self._codes: dict[str | None, int] = {string: code for code, string in enumerate(self._strings)}
        self._codes[None] = self.ABSENT

    def __len__(self) -> int:
        return len(self._strings)

    @property
    def strings(self) -> list[str]:
        """Return a copy of the strings, by code."""
        return self._strings.copy()

    def strings_from(self, start: int, limit: int) -> list[str]:
        """Return a copy of at most *limit* strings, from the code *start* on."""
        return self._strings[start : start + limit]

    def string(self, code: int) -> str:
        """Return the string of an assigned code."""
        return self._strings[code]

    def codes(self, strings: Sequence[str | None]) -> list[int]:
        """Return the code of each string, assigning new ones as needed."""
        code_of = self._codes
        for string in dict.fromkeys(strings):
            if string is not None and string not in code_of:
                code_of[string] = len(self._strings)
                self._strings.append(string)
        return list(map(code_of.__getitem__, strings))

    def find(self, string: str) -> int | None:
        """Return the code of *string*; None if it has none."""
        return self._codes.get(string)
