"""How a daemon run by a service manager exits for an upgraded program. Standard library only: the thin client imports this.

A client of another version stops a daemon that clients start, and starts its own. It must not do so to a service: `Restart=on-failure`
does not restart a process that exited with 0, and a daemon started by a client lacks the unit's environment. So a service exits for such
a client only if the program on disk is no longer the one it runs, with `RESTART_CODE`, which makes the manager restart it. Clients leave
the start to the service manager while a marker file in the home says so; it is valid while the old daemon finishes and for `RESTART_S`
after that.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from infinite_memory.daemon import ipc

RESTART_CODE = 75  # EX_TEMPFAIL of sysexits.h: try again
RESTART_S = 15.0  # after this the service is not expected: `Restart=no`, or its program is gone
_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)


def find_installed_version() -> str | None:
    """Return the version of the program now installed where this one was loaded from; None if there is none."""
    try:
        text = (Path(__file__).resolve().parents[1] / "__init__.py").read_text("utf-8")
    except OSError:
        return None
    match = _VERSION.search(text)
    return match[1] if match else None


def marker_path(home: Path) -> Path:
    """Return the marker file: the service manager starts the next daemon."""
    return home / "daemon.restarting"


def announce_restart(home: Path) -> None:
    """Record that the service manager starts the next daemon of *home*; do nothing if the file cannot be written."""
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        os.close(os.open(marker_path(home), flags, 0o600))
        os.utime(marker_path(home))


def withdraw_restart(home: Path) -> None:
    """Remove that record: a daemon is running."""
    with contextlib.suppress(OSError):
        marker_path(home).unlink()


def is_restart_expected(home: Path) -> bool:
    """True while the service manager is about to start the daemon of *home*."""
    try:
        age_s = time.time() - marker_path(home).lstat().st_mtime
    except OSError:
        return False
    return 0 <= age_s < RESTART_S or ipc.is_held(ipc.lock_path(home))
