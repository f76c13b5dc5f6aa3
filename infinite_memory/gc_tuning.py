"""Python's search for cycles of garbage, held back where it costs more than it finds.

A full search looks at every object there is: 50 ms and more while an index of a million memories is built, time and again,
and what is built makes no cycles.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_USUAL = gc.get_threshold()
_SELDOM = 1_000_000  # searches among younger objects before all are looked through


@contextlib.contextmanager
def seldom_searched() -> Iterator[None]:
    """Search among young objects only while something large is built; of two that overlap, the first to end ends it."""
    gc.set_threshold(*_USUAL[:2], _SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*_USUAL)


def keep_what_is_here() -> None:
    """Leave out of later searches what is there by now: it stays."""
    gc.freeze()
