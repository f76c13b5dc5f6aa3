"""What an import takes of memory for files that are made to take much, each read by a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes import LONG, ROOT

MIB = 1 << 20
BRACKETS_MIB = 4 if LONG else 2  # several of the pieces in which a file is read

_BRACKETS_CODE = """
import resource, sys
from pathlib import Path
from tests.import_files import read_entries
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print(len(read_entries(Path(sys.argv[1]))[1]))
except Exception as problem:
    print(type(problem).__name__)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "make",
    [
        lambda size: b"[" + b"[]," * (size // 3) + b"[]]",
        lambda size: b'{"memories": [' + b"{}," * (size // 3) + b"{}]}",
        lambda size: b'{"memories": [[' + b"[]," * (size // 3) + b"[]]]}",
        lambda size: b'{"a": {"b": [' + b'{"c":1},' * (size // 8) + b"{}]}}",
        lambda size: b'{"content": "x", "state": "active", "more": [' + b"[]," * (size // 3) + b"[]]}",
    ],
)
def test_brackets_cost_little_more_than_the_file(tmp_path: Path, make: Callable[[int], bytes]) -> None:
    (tmp_path / "a.json").write_bytes(make(BRACKETS_MIB * MIB))
    done = subprocess.run(
        [sys.executable, "-c", _BRACKETS_CODE, str(tmp_path / "a.json")], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=True, timeout=250,
    )  # fmt: skip
    assert int(done.stdout.split()[1]) < 25 * BRACKETS_MIB, done.stdout
