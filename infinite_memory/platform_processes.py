"""Starting a process that outlives the one that starts it, on every system. Standard library only: hooks import this.

POSIX has sessions: a process of a new one gets no signal of the terminal. Windows has none; a process shares the console of its parent, is
interrupted and closed with it, and ends with the job that a client may have put its servers into. So there it is started without a console,
in a process group of its own and outside of the job where the job lets it go. Never run on Windows; `tests/unit/test_platforms.py` looks at
the flags, whose values are those of ``winbase.h``.
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
    """Return the arguments of `subprocess.Popen` that detach a process; where the first are refused, the next are tried."""
    if system != "nt":
        return [{"start_new_session": True}]
    flags = CREATE_NEW_PROCESS_GROUP | CREATE_NO_WINDOW
    return [{"creationflags": flags | CREATE_BREAKAWAY_FROM_JOB}, {"creationflags": flags}]


def start_detached(command: Sequence[str], *, system: str = os.name, **options: Any) -> subprocess.Popen[bytes]:
    """Start a process that goes on when this one, its terminal or its window ends.

    Args:
        options: More arguments of `subprocess.Popen`.

    Raises:
        OSError: it cannot be started.
    """
    import subprocess

    *firsts, last = detaching_options(system)
    for first in firsts:
        try:
            return subprocess.Popen(command, **options, **first)
        except PermissionError:  # the job lets no process go
            continue
    return subprocess.Popen(command, **options, **last)
