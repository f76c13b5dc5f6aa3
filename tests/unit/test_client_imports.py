"""The thin client is light: `serve` imports the standard library and a handful of our own modules, nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infinite_memory.contracts.registry import MODULES

ROOT = Path(__file__).resolve().parents[2]

# Does what `infinite-memory serve` does until it would reach for the daemon, then lists every module that is loaded.
PROBE = """\
import json, os, sys
before = set(sys.modules)
from infinite_memory.daemon import stdio_proxy, ipc
from infinite_memory.cli import main
stdio_proxy.StdioProxy.run = lambda self: 0
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
    "infinite_memory.cli.completion",
    "infinite_memory.cli.editor",
    "infinite_memory.cli.forget",
    "infinite_memory.cli.memories",
    "infinite_memory.cli.move",
    "infinite_memory.cli.open_page",
    "infinite_memory.cli.status",
    "infinite_memory.cli.tables",
    "infinite_memory.cli.tail",
    "infinite_memory.cli.lifecycle",
    "infinite_memory.cli.progress",
    "infinite_memory.cli.daemon_requests",
    "infinite_memory.cli.repair",
    "infinite_memory.cli.scopes",
    "infinite_memory.cli.serve",
    "infinite_memory.cli.setup",
    "infinite_memory.cli.terminal",
    "infinite_memory.cli.tokens",
    "infinite_memory.cli.undo_journal",
    "infinite_memory.cli.uninstall",
    "infinite_memory.cli.why",
    "infinite_memory.contracts",
    *(f"infinite_memory.contracts.{name}" for name in ("registry", "spec")),
    *(module for spec in MODULES for module in (spec, spec.removesuffix(".spec"))),
    "infinite_memory.daemon.stdio_proxy",
    "infinite_memory.errors",
    "infinite_memory.daemon",
    "infinite_memory.daemon.handover",
    "infinite_memory.daemon.handshake",
    "infinite_memory.paths",
    "infinite_memory.platform_files",
    "infinite_memory.platform_processes",
    "infinite_memory.daemon.ipc",
    "infinite_memory.transports",
    "infinite_memory.transports.strict_json",
    "infinite_memory.redaction",
    "infinite_memory.daemon.pending_requests",
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
    assert "infinite_memory.daemon.stdio_proxy" in ours


def test_serve_loads_no_package_of_others(loaded: dict[str, str]) -> None:
    packages = [name for name, file in loaded.items() if "site-packages" in file]
    assert packages == []


def test_serve_leaves_the_heavy_parts_of_the_standard_library_alone(loaded: dict[str, str]) -> None:
    assert HEAVY.isdisjoint(loaded)
