"""Starts processes that outlive their parent, on every platform. Standard library only: hooks import this.

POSIX has sessions: a process in a new one gets no signals from the terminal. On Windows a process shares the console of its parent, is
interrupted and closed with it, and ends with the job object that a client may have put its servers into. So there it is started without
a console, in its own process group, and outside of the job if the job allows that. Never run on Windows; `tests/unit/test_platforms.py`
checks the flags, whose values are those of ``winbase.h``.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess

CREATE_NEW_PROCESS_GROUP = 0x00000200
CREATE_BREAKAWAY_FROM_JOB = 0x01000000
CREATE_NO_WINDOW = 0x08000000


def detaching_options(system: str = os.name) -> list[dict[str, Any]]:
    """Return alternative `subprocess.Popen` arguments that detach a process, in the order to try them."""
    if system != "nt":
        return [{"start_new_session": True}]
    flags = CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW
    return [{"creationflags": flags | CREATE_BREAKAWAY_FROM_JOB}, {"creationflags": flags}]


def start_detached(command: Sequence[str], *, system: str = os.name, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that survives the end of this one, its terminal or its window.

    Args:
        options: Further arguments of `subprocess.Popen`.

    Raises:
        OSError: it cannot be started.
    """
    import subprocess

    *firsts, last = detaching_options(system)
    for first in firsts:
        try:
            return subprocess.Popen(command, **options, **first)
        except PermissionError:  # the job does not allow breakaway
            continue
    return subprocess.Popen(command, **options, **last)
