"""How many arenas the heap of a process has: few, however many threads come and go; its start sets that before there are any."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Mapping

import pytest

from infinite_memory.malloc_tuning import ARENAS
from tests.processes import ROOT

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc"
)

THREADS = 8  # glibc's own bound is eight arenas for each core
COUNT_ARENAS = f"""
import ctypes, re, tempfile, threading
{{begin}}
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
libc.fdopen.restype, libc.fdopen.argtypes = ctypes.c_void_p, [ctypes.c_int, ctypes.c_char_p]
libc.malloc_info.argtypes, libc.fflush.argtypes = [ctypes.c_int, ctypes.c_void_p], [ctypes.c_void_p]
together = threading.Barrier({THREADS})
def work():
    block = libc.malloc(60_000)
    together.wait()
    libc.free(block)
threads = [threading.Thread(target=work) for _ in range({THREADS})]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with tempfile.TemporaryFile() as file:
    stream = libc.fdopen(file.fileno(), b"w")
    libc.malloc_info(0, stream)
    libc.fflush(stream)
    file.seek(0)
    print(len(re.findall(rb"<heap nr=", file.read())))
"""
PREPARE = "from infinite_memory.bootstrap import prepare_process; prepare_process()"


def count_arenas(begin: str, environ: Mapping[str, str] | None = None) -> int:
    """Let many threads allocate at the same time, after *begin*, in a process of its own."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    program = COUNT_ARENAS.format(begin=begin)
    done = subprocess.run(
        [sys.executable, "-c", program], env=own | dict(environ or {}), cwd=ROOT, capture_output=True, text=True, check=False
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_a_prepared_process_has_few_arenas_however_many_threads_it_had() -> None:
    assert count_arenas("pass") > ARENAS  # or this would tell nothing
    assert count_arenas(PREPARE) == ARENAS


def test_who_starts_the_process_may_say_how_many_arenas_there_are() -> None:
    assert count_arenas(PREPARE, {"MALLOC_ARENA_MAX": "4"}) == 4
    assert count_arenas(PREPARE, {"GLIBC_TUNABLES": "glibc.malloc.arena_max=3"}) == 3
