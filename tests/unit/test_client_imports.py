"""The thin client is light: `serve` imports the standard library and a handful of our own modules, nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Does what `infinite-memory serve` does until it would reach for the daemon, then lists every module that is loaded.
PROBE = """\
import json, os, sys
before = set(sys.modules)
from infinite_memory import client, local_socket
from infinite_memory.cli import main
client.Pipe.run = lambda self: 0
os._exit = sys.exit
kept = os.dup(1)
try:
    main(["serve"])
except SystemExit:
    pass
names = sorted(set(sys.modules) - before)
os.write(kept, json.dumps({name: getattr(sys.modules[name], "__file__", None) or "" for name in names}).encode())
"""

OURS = {
    "infinite_memory",
    "infinite_memory.cli",
    "infinite_memory.cli.lifecycle",
    "infinite_memory.cli.progress",
    "infinite_memory.cli.reach",
    "infinite_memory.cli.scopes",
    "infinite_memory.cli.serve",
    "infinite_memory.cli.tokens",
    "infinite_memory.client",
    "infinite_memory.errors",
    "infinite_memory.greeting",
    "infinite_memory.home",
    "infinite_memory.local_socket",
    "infinite_memory.unanswered",
}

HEAVY = {"asyncio", "logging", "dataclasses", "subprocess", "tempfile", "hashlib", "secrets", "inspect", "zoneinfo"}
"""Parts of the standard library that cost a client milliseconds or megabytes, and that it can do without."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    environ = os.environ | {"PYTHONPATH": str(ROOT), "INFINITE_MEMORY_HOME": str(tmp_path_factory.mktemp("home"))}
    done = subprocess.run([sys.executable, "-c", PROBE], env=environ, capture_output=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_serve_loads_none_but_a_few_of_our_modules(loaded: dict[str, str]) -> None:
    ours = {name for name in loaded if name.split(".")[0] == "infinite_memory"}
    assert ours <= OURS
    assert "infinite_memory.client" in ours


def test_serve_loads_no_package_of_others(loaded: dict[str, str]) -> None:
    packages = [name for name, file in loaded.items() if "site-packages" in file]
    assert packages == []


def test_serve_leaves_the_heavy_parts_of_the_standard_library_alone(loaded: dict[str, str]) -> None:
    assert HEAVY.isdisjoint(loaded)
