"""The limit of open files of this process and its MongoDB, and how many scopes it allows.

MongoDB keeps the files of every collection and index open and terminates when it cannot open another. A scope is a collection, so the limit
of open files (1,024 by default on Linux, 256 on macOS) limits the number of scopes.
"""

from __future__ import annotations

import contextlib
import sys

from infinite_memory.errors import format_count

if sys.platform != "win32":
    import resource

FILES_OF_SCOPE = 4  # a collection and its three indexes
FILES_BESIDE = 200  # shared collections, journal, connections, what MongoDB opens for itself
_STEPS = (1 << 20, 1 << 16, 10_240, 4_096)  # macOS reports "unlimited" but refuses more than it supports
_RAISE = (
    "raise its hard limit (ulimit -n, LimitNOFILE in a systemd unit, SoftResourceLimits in a launchd one) "
    "and restart the daemon"
)


def raise_limit() -> int | None:
    """Raise the soft limit of open files to the maximum, for this process and its children; return it, None for no limit."""
    if sys.platform == "win32":
        return None
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for target in (hard, *_STEPS):
        is_higher = soft != resource.RLIM_INFINITY and (target == resource.RLIM_INFINITY or target > soft)
        if is_higher and (hard == resource.RLIM_INFINITY or target <= hard):
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
                break
    return limit()


def limit() -> int | None:
    """Return the soft limit of open files, None for no limit."""
    if sys.platform == "win32":
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def max_scopes() -> int | None:
    """Return how many scopes the limit allows, None for no limit."""
    files = limit()
    return None if files is None else max(1, (files - FILES_BESIDE) // FILES_OF_SCOPE)


def too_few_to_start() -> str | None:
    """Return an error message if the limit is too low for MongoDB with one scope, else None."""
    files, needed = limit(), FILES_BESIDE + FILES_OF_SCOPE
    if files is None or files >= needed:
        return None
    return f"it needs at least {needed:,} open files, and the limit of open files is {files:,}; {_RAISE}"


def too_few(scopes: int) -> str | None:
    """Return an error message if the limit is too low for that many scopes, else None."""
    maximum = max_scopes()
    if maximum is None or scopes <= maximum:
        return None
    needed = FILES_BESIDE + scopes * FILES_OF_SCOPE
    return (
        f"{format_count(scopes, 'scope')} need about {needed:,} open files, and the limit of open files is {limit():,} "
        f"(enough for {format_count(maximum, 'scope')}); {_RAISE}"
    )
