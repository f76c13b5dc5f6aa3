"""The Claude Desktop extensions: what is in the bundles, and that the launcher starts the installed command."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from infinite_memory import __version__
from infinite_memory.contracts.native.contract import TABLE
from infinite_memory.contracts.native.tools import NO_TOOLS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, str(ROOT / "scripts" / "make_mcpb.py"), str(made)], check=True, capture_output=True)
    return made


def contents(bundle: Path) -> tuple[set[str], Any]:
    with zipfile.ZipFile(bundle) as packed:
        return set(packed.namelist()), json.loads(packed.read("manifest.json"))


def test_the_bundle_holds_the_package_itself(folder: Path) -> None:
    names, manifest = contents(folder / "infinite-memory.mcpb")
    wheel = f"infinite_memory-{__version__}-py3-none-any.whl"
    assert names == {"icon.png", "manifest.json", "pyproject.toml", "server/main.py", wheel}
    assert (manifest["manifest_version"], manifest["server"]["type"]) == ("0.4", "uv")
    assert manifest["name"] == "infinite-memory"
    assert {tool["name"] for tool in manifest["tools"]} == {command.name for command in TABLE} - NO_TOOLS
    assert set(manifest["user_config"]) == {"home", "scope"}
    project = tomllib.loads((folder / "mcpb" / "pyproject.toml").read_text())
    assert project["tool"]["uv"]["sources"]["infinite-memory"]["path"] == wheel


def test_the_launchers_bundle_holds_manifest_icon_and_launcher(folder: Path) -> None:
    names, manifest = contents(folder / "infinite-memory-launcher.mcpb")
    assert names == {"icon.png", "manifest.json", "server/main.py"}
    assert {tool["name"] for tool in manifest["tools"]} == {command.name for command in TABLE} - NO_TOOLS
    assert set(manifest["user_config"]) == {"home", "scope", "command"}
    assert manifest["name"] == "infinite-memory-launcher"


def test_the_launcher_hands_the_settings_to_the_command(folder: Path, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.write_text('#!/bin/sh\nprintf "%s|" "$INFINITE_MEMORY_HOME" "$@"\n')
    shown.chmod(0o700)
    launcher = folder / "mcpb" / "server" / "main.py"
    options = ["--command", str(shown), "--home", "/a home", "--scope", "Work"]
    done = subprocess.run([sys.executable, str(launcher), *options], capture_output=True, text=True, check=True)
    assert done.stdout == "/a home|serve|--scope|Work|"
    options = ["--command", str(shown), "--home", "", "--scope", "${user_config.scope}"]
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(launcher), *options], capture_output=True, text=True, check=True, env=environ
    )
    assert done.stdout == "|serve|"


def test_without_the_command_the_launcher_says_so(folder: Path, tmp_path: Path) -> None:
    launcher = folder / "mcpb" / "server" / "main.py"
    environ = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-S", str(launcher)], capture_output=True, text=True, check=False, env=environ
    )  # without the packages of this environment, which have the program
    assert done.returncode == 1
    assert "not installed" in done.stderr
