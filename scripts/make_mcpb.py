#!/usr/bin/env python3
"""Builds the Claude Desktop extension, `dist/infinite-memory.mcpb`: manifest, icon, and a launcher for the installed command.

    .venv/bin/python scripts/make_mcpb.py [FOLDER]      FOLDER gets the bundle and, unpacked beside it, what is in it

The bundle holds no memory and no model: it connects Claude Desktop to the `infinite-memory` that is installed. `scripts/conformance`
checks it with the official packer.
"""

from __future__ import annotations

import json
import shutil
import struct
import sys
import zipfile
import zlib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from infinite_memory import __version__  # noqa: E402
from infinite_memory.contracts.native import TABLE  # noqa: E402
from infinite_memory.contracts.native.prompts import PROMPTS  # noqa: E402

SIDE = 512  # pixels of the icon


def manifest() -> dict[str, object]:
    """Describe the extension (manifest version 0.3)."""
    arguments = ["${__dirname}/server/main.py"]
    for option, setting in (("--command", "command"), ("--home", "home"), ("--scope", "scope")):
        arguments += [option, "${user_config." + setting + "}"]
    return {
        "manifest_version": "0.3",
        "name": "infinite-memory",
        "display_name": "InfiniteMemory",
        "version": __version__,
        "description": "A long-term memory for assistants that stays on your machine",
        "author": {"name": "InfiniteMemory contributors"},
        "license": "MIT",
        "icon": "icon.png",
        "server": {
            "type": "python",
            "entry_point": "server/main.py",
            "mcp_config": {
                "command": "python3",
                "args": arguments,
                "env": {},
                "platform_overrides": {"win32": {"command": "python", "args": arguments, "env": {}}},
            },
        },
        "tools": [{"name": one.name, "description": one.about} for one in TABLE],
        "prompts": [
            {"name": one.name, "description": one.about, "arguments": [str(a["name"]) for a in one.arguments], "text": one.title}
            for one in PROMPTS
        ],
        "user_config": {
            "home": {"type": "directory", "title": "Home folder", "required": False, "default": "",
                     "description": "Where the memory lies; empty: the usual place"},
            "scope": {"type": "string", "title": "Scope", "required": False, "default": "",
                      "description": "The scope that is active at first; empty: Global"},
            "command": {"type": "file", "title": "Path of infinite-memory", "required": False, "default": "",
                        "description": "The installed command; empty: it is looked for"},
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


def main(folder: Path) -> int:
    unpacked = folder / "mcpb"
    shutil.rmtree(unpacked, ignore_errors=True)
    (unpacked / "server").mkdir(parents=True)
    (unpacked / "manifest.json").write_text(json.dumps(manifest(), indent=2) + "\n", "utf-8")
    (unpacked / "icon.png").write_bytes(icon())
    shutil.copy(ROOT / "scripts" / "mcpb" / "main.py", unpacked / "server" / "main.py")
    bundle = folder / "infinite-memory.mcpb"
    with zipfile.ZipFile(bundle, "w", zipfile.ZIP_DEFLATED) as packed:
        for file in sorted(one for one in unpacked.rglob("*") if one.is_file()):
            packed.write(file, file.relative_to(unpacked).as_posix())
    print(bundle)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"))
