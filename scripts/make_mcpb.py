#!/usr/bin/env python3
"""Builds the Claude Desktop extensions `dist/infinite-memory.mcpb` and `dist/infinite-memory-launcher.mcpb`.

    .venv/bin/python scripts/make_mcpb.py [FOLDER]      FOLDER gets the bundles and, unpacked beside them, what is in them

The first needs nothing installed before: it holds the package itself, and the client's own uv installs what that depends on. The
second holds a launcher alone, for the `infinite-memory` that is installed already. Neither holds a memory or a model.
`scripts/conformance` checks both with the official packer.
"""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from infinite_memory import __version__  # noqa: E402
from infinite_memory.contracts.native.contract import TABLE  # noqa: E402
from infinite_memory.contracts.native.prompts import PROMPTS  # noqa: E402
from infinite_memory.contracts.native.tools import NO_TOOLS  # noqa: E402

Json = dict[str, Any]

SIDE = 512  # pixels of the icon


def launcher_manifest() -> Json:
    """Describe the extension that starts the installed command (manifest version 0.3)."""
    arguments = ["${__dirname}/server/main.py", *_options("command", "home", "scope")]
    server = {
        "type": "python",
        "entry_point": "server/main.py",
        "mcp_config": {
            "command": "python3",
            "args": arguments,
            "env": {},
            "platform_overrides": {"win32": {"command": "python", "args": arguments, "env": {}}},
        },
    }
    described = _manifest("0.3", server) | {"name": "infinite-memory-launcher"}
    described["user_config"]["command"] = {
        "type": "file", "title": "Path of infinite-memory", "required": False, "default": "",
        "description": "The installed command; empty: it is looked for",
    }  # fmt: skip
    return described


def uv_manifest() -> Json:
    """Describe the extension that brings the package with it (manifest version 0.4, the first with uv)."""
    arguments = ["run", "--directory", "${__dirname}", "server/main.py", *_options("home", "scope")]
    server = {
        "type": "uv",
        "entry_point": "server/main.py",
        "mcp_config": {"command": "uv", "args": arguments, "env": {}},
    }
    return _manifest("0.4", server)


def _options(*settings: str) -> list[str]:
    return [text for setting in settings for text in (f"--{setting}", "${user_config." + setting + "}")]


def _manifest(version: str, server: Json) -> Json:
    """Return what both extensions say of themselves."""
    return {
        "manifest_version": version,
        "name": "infinite-memory",
        "display_name": "InfiniteMemory",
        "version": __version__,
        "description": "A long-term memory for assistants that stays on your machine",
        "author": {"name": "InfiniteMemory contributors"},
        "license": "MIT",
        "icon": "icon.png",
        "server": server,
        "tools": [{"name": one.name, "description": one.about} for one in TABLE if one.name not in NO_TOOLS],
        "prompts": [
            {"name": one.name, "description": one.about, "arguments": [str(a["name"]) for a in one.arguments], "text": one.title}
            for one in PROMPTS
        ],
        "user_config": {
            "home": {"type": "directory", "title": "Home folder", "required": False, "default": "",
                     "description": "Where the memory lies; empty: the usual place"},
            "scope": {"type": "string", "title": "Scope", "required": False, "default": "",
                      "description": "The scope that is active at first; empty: Global"},
        },
        "compatibility": {"platforms": ["darwin", "win32", "linux"], "runtimes": {"python": ">=3.11"}},
    }  # fmt: skip


def icon() -> bytes:
    """Draw the icon: a ring on a dark ground, as PNG."""
    rows = bytearray()
    middle, outer, inner = (SIDE - 1) / 2, SIDE * 0.38, SIDE * 0.24
    for y in range(SIDE):
        rows.append(0)
        for x in range(SIDE):
            far = ((x - middle) ** 2 + (y - middle) ** 2) ** 0.5
            rows += b"\xf2\xc1\x4e" if inner <= far <= outer else b"\x1f\x2a\x44"
    head = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(rows), 9)), (b"IEND", b""))
    chunks = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def project() -> str:
    """Return the ``pyproject.toml`` by which uv installs the package that lies beside it."""
    return f"""\
[project]
name = "infinite-memory-extension"
version = "{__version__}"
requires-python = ">=3.11"
dependencies = ["infinite-memory"]

[tool.uv]
package = false

[tool.uv.sources]
infinite-memory = {{ path = "{wheel_name()}" }}
"""


def wheel_name() -> str:
    """Return the name of this version's wheel."""
    return f"infinite_memory-{__version__}-py3-none-any.whl"


def build_wheel(folder: Path) -> None:
    """Build the wheel of this checkout into *folder*, from a copy: a build leaves files beside its sources."""
    with tempfile.TemporaryDirectory() as source:
        for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, source)
        unwanted = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "infinite_memory", Path(source, "infinite_memory"), ignore=unwanted)
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
        subprocess.run([*command, "--wheel-dir", str(folder), source], check=True, stdout=sys.stderr)


def pack(unpacked: Path, manifest: Json, bundle: Path) -> None:
    """Add to *unpacked* what every extension has, and write it as one file."""
    (unpacked / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", "utf-8")
    (unpacked / "icon.png").write_bytes(icon())
    (unpacked / "server").mkdir()
    shutil.copy(ROOT / "scripts" / "mcpb" / "main.py", unpacked / "server" / "main.py")
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(path for path in unpacked.rglob("*") if path.is_file()):
            packed.write(file, file.relative_to(unpacked).as_posix())
    print(bundle)


def main(folder: Path) -> int:
    """Build both bundles into *folder*."""
    whole, launcher = folder / "mcpb", folder / "mcpb-launcher"
    for unpacked in (whole, launcher):
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir(parents=True)
    build_wheel(whole)
    (whole / "pyproject.toml").write_text(project(), "utf-8")
    pack(whole, uv_manifest(), folder / "infinite-memory.mcpb")
    pack(launcher, launcher_manifest(), folder / "infinite-memory-launcher.mcpb")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"))
