"""What Windows lacks is needed by no import."""

from __future__ import annotations

import subprocess
import sys

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
