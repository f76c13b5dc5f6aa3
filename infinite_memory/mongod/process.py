"""Processes of mongod: start one that ends with its parent, find the one that runs on a data folder, and stop one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

if sys.platform != "win32":
    import fcntl

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 20.0
_POLL_S = 0.02

_WITH_PARENT = """\
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() != int(sys.argv[1]):
    sys.exit(1)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Asks the kernel to terminate mongod with its parent (PR_SET_PDEATHSIG is 1), then executes mongod. A separate program and not a
`preexec_fn`, which may deadlock in a process with threads."""


def with_parent(command: Sequence[str]) -> list[str]:
    """Return a command that runs *command* and terminates it with this process, if the system supports that."""
    if sys.platform == "linux" and sys.executable:
        return [sys.executable, "-I", "-S", "-c", _WITH_PARENT, str(os.getpid()), *command]
    return list(command)


_FROM_ENVIRONMENT = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "GLIBC_TUNABLES",
)
"""Variables that mongod and its libraries may need. Others, such as settings, tokens and keys of other programs, are not passed."""


def environment(environ: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the environment of the managed mongod. It includes the home, which identifies our processes."""
    return {name: environ[name] for name in _FROM_ENVIRONMENT if name in environ} | {"INFINITE_MEMORY_HOME": str(home)}


def running_pid(data: Path) -> int | None:
    """Return the process id of the mongod that runs on a data folder, or None.

    mongod holds a lock on ``mongod.lock`` while it runs, and the kernel releases it however it dies.
    """
    try:
        fd = os.open(data / "mongod.lock", os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if take_lock(fd):
            return None
        text = os.read(fd, 32).decode(errors="replace").strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(fd)


def take_lock(fd: int) -> bool:
    """Take an exclusive lock on an open file without waiting; closing the file releases it."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


async def end_process(pid: int, has_ended: Callable[[], bool]) -> None:
    """Terminate a process, kill it if it does not exit in time, and wait for its exit."""
    for number, timeout_s in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, STOP_TIMEOUT_S)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if has_ended():
                return
            await asyncio.sleep(_POLL_S)
        log.warning("mongod did not end in time", extra={"event": "mongod_slow_stop", "pid": pid})
