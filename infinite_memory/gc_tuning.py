"""Tuning of Python's cyclic garbage collector, which is held back where it costs more than it frees.

A full collection traverses every object: 50 ms and more, again and again, while an index of a million memories is built, which
creates no cycles.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

_USUAL = gc.get_threshold()
_SELDOM = 1_000_000  # collections of younger generations before a full one


@contextlib.contextmanager
def seldom_searched() -> Iterator[None]:
    """Collect only young generations while something large is built; if two such blocks overlap, the first to end restores the default."""
    gc.set_threshold(*_USUAL[:2], _SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*_USUAL)


def keep_what_is_here() -> None:
    """Exclude all present objects, which are permanent, from later collections."""
    gc.freeze()
