"""The C library's heap, as a process uses it that lives for days: few arenas, and what was freed goes back to the system.

glibc gives threads arenas of their own, up to eight for each core, and an arena keeps what is freed in it. The threads here come
and go (each save of the text index has new ones) and none lasts, so memory that one used once was never used again: after a
minute of eight clients 139 MiB of 215 were free, and grew on. With two arenas it was 23 of 99, for the same work. Other systems'
libraries have other heaps, and no such functions: nothing is done there.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping

ARENAS = 2  # one for the loop, one for the threads beside it; each more is memory, and no request waits for one
_M_ARENA_MAX = -8  # of malloc.h


def limit_arenas(environ: Mapping[str, str] = os.environ) -> None:
    """Keep the heap to few arenas, unless *environ* says how many there may be; call it before there are threads."""
    is_said = "MALLOC_ARENA_MAX" in environ or "glibc.malloc.arena_max" in environ.get("GLIBC_TUNABLES", "")
    if not is_said and (mallopt := _find("mallopt")) is not None:
        mallopt(_M_ARENA_MAX, ARENAS)


def release_freed() -> None:
    """Hand what was freed back to the system: glibc keeps 75 MiB of the arrays that a million rows are built from."""
    if (trim := _find("malloc_trim")) is not None:
        trim(0)


def _find(name: str) -> Callable[..., int] | None:
    """Return a function of the C library; None where it has none of that name."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform == "linux" else None
