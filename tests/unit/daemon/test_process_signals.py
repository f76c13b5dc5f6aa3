"""What Windows lacks is needed by no import, and signals reach a loop that has no handlers of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys

from infinite_memory.daemon import process_signals

IMPORT_ALL = """
import importlib, pkgutil, sys
import infinite_memory

def load():
    for found in pkgutil.walk_packages(infinite_memory.__path__, "infinite_memory."):
        if not found.name.endswith("__main__") and ".adapters." not in found.name:
            importlib.import_module(found.name)

load()  # so that other people's packages are loaded as this system has them
for name in [name for name in sys.modules if name.partition(".")[0] == "infinite_memory"]:
    del sys.modules[name]
import infinite_memory
for name in ("fcntl", "resource", "pwd", "grp", "termios", "pty"):
    sys.modules[name] = None
sys.platform = "win32"
load()
"""


def test_every_module_is_imported_where_windows_lacks_what_posix_has() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class WindowsLoop(asyncio.SelectorEventLoop):
    def add_signal_handler(self, sig: int, callback: object, *args: object) -> None:  # type: ignore[override]
        raise NotImplementedError


def test_a_signal_reaches_a_loop_without_handlers() -> None:
    async def scenario() -> None:
        stop = asyncio.Event()
        process_signals.add_handler(asyncio.get_running_loop(), "SIGTERM", stop.set)
        process_signals.add_handler(asyncio.get_running_loop(), "SIGNONE", stop.set)
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()

    before = signal.getsignal(signal.SIGTERM)
    try:
        with asyncio.Runner(loop_factory=WindowsLoop) as runner:
            runner.run(scenario())
    finally:
        signal.signal(signal.SIGTERM, before)
